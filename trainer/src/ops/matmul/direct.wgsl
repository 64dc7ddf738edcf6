// Results of 16 by 8 an invocation, 8 by 8 invocations a workgroup, without workgroup memory. Written out: a loop over
// registers is not unrolled by every driver, and an array that is not in registers is slow.
@compute @workgroup_size(8, 8)
fn direct(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let tile = tile_of(linear_group(group, groups));
    let m = (tile.m * 8u + local.y) * 16u;
    let n = (tile.n * 8u + local.x) * 8u;
    if !tile.exists || m >= p.m || n >= p.n {
        return;
    }
    var rows_a0 = rows_of_a(tile.batch, m + 0u, 0u);
    var rows_a1 = rows_of_a(tile.batch, m + 4u, 0u);
    var rows_a2 = rows_of_a(tile.batch, m + 8u, 0u);
    var rows_a3 = rows_of_a(tile.batch, m + 12u, 0u);
    var rows_b0 = rows_of_b(tile.batch, 0u, n + 0u);
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
        let a0 = block_of_a(rows_a0, k);
        let a1 = block_of_a(rows_a1, k);
        let a2 = block_of_a(rows_a2, k);
        let a3 = block_of_a(rows_a3, k);
        let b0 = block_of_b(rows_b0, k);
        let b1 = block_of_b(rows_b1, k);
        c00 = multiply_add(a0, b0, c00);
        c01 = multiply_add(a0, b1, c01);
        c10 = multiply_add(a1, b0, c10);
        c11 = multiply_add(a1, b1, c11);
        c20 = multiply_add(a2, b0, c20);
        c21 = multiply_add(a2, b1, c21);
        c30 = multiply_add(a3, b0, c30);
        c31 = multiply_add(a3, b1, c31);
        rows_a0 += step_a;
        rows_a1 += step_a;
        rows_a2 += step_a;
        rows_a3 += step_a;
        rows_b0 += step_b;
        rows_b1 += step_b;
    }
    store_block(tile.batch, m + 0u, n + 0u, c00);
    store_block(tile.batch, m + 0u, n + 4u, c01);
    store_block(tile.batch, m + 4u, n + 0u, c10);
    store_block(tile.batch, m + 4u, n + 4u, c11);
    store_block(tile.batch, m + 8u, n + 0u, c20);
    store_block(tile.batch, m + 8u, n + 4u, c21);
    store_block(tile.batch, m + 12u, n + 0u, c30);
    store_block(tile.batch, m + 12u, n + 4u, c31);
}

fn block_of_a(rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    let block = load_a(rows, k);
    if A_ALONG_K {
        return block;
    }
    return transpose(block);
}

fn block_of_b(rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    let block = load_b(rows, k);
    if B_ALONG_K {
        return transpose(block);
    }
    return block;
}

fn store_block(batch: u32, m: u32, n: u32, block: mat4x4<f32>) {
    store_c(batch, m, n, block[0]);
    store_c(batch, m + 1u, n, block[1]);
    store_c(batch, m + 2u, n, block[2]);
    store_c(batch, m + 3u, n, block[3]);
}
