// With workgroup memory: of 256 invocations, one half loads blocks of a and the other blocks of b, four by four, while
// all multiply those that were loaded before. Four neighbours along m (or n) of one step of k are one vector.
//
// A kernel says how many results along m and n a workgroup computes, TILE, and how many steps of k it takes at a time,
// DEPTH: the product of both is 2048, that is 8 KiB of each side.
var<workgroup> tile_a: array<vec4<f32>, 512>;
var<workgroup> tile_b: array<vec4<f32>, 512>;

// Vectors of a step of k.
const ACROSS = TILE / 4u;

// The blocks that an invocation loads, one for every DEPTH steps of k.
struct Share {
    of_a: bool,
    // Where its rows begin, and how far they move from one block to the next.
    rows: vec4<u32>,
    step: u32,
    // Its first step of k within a tile, and its place there.
    k: u32,
    at: u32,
}

fn share_of(local: u32, tile: Tile) -> Share {
    let block = local % ACROSS;
    let k = local / ACROSS % (DEPTH / 4u) * 4u;
    let at = k * ACROSS + block;
    if local < 128u {
        return Share(true, rows_of_a(tile.batch, tile.m * TILE + block * 4u, k), step_of_a(DEPTH), k, at);
    }
    return Share(false, rows_of_b(tile.batch, k, tile.n * TILE + block * 4u), step_of_b(DEPTH), k, at);
}

// The block whose rows begin there: column i is four neighbours along m (or n) of step k + i.
fn load_block(of_a: bool, rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    if k >= p.k {
        return mat4x4<f32>();
    }
    if of_a {
        let block = load_a(rows, k);
        if A_ALONG_K {
            return transpose(block);
        }
        return block;
    }
    let block = load_b(rows, k);
    if B_ALONG_K {
        return transpose(block);
    }
    return block;
}

// Puts it where `at` says.
fn share_block(of_a: bool, at: u32, block: mat4x4<f32>) {
    if of_a {
        tile_a[at] = block[0];
        tile_a[at + ACROSS] = block[1];
        tile_a[at + 2u * ACROSS] = block[2];
        tile_a[at + 3u * ACROSS] = block[3];
    } else {
        tile_b[at] = block[0];
        tile_b[at + ACROSS] = block[1];
        tile_b[at + 2u * ACROSS] = block[2];
        tile_b[at + 3u * ACROSS] = block[3];
    }
}

// c += what one step of k adds: a's numbers times b's.
fn add_step(a: vec4<f32>, b: vec4<f32>, c: mat4x4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        fma(vec4<f32>(a.x), b, c[0]),
        fma(vec4<f32>(a.y), b, c[1]),
        fma(vec4<f32>(a.z), b, c[2]),
        fma(vec4<f32>(a.w), b, c[3]),
    );
}
