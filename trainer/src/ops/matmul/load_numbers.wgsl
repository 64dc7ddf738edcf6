// Loads and stores of single numbers, with what is beyond k taken for zero.
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<f32>;

fn load_a(rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        row_of_a(rows.x, k, 0u), row_of_a(rows.y, k, 1u), row_of_a(rows.z, k, 2u), row_of_a(rows.w, k, 3u),
    );
}

fn load_b(rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        row_of_b(rows.x, k, 0u), row_of_b(rows.y, k, 1u), row_of_b(rows.z, k, 2u), row_of_b(rows.w, k, 3u),
    );
}

// Row i of a block; whatever lies beyond m or n is never stored.
fn row_of_a(at: u32, k: u32, i: u32) -> vec4<f32> {
    let last = p.batch * p.m * p.k - 1u;
    let values = vec4<f32>(a[min(at, last)], a[min(at + 1u, last)], a[min(at + 2u, last)], a[min(at + 3u, last)]);
    return select(vec4<f32>(), values, within(k, i, A_ALONG_K));
}

fn row_of_b(at: u32, k: u32, i: u32) -> vec4<f32> {
    let last = p.batch * p.k * p.n - 1u;
    let values = vec4<f32>(b[min(at, last)], b[min(at + 1u, last)], b[min(at + 2u, last)], b[min(at + 3u, last)]);
    return select(vec4<f32>(), values, within(k, i, B_ALONG_K));
}

fn within(k: u32, i: u32, along_k: bool) -> vec4<bool> {
    if along_k {
        return k + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(p.k);
    }
    return vec4<bool>(k + i < p.k);
}

fn store_c(batch: u32, m: u32, n: u32, values: vec4<f32>) {
    if m < p.m {
        let at = (batch * p.m + m) * p.n + n;
        for (var j = 0u; j < min(4u, p.n - min(n, p.n)); j++) {
            c[at + j] = values[j];
        }
    }
}
