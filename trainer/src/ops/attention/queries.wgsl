@group(0) @binding(6) var<storage, read> rows: array<vec2<f32>>;
@group(0) @binding(7) var<storage, read_write> of_q: array<f32>;
@group(0) @binding(8) var<storage, read_write> partial: array<f32>;

fn store(at: u32, c: u32, values: vec4<f32>) {
    for (var j = 0u; j < min(4u, p.width - 4u * c); j++) {
        of_q[at + 4u * c + j] = values[j];
    }
}

// The gradients of one row that go to one bucket, as far as they are summed up.
struct Run {
    bucket: u32,
    sum: f32,
}

fn add(run: ptr<function, Run>, row_at: u32, bucket: u32, gradient: f32) {
    if bucket != (*run).bucket {
        partial[row_at + (*run).bucket] += (*run).sum;
        *run = Run(bucket, gradient);
    } else {
        (*run).sum += gradient;
    }
}

// Those of four keys: neighbours share a bucket, mostly.
fn add_four(run: ptr<function, Run>, row_at: u32, distance: u32, gradients: vec4<f32>, there: vec4<bool>) {
    if there.x { add(run, row_at, facts[p.buckets_at + distance], gradients.x); }
    if there.y { add(run, row_at, facts[p.buckets_at + distance + 1u], gradients.y); }
    if there.z { add(run, row_at, facts[p.buckets_at + distance + 2u], gradients.z); }
    if there.w { add(run, row_at, facts[p.buckets_at + distance + 3u], gradients.w); }
}

@compute @workgroup_size(64)
fn of_queries(
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
    let q_there = within(at.first, p.queries);
    let q_at = heads_at(at, p.queries, queries);
    let row = (at.batch * p.heads + at.head) * p.queries + queries;
    let of_rows = transpose(mat4x2<f32>(rows[row.x], rows[row.y], rows[row.z], rows[row.w]));
    let sum = of_rows[0];
    let product = of_rows[1];
    let keys_end = keys_end(at.first);

    let to_table = p.flag != 0u && at.stretch == 0u;
    var run_0 = Run(0u, 0.0);
    var run_1 = run_0;
    var run_2 = run_0;
    var run_3 = run_0;
    if to_table {
        for (var i = 0u; i < 4u; i++) {
            for (var j = 0u; j < p.buckets; j++) {
                partial[row[i] * p.buckets + j] = 0.0;
            }
        }
    }

    var results: array<mat4x4<f32>, BLOCKS>;
    for (var key = 0u; key < p.keys; key += 4u) {
        if key >= keys_end && all(sum > vec4<f32>(NO_KEY)) {
            break;
        }
        let k_at = heads_at(at, p.keys, four(key, p.keys));
        let there = within(key, p.keys);
        var scores = mat4x4<f32>();
        var gradients = mat4x4<f32>();
        for (var c = 0u; c < blocks; c++) {
            scores += transpose(k_blocks(k_at, c)) * q_blocks(q_at, c);
            gradients += transpose(v_blocks(k_at, c)) * of_y_blocks(q_at, c);
        }
        scores += bias(at, at.first, key);
        let kept = kept(at, key);
        gradients[0] = probabilities(scores[0], sum.x, there) * (kept * gradients[0] - product.x);
        gradients[1] = probabilities(scores[1], sum.y, there) * (kept * gradients[1] - product.y);
        gradients[2] = probabilities(scores[2], sum.z, there) * (kept * gradients[2] - product.z);
        gradients[3] = probabilities(scores[3], sum.w, there) * (kept * gradients[3] - product.w);
        for (var c = first_block; c < end_block; c++) {
            results[c - first_block] += k_blocks(k_at, c) * gradients;
        }
        if to_table {
            let distance = p.queries - 1u + key - at.first;
            if q_there.x { add_four(&run_0, row.x * p.buckets, distance, gradients[0], there); }
            if q_there.y { add_four(&run_1, row.y * p.buckets, distance - 1u, gradients[1], there); }
            if q_there.z { add_four(&run_2, row.z * p.buckets, distance - 2u, gradients[2], there); }
            if q_there.w { add_four(&run_3, row.w * p.buckets, distance - 3u, gradients[3], there); }
        }
    }

    for (var c = first_block; c < end_block; c++) {
        let result = results[c - first_block];
        for (var i = 0u; i < 4u; i++) {
            if q_there[i] {
                store(q_at[i], c, result[i]);
            }
        }
    }
    if to_table {
        partial[row.x * p.buckets + run_0.bucket] += run_0.sum;
        partial[row.y * p.buckets + run_1.bucket] += run_1.sum;
        partial[row.z * p.buckets + run_2.bucket] += run_2.sum;
        partial[row.w * p.buckets + run_3.bucket] += run_3.sum;
    }
}
