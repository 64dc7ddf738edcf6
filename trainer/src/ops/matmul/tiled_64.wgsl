// 4 by 4 results an invocation.
const TILE = 64u;
const DEPTH = 32u;

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
    var c = mat4x4<f32>();
    var next = load_block(share.of_a, rows, share.k);
    for (var k = 0u; k < p.k; k += DEPTH) {
        workgroupBarrier();
        share_block(share.of_a, share.at, next);
        workgroupBarrier();
        rows += share.step;
        next = load_block(share.of_a, rows, k + DEPTH + share.k);
        for (var i = 0u; i < 512u; i += 64u) {
            c = add_step(tile_a[i + y], tile_b[i + x], c);
            c = add_step(tile_a[i + y + 16u], tile_b[i + x + 16u], c);
            c = add_step(tile_a[i + y + 32u], tile_b[i + x + 32u], c);
            c = add_step(tile_a[i + y + 48u], tile_b[i + x + 48u], c);
        }
    }
    let m = tile.m * TILE + y * 4u;
    let n = tile.n * TILE + x * 4u;
    store_block(tile.batch, m, n, c);
}
