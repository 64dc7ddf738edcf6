// `beta`: what momentum keeps; for `moment`, what is added to squares.
struct Params { shape: Layout, r: Reduction, elements: u32, beta: f32, skip_nan: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(2) var<storage, read> gradients: array<f32>;
// Learning rate, decay, 1 - decay, weight decay.
@group(0) @binding(4) var<storage, read> scalars: array<f32>;

@group(0) @binding(1) var<storage, read_write> moments_of: array<f32>;
@group(0) @binding(3) var<storage, read> scale: array<f32>;
@group(0) @binding(5) var<storage, read_write> squares: array<f32>;

@compute @workgroup_size(64)
fn moment(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.r.outputs * p.r.splits {
        return;
    }
    let at = output_and_split(p.r, i);
    let start = kept_offset(p.r, at.x);
    var sum = 0.0;
    for (var term = at.y; term < p.r.terms; term += p.r.splits) {
        let element = start + term_offset(p.r, term);
        let gradient = gradients[element];
        let scaled = gradient * scale[0];
        let old = moments_of[element];
        let value = scalars[1] * old + scalars[2] * (scaled * scaled + p.beta);
        moments_of[element] = unless_nan(value, old, p.skip_nan);
        let step = gradient * inverseSqrt(value);
        sum += step * step;
    }
    squares[at.y * p.r.outputs + at.x] = sum;
}

@group(0) @binding(1) var<storage, read_write> parameters: array<f32>;
@group(0) @binding(3) var<storage, read> moments: array<f32>;
@group(0) @binding(5) var<storage, read> step_sizes: array<f32>;
@group(0) @binding(6) var<storage, read_write> momenta: array<f32>;

fn update_of(i: u32) -> f32 {
    return step_sizes[place(p.shape, i).z] * (gradients[i] * inverseSqrt(moments[i]));
}
