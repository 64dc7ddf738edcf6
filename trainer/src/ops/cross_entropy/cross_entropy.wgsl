struct Params {
    rows: u32,
    // Those whose logits are here.
    classes: u32,
    parts: u32,
    on: f32,
    off: f32,
    entropy: f32,
    z_loss: f32,
    // Of the vocabulary: its first class here, how many there are, in how many shards.
    first: u32,
    all_classes: u32,
    shards: u32,
}
@group(0) @binding(0) var<uniform> p: Params;

// Numbers that are known of a row of a shard.
const STATISTICS = 6u;

// What logits are lowered by: the largest of them, or nothing where all are minus infinity, which count for nothing.
fn base_of(largest: f32) -> f32 {
    return select(largest, 0.0, largest < -3.4028234e38);
}

// parts: every `p.parts`-th logit of a row, one invocation a part. Four numbers each: the largest logit, its place, the
// sum of exp(logit - largest), the sum of logit - largest.
@group(0) @binding(1) var<storage, read> logits: array<f32>;
@group(0) @binding(2) var<storage, read_write> parts_out: array<vec4<f32>>;

@compute @workgroup_size(64)
fn parts(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.rows * p.parts {
        return;
    }
    let start = (i / p.parts) * p.classes;
    let first = i % p.parts;
    var largest = logits[start + first];
    var place = first;
    for (var v = first + p.parts; v < p.classes; v += p.parts) {
        let logit = logits[start + v];
        if logit > largest {
            largest = logit;
            place = v;
        }
    }
    let base = base_of(largest);
    var sum = 0.0;
    var differences = 0.0;
    for (var v = first; v < p.classes; v += p.parts) {
        let difference = logits[start + v] - base;
        sum += exp(difference);
        differences += difference;
    }
    parts_out[i] = vec4<f32>(largest, f32(place), sum, differences);
}

// statistics: the same four numbers of whole rows, with places as the vocabulary counts them; the logit of the row's
// class, 0 if it is elsewhere; how many classes there are.
@group(0) @binding(2) var<storage, read> targets: array<i32>;
@group(0) @binding(3) var<storage, read> parts_in: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> statistics_out: array<f32>;

@compute @workgroup_size(64)
fn statistics(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_index(group, groups, local, 64u);
    if row >= p.rows {
        return;
    }
    let start = row * p.parts;
    var largest = parts_in[start].x;
    var place = parts_in[start].y;
    for (var part = 1u; part < p.parts; part++) {
        let other = parts_in[start + part].xy;
        if other.x > largest || (other.x == largest && other.y < place) {
            largest = other.x;
            place = other.y;
        }
    }
    let base = base_of(largest);
    var sum = 0.0;
    var differences = 0.0;
    for (var part = 0u; part < p.parts; part++) {
        let other = parts_in[start + part];
        let lower = other.x - base;
        sum += other.z * exp(lower);
        differences += other.w + lower * f32((p.classes - part + p.parts - 1u) / p.parts);
    }
    // A negative number, or one before the first class, is beyond every class as an unsigned number.
    let wanted = u32(targets[row]) - p.first;
    var logit = 0.0;
    if wanted < p.classes {
        logit = logits[row * p.classes + wanted];
    }
    let at = row * STATISTICS;
    statistics_out[at] = largest;
    statistics_out[at + 1u] = place + f32(p.first);
    statistics_out[at + 2u] = sum;
    statistics_out[at + 3u] = differences;
    statistics_out[at + 4u] = logit;
    statistics_out[at + 5u] = f32(p.classes);
}

// losses: what the host reads, of the statistics of all shards; and the largest logit and the sum of exponentials.
@group(0) @binding(1) var<storage, read> statistics_of: array<f32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read_write> loss_out: array<f32>;
@group(0) @binding(5) var<storage, read_write> z_out: array<f32>;
@group(0) @binding(6) var<storage, read_write> correct_out: array<f32>;
@group(0) @binding(7) var<storage, read_write> log_z_out: array<f32>;
@group(0) @binding(8) var<storage, read_write> softmax_out: array<vec2<f32>>;

@compute @workgroup_size(64)
fn losses(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_index(group, groups, local, 64u);
    if row >= p.rows {
        return;
    }
    let step = p.rows * STATISTICS;
    let start = row * STATISTICS;
    let end = start + p.shards * step;
    var largest = statistics_of[start];
    var place = statistics_of[start + 1u];
    for (var at = start + step; at < end; at += step) {
        if statistics_of[at] > largest {
            largest = statistics_of[at];
            place = statistics_of[at + 1u];
        }
    }
    let base = base_of(largest);
    var sum = 0.0;
    var differences = 0.0;
    var logit = 0.0;
    for (var at = start; at < end; at += step) {
        let lower = statistics_of[at] - base;
        // exp(0) need not be 1 to the last bit.
        sum += statistics_of[at + 2u] * select(exp(lower), 1.0, lower == 0.0);
        differences += statistics_of[at + 3u] + lower * statistics_of[at + 5u];
        logit += statistics_of[at + 4u];
    }

    let weight = weights[row];
    let is_class = targets[row] >= 0 && u32(targets[row]) < p.all_classes;
    let log_sum = log(sum);
    let log_z = largest + log_sum;
    var cross_entropy = 0.0;
    if is_class {
        cross_entropy = -(p.on - p.off) * (logit - largest - log_sum);
    }
    if p.off != 0.0 {
        cross_entropy -= p.off * (differences - f32(p.all_classes) * log_sum);
    }
    let z = p.z_loss * log_z * log_z;
    loss_out[row] = weight * (cross_entropy + z - p.entropy);
    z_out[row] = weight * z;
    correct_out[row] = select(0.0, 1.0, weight != 0.0 && is_class && f32(targets[row]) == place);
    log_z_out[row] = log_z;
    softmax_out[row] = vec2<f32>(largest, sum);
}

// backward: the gradient of every logit, in its place.
@group(0) @binding(1) var<storage, read_write> logit_or_gradient: array<f32>;
@group(0) @binding(4) var<storage, read> softmax_of: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> gradients: array<f32>;
@group(0) @binding(6) var<storage, read> log_z_of: array<f32>;

@compute @workgroup_size(64)
fn backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.rows * p.classes {
        return;
    }
    let row = i / p.classes;
    let scale = weights[row] * gradients[row];
    let found = softmax_of[row];
    let is_target = u32(targets[row]) - p.first == i - row * p.classes;
    let softmax = exp(logit_or_gradient[i] - found.x) / found.y;
    let wanted = select(p.off, p.on, is_target);
    let gradient = scale * ((1.0 + 2.0 * p.z_loss * log_z_of[row]) * softmax - wanted);
    logit_or_gradient[i] = select(0.0, gradient, scale != 0.0);
}
