struct Params { elements: u32, terms: f32, epsilon: f32, skip_nan: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> stored: array<f32>;
@group(0) @binding(2) var<storage, read> sums_of: array<f32>;
@group(0) @binding(3) var<storage, read> scale: array<f32>;
// Learning rate, decay, 1 - decay, weight decay.
@group(0) @binding(4) var<storage, read> scalars: array<f32>;
@group(0) @binding(5) var<storage, read_write> updated: array<f32>;

@compute @workgroup_size(64)
fn second_moment(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        let mean = scale[0] * scale[0] * (sums_of[i] / p.terms) + p.epsilon;
        let value = scalars[1] * stored[i] + scalars[2] * mean;
        updated[i] = value;
        stored[i] = unless_nan(value, stored[i], p.skip_nan);
    }
}
