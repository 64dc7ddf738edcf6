// Heads of any width.
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(5) var<storage, read> of_y: array<f32>;

// The four numbers from `i` on, of which those beyond the head may be anything.
fn q_four(i: u32) -> vec4<f32> { return vec4<f32>(q[i], q[i + 1u], q[i + 2u], q[i + 3u]); }
fn k_four(i: u32) -> vec4<f32> { return vec4<f32>(k[i], k[i + 1u], k[i + 2u], k[i + 3u]); }
fn v_four(i: u32) -> vec4<f32> { return vec4<f32>(v[i], v[i + 1u], v[i + 2u], v[i + 3u]); }
fn of_y_four(i: u32) -> vec4<f32> { return vec4<f32>(of_y[i], of_y[i + 1u], of_y[i + 2u], of_y[i + 3u]); }

// Which numbers of block `c` are of the head.
fn within_head(c: u32) -> vec4<bool> {
    return 4u * c + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(p.width);
}
