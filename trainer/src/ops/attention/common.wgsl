struct Params {
    batch: u32,
    queries: u32,
    keys: u32,
    heads: u32,
    width: u32,
    buckets: u32,
    causal: u32,
    relative: u32,
    prefix: u32,
    // Where parts of `facts` begin: buckets by distance, groups, prefixes, dropout, the end. The bias by head and distance is first.
    buckets_at: u32,
    q_groups_at: u32,
    k_groups_at: u32,
    prefix_at: u32,
    kept_at: u32,
    facts_end: u32,
    site: u32,
    rate: f32,
    // What probabilities that are kept are multiplied by.
    scale: f32,
    // Where these batch rows and heads are in the whole that they may be a part of.
    first_row: u32,
    first_head: u32,
    whole_heads: u32,
    // What one kernel alone is asked.
    flag: u32,
}
@group(0) @binding(0) var<uniform> p: Params;

const FORBIDDEN = -1e10;
const NO_KEY = -5e9;

fn bucket_column(bucket: i32) -> u32 {
    return min(u32(max(bucket, 0)), p.buckets - 1u);
}
