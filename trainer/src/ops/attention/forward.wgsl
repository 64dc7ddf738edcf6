@group(0) @binding(5) var<storage, read_write> y: array<f32>;
@group(0) @binding(6) var<storage, read_write> sums: array<f32>;

fn store(at: u32, c: u32, values: vec4<f32>) {
    for (var j = 0u; j < min(4u, p.width - 4u * c); j++) {
        y[at + 4u * c + j] = values[j];
    }
}

fn greatest(x: vec4<f32>) -> f32 {
    return max(max(x.x, x.y), max(x.z, x.w));
}

fn total(x: vec4<f32>) -> f32 {
    return (x.x + x.y) + (x.z + x.w);
}

@compute @workgroup_size(64)
fn attend(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = place(linear_index(group, groups, local, 64u), p.queries);
    if at.batch >= p.batch {
        return;
    }
    let blocks = (p.width + 3u) / 4u;
    let first_block = at.stretch * BLOCKS;
    let end_block = min(blocks, first_block + BLOCKS);
    let queries = four(at.first, p.queries);
    let q_at = heads_at(at, p.queries, queries);
    let keys_end = keys_end(at.first);

    // In one pass: what was summed up is scaled when a greater score comes.
    var top = vec4<f32>(-3e38);
    var sum = vec4<f32>();
    var results: array<mat4x4<f32>, BLOCKS>;
    for (var key = 0u; key < p.keys; key += 4u) {
        // A query that saw nothing so far sees nothing at all, and attends to all keys alike.
        if key >= keys_end && all(top > vec4<f32>(NO_KEY)) {
            break;
        }
        let k_at = heads_at(at, p.keys, four(key, p.keys));
        let there = within(key, p.keys);
        var scores = mat4x4<f32>();
        for (var c = 0u; c < blocks; c++) {
            scores += transpose(k_blocks(k_at, c)) * q_blocks(q_at, c);
        }
        scores += bias(at, at.first, key);
        let none = vec4<f32>(-3e38);
        let tops = max(top, vec4<f32>(
            greatest(select(none, scores[0], there)),
            greatest(select(none, scores[1], there)),
            greatest(select(none, scores[2], there)),
            greatest(select(none, scores[3], there)),
        ));
        let weights = mat4x4<f32>(
            select(vec4<f32>(), exp(scores[0] - tops.x), there),
            select(vec4<f32>(), exp(scores[1] - tops.y), there),
            select(vec4<f32>(), exp(scores[2] - tops.z), there),
            select(vec4<f32>(), exp(scores[3] - tops.w), there),
        );
        let shrink = exp(top - tops);
        top = tops;
        sum = sum * shrink + vec4<f32>(total(weights[0]), total(weights[1]), total(weights[2]), total(weights[3]));
        let kept = kept(at, key);
        let shares = mat4x4<f32>(weights[0] * kept, weights[1] * kept, weights[2] * kept, weights[3] * kept);
        for (var c = first_block; c < end_block; c++) {
            results[c - first_block] = scaled(results[c - first_block], shrink) + v_blocks(k_at, c) * shares;
        }
    }

    let there = within(at.first, p.queries);
    let unit = 1.0 / sum;
    for (var c = first_block; c < end_block; c++) {
        let result = scaled(results[c - first_block], unit);
        for (var i = 0u; i < 4u; i++) {
            if there[i] {
                store(q_at[i], c, result[i]);
            }
        }
    }
    if at.stretch == 0u {
        let found = top + log(sum);
        for (var i = 0u; i < 4u; i++) {
            if there[i] {
                sums[(at.batch * p.heads + at.head) * p.queries + queries[i]] = found[i];
            }
        }
    }
}
