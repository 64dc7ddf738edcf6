// A tile is of four queries, its columns, and four keys, its rows.

@group(0) @binding(4) var<storage, read> facts: array<u32>;

// Blocks of four columns that an invocation keeps the sums of.
const BLOCKS = 16u;

// Which rows and which columns of a result an invocation computes.
struct Place {
    batch: u32,
    head: u32,
    stretch: u32,
    first: u32,
}

fn place(index: u32, rows: u32) -> Place {
    let tiles = (rows + 3u) / 4u;
    let stretches = (p.width + 4u * BLOCKS - 1u) / (4u * BLOCKS);
    let by_head = index / tiles / stretches;
    return Place(by_head / p.heads, by_head % p.heads, index / tiles % stretches, index % tiles * 4u);
}

// Four rows; in place of those beyond the end the last.
fn four(first: u32, rows: u32) -> vec4<u32> {
    return min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(rows - 1u));
}

// Which of four rows there are.
fn within(first: u32, rows: u32) -> vec4<bool> {
    return vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(rows);
}

// Where the heads of these rows begin.
fn heads_at(at: Place, rows: u32, row: vec4<u32>) -> vec4<u32> {
    return ((at.batch * rows + row) * p.heads + at.head) * p.width;
}

// Block `c` of the heads that begin at these numbers, one in a column; zeros beyond their end.
fn q_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    let i = at + 4u * c;
    return heads_of(c, q_four(i.x), q_four(i.y), q_four(i.z), q_four(i.w));
}

fn k_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    let i = at + 4u * c;
    return heads_of(c, k_four(i.x), k_four(i.y), k_four(i.z), k_four(i.w));
}

fn v_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    let i = at + 4u * c;
    return heads_of(c, v_four(i.x), v_four(i.y), v_four(i.z), v_four(i.w));
}

fn of_y_blocks(at: vec4<u32>, c: u32) -> mat4x4<f32> {
    let i = at + 4u * c;
    return heads_of(c, of_y_four(i.x), of_y_four(i.y), of_y_four(i.z), of_y_four(i.w));
}

fn heads_of(c: u32, x: vec4<f32>, y: vec4<f32>, z: vec4<f32>, w: vec4<f32>) -> mat4x4<f32> {
    let there = within_head(c);
    return mat4x4<f32>(
        select(vec4<f32>(), x, there),
        select(vec4<f32>(), y, there),
        select(vec4<f32>(), z, there),
        select(vec4<f32>(), w, there),
    );
}

fn four_facts(at: vec4<u32>) -> vec4<i32> {
    return bitcast<vec4<i32>>(vec4<u32>(facts[at.x], facts[at.y], facts[at.z], facts[at.w]));
}

// The keys from which on causality hides all from these queries, if it does.
fn keys_end(first_query: u32) -> u32 {
    return select(p.keys, min(p.keys, first_query + 4u), p.causal != 0u && p.prefix == 0u);
}

// What is added to the scores of forbidden keys.
fn forbidden(seen: vec4<bool>) -> vec4<f32> {
    return select(vec4<f32>(FORBIDDEN), vec4<f32>(0.0), seen);
}

// What is added to scores.
fn bias(at: Place, first_query: u32, first_key: u32) -> mat4x4<f32> {
    let query = four(first_query, p.queries);
    let key = four(first_key, p.keys);
    let q_group = four_facts(p.q_groups_at + at.batch * p.queries + query);
    let k_group = four_facts(p.k_groups_at + at.batch * p.keys + key);
    var q_prefix = vec4<bool>();
    var k_prefix = vec4<bool>();
    if p.prefix != 0u {
        q_prefix = four_facts(p.prefix_at + at.batch * p.queries + query) != vec4<i32>();
        k_prefix = four_facts(p.prefix_at + at.batch * p.keys + key) != vec4<i32>();
    }
    var bias = mat4x4<f32>();
    if p.relative != 0u {
        // Those of seven distances.
        let i = at.head * (p.queries + p.keys - 1u) + p.queries - 1u + first_key - first_query;
        let near = bitcast<vec4<f32>>(four_facts(vec4<u32>(i - 3u, i - 2u, i - 1u, i)));
        let far = bitcast<vec4<f32>>(four_facts(vec4<u32>(i, i + 1u, i + 2u, i + 3u)));
        bias = mat4x4<f32>(far, vec4<f32>(near.z, far.xyz), vec4<f32>(near.yz, far.xy), near);
    }
    let free = vec4<bool>(p.causal == 0u);
    let known = k_group > vec4<i32>();
    bias[0] += forbidden(known & (k_group == q_group.xxxx) & (free | (key <= query.xxxx) | (k_prefix & q_prefix.xxxx)));
    bias[1] += forbidden(known & (k_group == q_group.yyyy) & (free | (key <= query.yyyy) | (k_prefix & q_prefix.yyyy)));
    bias[2] += forbidden(known & (k_group == q_group.zzzz) & (free | (key <= query.zzzz) | (k_prefix & q_prefix.zzzz)));
    bias[3] += forbidden(known & (k_group == q_group.wwww) & (free | (key <= query.wwww) | (k_prefix & q_prefix.wwww)));
    return bias;
}

// What dropout multiplies the probabilities of four keys by.
fn kept(at: Place, first_key: u32) -> vec4<f32> {
    if p.kept_at == p.facts_end {
        return vec4<f32>(1.0);
    }
    return bitcast<vec4<f32>>(four_facts(p.kept_at + (at.batch * p.heads + at.head) * p.keys + four(first_key, p.keys)));
}

// Every column times its number.
fn scaled(tile: mat4x4<f32>, by: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(tile[0] * by.x, tile[1] * by.y, tile[2] * by.z, tile[3] * by.w);
}

// The probabilities of a column of scores; of keys that are there.
fn probabilities(scores: vec4<f32>, sum: f32, there: vec4<bool>) -> vec4<f32> {
    let found = select(exp(scores - sum), vec4<f32>(1.0 / f32(p.keys)), sum < NO_KEY);
    return select(vec4<f32>(), found, there);
}
