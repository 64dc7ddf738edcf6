@group(0) @binding(1) var<storage, read_write> facts: array<u32>;
@group(0) @binding(2) var<storage, read> q_groups: array<u32>;
@group(0) @binding(3) var<storage, read> k_groups: array<u32>;
@group(0) @binding(4) var<storage, read> table: array<u32>;
@group(0) @binding(5) var<storage, read> buckets: array<i32>;
@group(0) @binding(6) var<storage, read> prefix: array<u32>;
@group(0) @binding(7) var<storage, read> key: array<u32>;

@compute @workgroup_size(64)
fn gather(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.facts_end {
        return;
    }
    let distances = p.queries + p.keys - 1u;
    if i < p.buckets_at {
        facts[i] = table[i / distances * p.buckets + bucket_column(buckets[i % distances])];
    } else if i < p.q_groups_at {
        facts[i] = bucket_column(buckets[i - p.buckets_at]);
    } else if i < p.k_groups_at {
        facts[i] = q_groups[i - p.q_groups_at];
    } else if i < p.prefix_at {
        facts[i] = k_groups[i - p.k_groups_at];
    } else if i < p.kept_at {
        facts[i] = prefix[i - p.prefix_at];
    } else {
        let here = i - p.kept_at;
        let by_head = here / p.keys;
        let row = p.first_row + by_head / p.heads;
        let head = row * p.whole_heads + p.first_head + by_head % p.heads;
        let kept = keeps(vec2<u32>(key[0], key[1]), p.site, head * p.keys + here % p.keys, p.rate);
        facts[i] = bitcast<u32>(select(0.0, p.scale, kept));
    }
}
