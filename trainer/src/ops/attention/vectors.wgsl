@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> of_y: array<vec4<f32>>;

// Block `c` of the heads that begin at these numbers, one in a column.
fn q_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    let i = at / 4u + c;
    return mat4x4<f32>(q[i.x], q[i.y], q[i.z], q[i.w]);
}

fn k_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    let i = at / 4u + c;
    return mat4x4<f32>(k[i.x], k[i.y], k[i.z], k[i.w]);
}

fn v_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    let i = at / 4u + c;
    return mat4x4<f32>(v[i.x], v[i.y], v[i.z], v[i.w]);
}

fn of_y_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    let i = at / 4u + c;
    return mat4x4<f32>(of_y[i.x], of_y[i.y], of_y[i.z], of_y[i.w]);
}
