// Without workgroup memory: every invocation holds blocks of 4 by 4 results. Written out, since a loop over registers is
// not unrolled by every driver, and an array that is not in registers is slow.

// The block of a whose rows begin there: column i is row i.
fn block_of_a(rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    let block = load_a(rows, k);
    if A_ALONG_K {
        return block;
    }
    return transpose(block);
}

// The block of b whose rows begin there: column i is its four numbers of step k + i.
fn block_of_b(rows: vec4<u32>, k: u32) -> mat4x4<f32> {
    let block = load_b(rows, k);
    if B_ALONG_K {
        return transpose(block);
    }
    return block;
}

// c += a b, where column i of c is row i of the results.
fn multiply_add(a: mat4x4<f32>, b: mat4x4<f32>, c: mat4x4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        row_multiply_add(a[0], b, c[0]),
        row_multiply_add(a[1], b, c[1]),
        row_multiply_add(a[2], b, c[2]),
        row_multiply_add(a[3], b, c[3]),
    );
}

fn row_multiply_add(a: vec4<f32>, b: mat4x4<f32>, c: vec4<f32>) -> vec4<f32> {
    var sum = fma(vec4<f32>(a.x), b[0], c);
    sum = fma(vec4<f32>(a.y), b[1], sum);
    sum = fma(vec4<f32>(a.z), b[2], sum);
    return fma(vec4<f32>(a.w), b[3], sum);
}
