struct Params { r: Reduction, square: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> sums_of: array<f32>;

@compute @workgroup_size(64)
fn sums(
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
        let value = x[start + term_offset(p.r, term)];
        sum += select(value, value * value, p.square == 1u);
    }
    sums_of[at.y * p.r.outputs + at.x] = sum;
}
