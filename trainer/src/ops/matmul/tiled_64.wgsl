// Results of 64 by 64 a workgroup, 4 by 4 an invocation; 32 steps of k at a time: 8 KiB of each side.
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
    let block = local % 16u;
    let block_k = local / 16u % 8u * 4u;
    let at = block_k * 16u + block;
    var rows: vec4<u32>;
    var step: u32;
    if of_a {
        rows = rows_of_a(tile.batch, tile.m * 64u + block * 4u, block_k);
        step = step_of_a(32u);
    } else {
        rows = rows_of_b(tile.batch, block_k, tile.n * 64u + block * 4u);
        step = step_of_b(32u);
    }
    let x = local % 16u;
    let y = local / 16u;
    var c = mat4x4<f32>();
    var next = load_block(of_a, rows, block_k);
    for (var k = 0u; k < p.k; k += 32u) {
        workgroupBarrier();
        share_block(of_a, at, 16u, next);
        workgroupBarrier();
        rows += step;
        next = load_block(of_a, rows, k + 32u + block_k);
        for (var i = 0u; i < 512u; i += 64u) {
            c = add_step(tile_a[i + y], tile_b[i + x], c);
            c = add_step(tile_a[i + y + 16u], tile_b[i + x + 16u], c);
            c = add_step(tile_a[i + y + 32u], tile_b[i + x + 32u], c);
            c = add_step(tile_a[i + y + 48u], tile_b[i + x + 48u], c);
        }
    }
    let m = tile.m * 64u + y * 4u;
    let n = tile.n * 64u + x * 4u;
    store_block(tile.batch, m, n, c);
}
