// Results of 64 by 64 a workgroup, 4 by 4 an invocation; 32 steps of k at a time in workgroup memory (16 KiB).
// Four neighbours along m (or n) of step k: tile[16 k + m / 4].
var<workgroup> tile_a: array<vec4<f32>, 512>;
var<workgroup> tile_b: array<vec4<f32>, 512>;

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
    // Half of the invocations loads blocks of a, the other half of b: 16 along m or n, 8 along k.
    let loads_a = local < 128u;
    let block = local % 16u;
    let block_k = local / 16u % 8u * 4u;
    var rows: vec4<u32>;
    var step: u32;
    if loads_a {
        rows = rows_of_a(tile.batch, tile.m * 64u + block * 4u, block_k);
        step = step_of_a(32u);
    } else {
        rows = rows_of_b(tile.batch, block_k, tile.n * 64u + block * 4u);
        step = step_of_b(32u);
    }
    let x = local % 16u;
    let y = local / 16u;
    var sum = mat4x4<f32>();
    for (var k = 0u; k < p.k; k += 32u) {
        // Column i: the four neighbours along m or n of step i.
        var loaded = mat4x4<f32>();
        if k + block_k < p.k {
            if loads_a {
                loaded = load_a(rows, k + block_k);
                if A_ALONG_K {
                    loaded = transpose(loaded);
                }
            } else {
                loaded = load_b(rows, k + block_k);
                if B_ALONG_K {
                    loaded = transpose(loaded);
                }
            }
        }
        rows += step;
        workgroupBarrier();
        let at = block_k * 16u + block;
        if loads_a {
            tile_a[at] = loaded[0];
            tile_a[at + 16u] = loaded[1];
            tile_a[at + 32u] = loaded[2];
            tile_a[at + 48u] = loaded[3];
        } else {
            tile_b[at] = loaded[0];
            tile_b[at + 16u] = loaded[1];
            tile_b[at + 32u] = loaded[2];
            tile_b[at + 48u] = loaded[3];
        }
        workgroupBarrier();
        for (var i = 0u; i < 512u; i += 16u) {
            let of_a = tile_a[i + y];
            let of_b = tile_b[i + x];
            sum[0] = fma(vec4<f32>(of_a.x), of_b, sum[0]);
            sum[1] = fma(vec4<f32>(of_a.y), of_b, sum[1]);
            sum[2] = fma(vec4<f32>(of_a.z), of_b, sum[2]);
            sum[3] = fma(vec4<f32>(of_a.w), of_b, sum[3]);
        }
    }
    let m = tile.m * 64u + y * 4u;
    let n = tile.n * 64u + x * 4u;
    store_c(tile.batch, m, n, sum[0]);
    store_c(tile.batch, m + 1u, n, sum[1]);
    store_c(tile.batch, m + 2u, n, sum[2]);
    store_c(tile.batch, m + 3u, n, sum[3]);
}
