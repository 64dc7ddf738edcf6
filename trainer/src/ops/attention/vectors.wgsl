// Heads whose width is a multiple of four.
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> of_y: array<vec4<f32>>;

// The four numbers from `i` on.
fn q_four(i: u32) -> vec4<f32> { return q[i / 4u]; }
fn k_four(i: u32) -> vec4<f32> { return k[i / 4u]; }
fn v_four(i: u32) -> vec4<f32> { return v[i / 4u]; }
fn of_y_four(i: u32) -> vec4<f32> { return of_y[i / 4u]; }

// Which numbers of block `c` are of the head.
fn within_head(c: u32) -> vec4<bool> {
    return vec4<bool>(true);
}
