@group(0) @binding(6) var<storage, read> rows: array<vec2<f32>>;
@group(0) @binding(7) var<storage, read_write> of_k: array<f32>;
@group(0) @binding(8) var<storage, read_write> of_v: array<f32>;

fn store(at: u32, c: u32, k_values: vec4<f32>, v_values: vec4<f32>) {
    for (var j = 0u; j < min(4u, p.width - 4u * c); j++) {
        of_k[at + 4u * c + j] = k_values[j];
        of_v[at + 4u * c + j] = v_values[j];
    }
}

@compute @workgroup_size(64)
fn of_keys(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = place(linear_index(group, groups, local, 64u), p.keys);
    if at.batch >= p.batch {
        return;
    }
    let blocks = (p.width + 3u) / 4u;
    let first_block = at.stretch * BLOCKS;
    let end_block = min(blocks, first_block + BLOCKS);
    let k_at = heads_at(at, p.keys, four(at.first, p.keys));
    let there = within(at.first, p.keys);
    let kept = kept(at, at.first);

    var k_results: array<mat4x4<f32>, BLOCKS>;
    var v_results: array<mat4x4<f32>, BLOCKS>;
    for (var query = 0u; query < p.queries; query += 4u) {
        let queries = four(query, p.queries);
        let row = (at.batch * p.heads + at.head) * p.queries + queries;
        let of_rows = transpose(mat4x2<f32>(rows[row.x], rows[row.y], rows[row.z], rows[row.w]));
        let sum = of_rows[0];
        let product = of_rows[1];
        // Queries before these keys, but for those that see nothing and attend to all keys alike.
        if at.first >= keys_end(query) && all(sum > vec4<f32>(NO_KEY)) {
            continue;
        }
        let q_at = heads_at(at, p.queries, queries);
        let q_there = within(query, p.queries);
        var scores = mat4x4<f32>();
        var gradients = mat4x4<f32>();
        for (var c = 0u; c < blocks; c++) {
            scores += transpose(k_blocks(k_at, c)) * q_blocks(q_at, c);
            gradients += transpose(v_blocks(k_at, c)) * of_y_blocks(q_at, c);
        }
        scores += bias(at, query, at.first);
        let weights = mat4x4<f32>(
            probabilities(scores[0], sum.x, there & q_there.xxxx),
            probabilities(scores[1], sum.y, there & q_there.yyyy),
            probabilities(scores[2], sum.z, there & q_there.zzzz),
            probabilities(scores[3], sum.w, there & q_there.wwww),
        );
        gradients[0] = weights[0] * (kept * gradients[0] - product.x);
        gradients[1] = weights[1] * (kept * gradients[1] - product.y);
        gradients[2] = weights[2] * (kept * gradients[2] - product.z);
        gradients[3] = weights[3] * (kept * gradients[3] - product.w);
        let to_keys = transpose(gradients);
        let to_values = transpose(mat4x4<f32>(
            weights[0] * kept, weights[1] * kept, weights[2] * kept, weights[3] * kept,
        ));
        for (var c = first_block; c < end_block; c++) {
            k_results[c - first_block] += q_blocks(q_at, c) * to_keys;
            v_results[c - first_block] += of_y_blocks(q_at, c) * to_values;
        }
    }

    for (var c = first_block; c < end_block; c++) {
        let k_result = k_results[c - first_block];
        let v_result = v_results[c - first_block];
        for (var i = 0u; i < 4u; i++) {
            if there[i] {
                store(k_at[i], c, k_result[i], v_result[i]);
            }
        }
    }
}
