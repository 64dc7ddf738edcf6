struct Params {
    rows: u32,
    classes: u32,
    parts: u32,
    on: f32,
    off: f32,
    entropy: f32,
    z_loss: f32,
}
@group(0) @binding(0) var<uniform> p: Params;

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
    var sum = 0.0;
    var differences = 0.0;
    for (var v = first; v < p.classes; v += p.parts) {
        let difference = logits[start + v] - largest;
        sum += exp(difference);
        differences += difference;
    }
    parts_out[i] = vec4<f32>(largest, f32(place), sum, differences);
}

// statistics: the same four numbers of whole rows.
@group(0) @binding(1) var<storage, read> parts_in: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> statistics_out: array<vec4<f32>>;

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
    var sum = 0.0;
    var differences = 0.0;
    for (var part = 0u; part < p.parts; part++) {
        let other = parts_in[start + part];
        let lower = other.x - largest;
        sum += other.z * exp(lower);
        differences += other.w + lower * f32((p.classes - part + p.parts - 1u) / p.parts);
    }
    statistics_out[row] = vec4<f32>(largest, place, sum, differences);
}

// losses: what the host reads.
@group(0) @binding(2) var<storage, read> targets: array<i32>;
@group(0) @binding(3) var<storage, read> weights: array<f32>;
@group(0) @binding(4) var<storage, read> statistics_of: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> loss_out: array<f32>;
@group(0) @binding(6) var<storage, read_write> z_out: array<f32>;
@group(0) @binding(7) var<storage, read_write> correct_out: array<f32>;
@group(0) @binding(8) var<storage, read_write> log_z_out: array<f32>;

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
    let found = statistics_of[row];
    let weight = weights[row];
    let is_class = targets[row] >= 0 && u32(targets[row]) < p.classes;
    let log_sum = log(found.z);
    let log_z = found.x + log_sum;
    var cross_entropy = 0.0;
    if is_class {
        let logit = logits[row * p.classes + u32(targets[row])];
        cross_entropy = -(p.on - p.off) * (logit - found.x - log_sum);
    }
    if p.off != 0.0 {
        cross_entropy -= p.off * (found.w - f32(p.classes) * log_sum);
    }
    let z = p.z_loss * log_z * log_z;
    loss_out[row] = weight * (cross_entropy + z - p.entropy);
    z_out[row] = weight * z;
    correct_out[row] = select(0.0, 1.0, weight != 0.0 && is_class && f32(targets[row]) == found.y);
    log_z_out[row] = log_z;
}

// backward: the gradient of every logit, in its place.
@group(0) @binding(1) var<storage, read_write> logit_or_gradient: array<f32>;
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
    let found = statistics_of[row];
    let is_target = targets[row] >= 0 && u32(targets[row]) == i - row * p.classes;
    let softmax = exp(logit_or_gradient[i] - found.x) / found.z;
    let wanted = select(p.off, p.on, is_target);
    let gradient = scale * ((1.0 + 2.0 * p.z_loss * log_z_of[row]) * softmax - wanted);
    logit_or_gradient[i] = select(0.0, gradient, scale != 0.0);
}
