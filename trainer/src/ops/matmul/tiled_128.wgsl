// 8 by 8 results an invocation.
const TILE = 128u;
const DEPTH = 16u;

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
    let share = share_of(local, tile);
    var rows = share.rows;
    let x = local % 16u;
    let y = local / 16u;
    var c00 = mat4x4<f32>();
    var c01 = mat4x4<f32>();
    var c10 = mat4x4<f32>();
    var c11 = mat4x4<f32>();
    var next = load_block(share.of_a, rows, share.k);
    for (var k = 0u; k < p.k; k += DEPTH) {
        workgroupBarrier();
        share_block(share.of_a, share.at, next);
        workgroupBarrier();
        rows += share.step;
        next = load_block(share.of_a, rows, k + DEPTH + share.k);
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
    let m = tile.m * TILE + y * 4u;
    let n = tile.n * TILE + x * 4u;
    store_block(tile.batch, m, n, c00);
    store_block(tile.batch, m, n + 64u, c01);
    store_block(tile.batch, m + 64u, n, c10);
    store_block(tile.batch, m + 64u, n + 64u, c11);
}
