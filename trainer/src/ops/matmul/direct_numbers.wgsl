// Results of 8 by 8 an invocation: drivers take a second to compile loads of single numbers for more.
@compute @workgroup_size(8, 4)
fn direct(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let tile = tile_of(linear_group(group, groups));
    let m = (tile.m * 4u + local.y) * 8u;
    let n = (tile.n * 8u + local.x) * 8u;
    if !tile.exists || m >= p.m || n >= p.n {
        return;
    }
    var rows_a0 = rows_of_a(tile.batch, m, 0u);
    var rows_a1 = rows_of_a(tile.batch, m + 4u, 0u);
    var rows_b0 = rows_of_b(tile.batch, 0u, n);
    var rows_b1 = rows_of_b(tile.batch, 0u, n + 4u);
    let step_a = step_of_a(4u);
    let step_b = step_of_b(4u);
    var c00 = mat4x4<f32>();
    var c01 = mat4x4<f32>();
    var c10 = mat4x4<f32>();
    var c11 = mat4x4<f32>();
    for (var k = 0u; k < p.k; k += 4u) {
        let b0 = block_of_b(rows_b0, k);
        let b1 = block_of_b(rows_b1, k);
        let a0 = block_of_a(rows_a0, k);
        c00 = multiply_add(a0, b0, c00);
        c01 = multiply_add(a0, b1, c01);
        let a1 = block_of_a(rows_a1, k);
        c10 = multiply_add(a1, b0, c10);
        c11 = multiply_add(a1, b1, c11);
        rows_a0 += step_a;
        rows_a1 += step_a;
        rows_b0 += step_b;
        rows_b1 += step_b;
    }
    store_block(tile.batch, m, n, c00);
    store_block(tile.batch, m, n + 4u, c01);
    store_block(tile.batch, m + 4u, n, c10);
    store_block(tile.batch, m + 4u, n + 4u, c11);
}
