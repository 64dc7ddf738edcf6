// Results of 128 by 128 a workgroup, 8 by 8 an invocation; 16 steps of k at a time: 8 KiB of each side.
@compute @workgroup_size(256)
fn tiled(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = tile_of(linear_group(group, groups));
    if !tile.exists {
        return;
    }
    let of_a = local < 128u;
    let block = local % 32u;
    let block_k = local / 32u % 4u * 4u;
    let at = block_k * 32u + block;
    var rows: vec4<u32>;
    var step: u32;
    if of_a {
        rows = rows_of_a(tile.batch, tile.m * 128u + block * 4u, block_k);
        step = step_of_a(16u);
    } else {
        rows = rows_of_b(tile.batch, block_k, tile.n * 128u + block * 4u);
        step = step_of_b(16u);
    }
    let x = local % 16u;
    let y = local / 16u;
    var c00 = mat4x4<f32>();
    var c01 = mat4x4<f32>();
    var c10 = mat4x4<f32>();
    var c11 = mat4x4<f32>();
    var next = load_block(of_a, rows, block_k);
    for (var k = 0u; k < p.k; k += 16u) {
        workgroupBarrier();
        share_block(of_a, at, 32u, next);
        workgroupBarrier();
        rows += step;
        next = load_block(of_a, rows, k + 16u + block_k);
        for (var i = 0u; i < 512u; i += 32u) {
            let a0 = tile_a[i + y];
            let a1 = tile_a[i + y + 16u];
            let b0 = tile_b[i + x];
            let b1 = tile_b[i + x + 16u];
            c00 = add_step(a0, b0, c00);
            c01 = add_step(a0, b1, c01);
            c10 = add_step(a1, b0, c10);
            c11 = add_step(a1, b1, c11);
        }
    }
    let m = tile.m * 128u + y * 4u;
    let n = tile.n * 128u + x * 4u;
    store_block(tile.batch, m, n, c00);
    store_block(tile.batch, m, n + 64u, c01);
    store_block(tile.batch, m + 64u, n, c10);
    store_block(tile.batch, m + 64u, n + 64u, c11);
}
