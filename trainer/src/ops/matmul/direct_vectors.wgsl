// Results of 16 by 8 an invocation, as many as a processor's first cache holds while it loads few numbers for each.
@compute @workgroup_size(8, 4)
fn direct(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let tile = tile_of(linear_group(group, groups));
    let m = (tile.m * 4u + local.y) * 16u;
    let n = (tile.n * 8u + local.x) * 8u;
    if !tile.exists || m >= p.m || n >= p.n {
        return;
    }
    var rows_a0 = rows_of_a(tile.batch, m, 0u);
    var rows_a1 = rows_of_a(tile.batch, m + 4u, 0u);
    var rows_a2 = rows_of_a(tile.batch, m + 8u, 0u);
    var rows_a3 = rows_of_a(tile.batch, m + 12u, 0u);
    var rows_b0 = rows_of_b(tile.batch, 0u, n);
    var rows_b1 = rows_of_b(tile.batch, 0u, n + 4u);
    let step_a = step_of_a(4u);
    let step_b = step_of_b(4u);
    var c00 = mat4x4<f32>();
    var c01 = mat4x4<f32>();
    var c10 = mat4x4<f32>();
    var c11 = mat4x4<f32>();
    var c20 = mat4x4<f32>();
    var c21 = mat4x4<f32>();
    var c30 = mat4x4<f32>();
    var c31 = mat4x4<f32>();
    for (var k = 0u; k < p.k; k += 4u) {
        let b0 = block_of_b(rows_b0, k);
        let b1 = block_of_b(rows_b1, k);
        let a0 = block_of_a(rows_a0, k);
        c00 = multiply_add(a0, b0, c00);
        c01 = multiply_add(a0, b1, c01);
        let a1 = block_of_a(rows_a1, k);
        c10 = multiply_add(a1, b0, c10);
        c11 = multiply_add(a1, b1, c11);
        let a2 = block_of_a(rows_a2, k);
        c20 = multiply_add(a2, b0, c20);
        c21 = multiply_add(a2, b1, c21);
        let a3 = block_of_a(rows_a3, k);
        c30 = multiply_add(a3, b0, c30);
        c31 = multiply_add(a3, b1, c31);
        rows_a0 += step_a;
        rows_a1 += step_a;
        rows_a2 += step_a;
        rows_a3 += step_a;
        rows_b0 += step_b;
        rows_b1 += step_b;
    }
    store_block(tile.batch, m, n, c00);
    store_block(tile.batch, m, n + 4u, c01);
    store_block(tile.batch, m + 4u, n, c10);
    store_block(tile.batch, m + 4u, n + 4u, c11);
    store_block(tile.batch, m + 8u, n, c20);
    store_block(tile.batch, m + 8u, n + 4u, c21);
    store_block(tile.batch, m + 12u, n, c30);
    store_block(tile.batch, m + 12u, n + 4u, c31);
}
