@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(5) var<storage, read> of_y: array<f32>;

// Block `c` of the heads that begin at these numbers, one in a column; zeros beyond their end.
fn q_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    var blocks = mat4x4<f32>();
    for (var j = 0u; j < min(4u, p.width - 4u * c); j++) {
        let i = at + 4u * c + j;
        blocks[0][j] = q[i.x];
        blocks[1][j] = q[i.y];
        blocks[2][j] = q[i.z];
        blocks[3][j] = q[i.w];
    }
    return blocks;
}

fn k_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    var blocks = mat4x4<f32>();
    for (var j = 0u; j < min(4u, p.width - 4u * c); j++) {
        let i = at + 4u * c + j;
        blocks[0][j] = k[i.x];
        blocks[1][j] = k[i.y];
        blocks[2][j] = k[i.z];
        blocks[3][j] = k[i.w];
    }
    return blocks;
}

fn v_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    var blocks = mat4x4<f32>();
    for (var j = 0u; j < min(4u, p.width - 4u * c); j++) {
        let i = at + 4u * c + j;
        blocks[0][j] = v[i.x];
        blocks[1][j] = v[i.y];
        blocks[2][j] = v[i.z];
        blocks[3][j] = v[i.w];
    }
    return blocks;
}

fn of_y_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    var blocks = mat4x4<f32>();
    for (var j = 0u; j < min(4u, p.width - 4u * c); j++) {
        let i = at + 4u * c + j;
        blocks[0][j] = of_y[i.x];
        blocks[1][j] = of_y[i.y];
        blocks[2][j] = of_y[i.z];
        blocks[3][j] = of_y[i.w];
    }
    return blocks;
}
