// Loads and stores of four numbers at once. All widths are multiples of four, so a block that begins within is within.
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;

// The 4 by 4 block whose rows begin there; k of its first row and column must be less than p.k.
fn load_a(rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    let at = rows / 4u;
    return mat4x4<f32>(a[at.x], a[at.y], a[at.z], a[at.w]);
}

fn load_b(rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    let at = rows / 4u;
    return mat4x4<f32>(b[at.x], b[at.y], b[at.z], b[at.w]);
}

fn store_c(batch: u32, m: u32, n: u32, values: vec4<f32>) {
    if m < p.m && n < p.n {
        c[((batch * p.m + m) * p.n + n) / 4u] = values;
    }
}
