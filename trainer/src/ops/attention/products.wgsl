@group(0) @binding(1) var<storage, read> of_y: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read> sums: array<f32>;
@group(0) @binding(4) var<storage, read> of_sums: array<f32>;
@group(0) @binding(5) var<storage, read_write> rows: array<vec2<f32>>;

// What softmax's derivative subtracts: the sum of probabilities times their gradients.
@compute @workgroup_size(64)
fn products(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.batch * p.heads * p.queries {
        return;
    }
    let by_head = i / p.queries;
    let row = by_head / p.heads * p.queries + i % p.queries;
    let at = (row * p.heads + by_head % p.heads) * p.width;
    var product = 0.0;
    for (var c = 0u; c < p.width; c++) {
        product += y[at + c] * of_y[at + c];
    }
    if p.flag != 0u {
        product -= of_sums[i];
    }
    rows[i] = vec2<f32>(sums[i], product);
}
