// c[m, n] = sum over k of a[m, k] b[k, n], for every matrix of the batch.
struct Params { batch: u32, m: u32, k: u32, n: u32, tiles_m: u32, tiles_n: u32 }
@group(0) @binding(0) var<uniform> p: Params;

// Is k the axis along which neighbours in memory lie? If not, it is m or n.
override A_ALONG_K: bool;
override B_ALONG_K: bool;

// Which tile of which product a workgroup computes.
struct Tile { batch: u32, m: u32, n: u32, exists: bool }

fn tile_of(group: u32) -> Tile {
    let tiles = p.tiles_m * p.tiles_n;
    let within = group % tiles;
    return Tile(group / tiles, within / p.tiles_n, within % p.tiles_n, group < p.batch * tiles);
}

// Where four neighbouring rows of a 4 by 4 block begin, in numbers.
fn rows_of_a(batch: u32, m: u32, k: u32) -> vec4<u32> {
    let base = batch * p.m * p.k;
    let i = vec4<u32>(0u, 1u, 2u, 3u);
    if A_ALONG_K {
        return base + min(m + i, vec4<u32>(p.m - 1u)) * p.k + k;
    }
    return base + (k + i) * p.m + min(m, p.m - 1u);
}

fn rows_of_b(batch: u32, k: u32, n: u32) -> vec4<u32> {
    let base = batch * p.k * p.n;
    let i = vec4<u32>(0u, 1u, 2u, 3u);
    if B_ALONG_K {
        return base + min(n + i, vec4<u32>(p.n - 1u)) * p.k + k;
    }
    return base + (k + i) * p.n + min(n, p.n - 1u);
}

// How far these rows move when k grows by `by`.
fn step_of_a(by: u32) -> u32 {
    if A_ALONG_K {
        return by;
    }
    return by * p.m;
}

fn step_of_b(by: u32) -> u32 {
    if B_ALONG_K {
        return by;
    }
    return by * p.n;
}

// Four rows of results: column i of the block is row m + i.
fn store_block(batch: u32, m: u32, n: u32, block: mat4x4<f32>) {
    store_c(batch, m, n, block[0]);
    store_c(batch, m + 1u, n, block[1]);
    store_c(batch, m + 2u, n, block[2]);
    store_c(batch, m + 3u, n, block[3]);
}
