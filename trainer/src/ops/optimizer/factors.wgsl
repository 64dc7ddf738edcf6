struct Params { shape: Layout, elements: u32, rows: f32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> moments: array<f32>;
@group(0) @binding(2) var<storage, read> totals: array<f32>;
@group(0) @binding(3) var<storage, read_write> factors_of: array<f32>;

@compute @workgroup_size(64)
fn factors(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.elements {
        return;
    }
    var moment = moments[i];
    if p.rows > 0.0 {
        moment /= totals[place(p.shape, i).z] / p.rows;
    }
    factors_of[i] = inverseSqrt(moment);
}
