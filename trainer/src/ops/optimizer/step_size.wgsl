// `scaled` and `clipped`: how many squares are in a sum; 0 where there is none.
struct Params { batches: u32, scaled: f32, least: f32, most: f32, clipped: f32, threshold: f32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> scale: array<f32>;
// Learning rate, decay, 1 - decay, weight decay.
@group(0) @binding(2) var<storage, read> scalars: array<f32>;
@group(0) @binding(3) var<storage, read> parameter_squares: array<f32>;
@group(0) @binding(4) var<storage, read> update_squares: array<f32>;
@group(0) @binding(5) var<storage, read_write> step_sizes: array<f32>;

@compute @workgroup_size(64)
fn step_size(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let batch = linear_index(group, groups, local, 64u);
    if batch >= p.batches {
        return;
    }
    var step = scalars[0];
    if p.scaled > 0.0 {
        let root = max_or_nan(sqrt(parameter_squares[batch] / p.scaled), p.least);
        if root > p.most {
            step *= p.most;
        } else {
            step *= root;
        }
    }
    if p.clipped > 0.0 {
        step /= max_or_nan(abs(scale[0]) * sqrt(update_squares[batch] / p.clipped) / p.threshold, 1.0);
    }
    step_sizes[batch] = step * scale[0];
}
