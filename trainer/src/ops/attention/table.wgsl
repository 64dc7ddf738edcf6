@group(0) @binding(1) var<storage, read_write> partial: array<f32>;
@group(0) @binding(2) var<storage, read_write> of_table: array<f32>;

// Sums up the rows of a head into the first of them.
@compute @workgroup_size(64)
fn over_queries(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.batch * p.heads * p.buckets {
        return;
    }
    let at = i / p.buckets * p.queries * p.buckets + i % p.buckets;
    var sum = 0.0;
    for (var query = 0u; query < p.queries; query++) {
        sum += partial[at + query * p.buckets];
    }
    partial[at] = sum;
}

@compute @workgroup_size(64)
fn over_batch(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.heads * p.buckets {
        return;
    }
    var sum = 0.0;
    for (var row = 0u; row < p.batch; row++) {
        sum += partial[(row * p.heads + i / p.buckets) * p.queries * p.buckets + i % p.buckets];
    }
    of_table[i] = sum;
}
