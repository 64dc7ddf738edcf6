struct Params { elements: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> sum: array<f32>;
@group(0) @binding(2) var<storage, read> x: array<f32>;
@group(0) @binding(3) var<storage, read> fresh: array<i32>;

@compute @workgroup_size(64)
fn accumulate(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        // What was there may be no number, so it must not be multiplied away.
        sum[i] = select(sum[i], 0.0, fresh[0] != 0) + x[i];
    }
}
