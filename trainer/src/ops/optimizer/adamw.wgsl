struct Params {
    elements: u32,
    beta1: f32,
    mixing1: f32,
    beta2: f32,
    mixing2: f32,
    epsilon: f32,
    weight_decay: f32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> parameters: array<f32>;
@group(0) @binding(2) var<storage, read_write> first: array<f32>;
@group(0) @binding(3) var<storage, read_write> second: array<f32>;
@group(0) @binding(4) var<storage, read> gradients: array<f32>;
@group(0) @binding(5) var<storage, read> scale: array<f32>;
// Learning rate, both bias corrections.
@group(0) @binding(6) var<storage, read> scalars: array<f32>;

@compute @workgroup_size(64)
fn adamw(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.elements {
        return;
    }
    let gradient = gradients[i] * scale[0];
    let m = p.mixing1 * gradient + p.beta1 * first[i];
    let v = p.mixing2 * (gradient * gradient) + p.beta2 * second[i];
    first[i] = m;
    second[i] = v;
    let change = m / scalars[1] / (sqrt(v / scalars[2]) + p.epsilon);
    let old = parameters[i];
    parameters[i] = old - scalars[0] * (change + p.weight_decay * old);
}
