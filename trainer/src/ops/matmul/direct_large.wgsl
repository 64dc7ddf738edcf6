// Results of 16 by 16 an invocation. Drivers that run on processors load number by number for every invocation, which takes
// longer than to multiply; larger blocks load less for each result, but are longer code than a processor's first cache
// holds. Rows are counted in vectors of four here, so that nothing is left to compute for every load.

fn vectors_of_a(rows: vec4<u32>) -> mat4x4<f32> {
    let block = mat4x4<f32>(a[rows.x], a[rows.y], a[rows.z], a[rows.w]);
    if A_ALONG_K {
        return block;
    }
    return transpose(block);
}

fn vectors_of_b(rows: vec4<u32>) -> mat4x4<f32> {
    let block = mat4x4<f32>(b[rows.x], b[rows.y], b[rows.z], b[rows.w]);
    if B_ALONG_K {
        return transpose(block);
    }
    return block;
}

// A copy that no compiler sees through. What is needed until the end of a step has no register of its own: LLVM would
// read and write it in memory for each of its numbers while they are loaded, but moves the copy there at once.
fn copied(block: mat4x4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(copied_row(block[0]), copied_row(block[1]), copied_row(block[2]), copied_row(block[3]));
}

fn copied_row(row: vec4<f32>) -> vec4<f32> {
    // Zero, since k is a multiple of four.
    let zero = p.k % 4u;
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(row) ^ vec4<u32>(zero));
}

@compute @workgroup_size(8, 2)
fn direct(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let tile = tile_of(linear_group(group, groups));
    let m = (tile.m * 2u + local.y) * 16u;
    let n = (tile.n * 8u + local.x) * 16u;
    if !tile.exists || m >= p.m || n >= p.n {
        return;
    }
    var rows_a0 = rows_of_a(tile.batch, m, 0u) / 4u;
    var rows_a1 = rows_of_a(tile.batch, m + 4u, 0u) / 4u;
    var rows_a2 = rows_of_a(tile.batch, m + 8u, 0u) / 4u;
    var rows_a3 = rows_of_a(tile.batch, m + 12u, 0u) / 4u;
    var rows_b0 = rows_of_b(tile.batch, 0u, n) / 4u;
    var rows_b1 = rows_of_b(tile.batch, 0u, n + 4u) / 4u;
    var rows_b2 = rows_of_b(tile.batch, 0u, n + 8u) / 4u;
    var rows_b3 = rows_of_b(tile.batch, 0u, n + 12u) / 4u;
    let step_a = step_of_a(4u) / 4u;
    let step_b = step_of_b(4u) / 4u;
    var c00 = mat4x4<f32>();
    var c01 = mat4x4<f32>();
    var c02 = mat4x4<f32>();
    var c03 = mat4x4<f32>();
    var c10 = mat4x4<f32>();
    var c11 = mat4x4<f32>();
    var c12 = mat4x4<f32>();
    var c13 = mat4x4<f32>();
    var c20 = mat4x4<f32>();
    var c21 = mat4x4<f32>();
    var c22 = mat4x4<f32>();
    var c23 = mat4x4<f32>();
    var c30 = mat4x4<f32>();
    var c31 = mat4x4<f32>();
    var c32 = mat4x4<f32>();
    var c33 = mat4x4<f32>();
    for (var k = 0u; k < p.k; k += 4u) {
        let b0 = copied(vectors_of_b(rows_b0));
        let b1 = copied(vectors_of_b(rows_b1));
        let b2 = copied(vectors_of_b(rows_b2));
        let b3 = copied(vectors_of_b(rows_b3));
        let a0 = vectors_of_a(rows_a0);
        c00 = multiply_add(a0, b0, c00);
        c01 = multiply_add(a0, b1, c01);
        c02 = multiply_add(a0, b2, c02);
        c03 = multiply_add(a0, b3, c03);
        let a1 = vectors_of_a(rows_a1);
        c10 = multiply_add(a1, b0, c10);
        c11 = multiply_add(a1, b1, c11);
        c12 = multiply_add(a1, b2, c12);
        c13 = multiply_add(a1, b3, c13);
        let a2 = vectors_of_a(rows_a2);
        c20 = multiply_add(a2, b0, c20);
        c21 = multiply_add(a2, b1, c21);
        c22 = multiply_add(a2, b2, c22);
        c23 = multiply_add(a2, b3, c23);
        let a3 = vectors_of_a(rows_a3);
        c30 = multiply_add(a3, b0, c30);
        c31 = multiply_add(a3, b1, c31);
        c32 = multiply_add(a3, b2, c32);
        c33 = multiply_add(a3, b3, c33);
        rows_a0 += step_a;
        rows_a1 += step_a;
        rows_a2 += step_a;
        rows_a3 += step_a;
        rows_b0 += step_b;
        rows_b1 += step_b;
        rows_b2 += step_b;
        rows_b3 += step_b;
    }
    store_block(tile.batch, m, n, c00);
    store_block(tile.batch, m, n + 4u, c01);
    store_block(tile.batch, m, n + 8u, c02);
    store_block(tile.batch, m, n + 12u, c03);
    store_block(tile.batch, m + 4u, n, c10);
    store_block(tile.batch, m + 4u, n + 4u, c11);
    store_block(tile.batch, m + 4u, n + 8u, c12);
    store_block(tile.batch, m + 4u, n + 12u, c13);
    store_block(tile.batch, m + 8u, n, c20);
    store_block(tile.batch, m + 8u, n + 4u, c21);
    store_block(tile.batch, m + 8u, n + 8u, c22);
    store_block(tile.batch, m + 8u, n + 12u, c23);
    store_block(tile.batch, m + 12u, n, c30);
    store_block(tile.batch, m + 12u, n + 4u, c31);
    store_block(tile.batch, m + 12u, n + 8u, c32);
    store_block(tile.batch, m + 12u, n + 12u, c33);
}
