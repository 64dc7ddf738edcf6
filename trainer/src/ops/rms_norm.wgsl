// `amount`: eps (forward, as bits), rows of a part (sums over rows).
struct Params { rows: u32, width: u32, amount: u32, parts: u32 }
@group(0) @binding(0) var<uniform> p: Params;

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> scale: array<f32>;
// The result, or the gradient that becomes one.
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read_write> inverse: array<f32>;

@compute @workgroup_size(64)
fn by_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_index(group, groups, local, 64u);
    if row >= p.rows {
        return;
    }
    let first = row * p.width;
    var sum = 0.0;
    for (var d = 0u; d < p.width; d++) {
        sum += x[first + d] * x[first + d];
    }
    let r = 1.0 / sqrt(sum / f32(p.width) + bitcast<f32>(p.amount));
    inverse[row] = r;
    for (var d = 0u; d < p.width; d++) {
        y[first + d] = x[first + d] * r * scale[d];
    }
}

@compute @workgroup_size(64)
fn backward_by_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_index(group, groups, local, 64u);
    if row >= p.rows {
        return;
    }
    let first = row * p.width;
    var sum = 0.0;
    for (var d = 0u; d < p.width; d++) {
        sum += y[first + d] * scale[d] * x[first + d];
    }
    let r = inverse[row];
    let along = sum / f32(p.width) * r * r;
    for (var d = 0u; d < p.width; d++) {
        y[first + d] = r * (y[first + d] * scale[d] - x[first + d] * along);
    }
}

var<workgroup> sums: array<f32, 64>;

// The sum over the workgroup, in a fixed order.
fn sum_of_group(mine: f32, local: u32) -> f32 {
    sums[local] = mine;
    for (var half = 32u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if local < half {
            sums[local] += sums[local + half];
        }
    }
    workgroupBarrier();
    return sums[0];
}

@compute @workgroup_size(64)
fn by_group(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_group(group, groups);
    if row >= p.rows {
        return;
    }
    let first = row * p.width;
    var sum = 0.0;
    for (var d = local; d < p.width; d += 64u) {
        sum += x[first + d] * x[first + d];
    }
    let r = 1.0 / sqrt(sum_of_group(sum, local) / f32(p.width) + bitcast<f32>(p.amount));
    if local == 0u {
        inverse[row] = r;
    }
    for (var d = local; d < p.width; d += 64u) {
        y[first + d] = x[first + d] * r * scale[d];
    }
}

@compute @workgroup_size(64)
fn backward_by_group(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = linear_group(group, groups);
    if row >= p.rows {
        return;
    }
    let first = row * p.width;
    var sum = 0.0;
    for (var d = local; d < p.width; d += 64u) {
        sum += y[first + d] * scale[d] * x[first + d];
    }
    let r = inverse[row];
    let along = sum_of_group(sum, local) / f32(p.width) * r * r;
    for (var d = local; d < p.width; d += 64u) {
        y[first + d] = r * (y[first + d] * scale[d] - x[first + d] * along);
    }
}

@group(0) @binding(2) var<storage, read> factors: array<f32>;
@group(0) @binding(3) var<storage, read> gradient: array<f32>;
@group(0) @binding(4) var<storage, read_write> parts: array<f32>;

// A column of one part of the rows.
@compute @workgroup_size(64)
fn scale_parts(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.parts * p.width {
        return;
    }
    let column = i % p.width;
    let first = i / p.width * p.amount;
    let end = min(first + p.amount, p.rows);
    var sum = 0.0;
    for (var row = first; row < end; row++) {
        let at = row * p.width + column;
        sum += gradient[at] * x[at] * factors[row];
    }
    parts[i] = sum;
}

@group(0) @binding(2) var<storage, read_write> of_scale: array<f32>;

// `x` are the sums of the parts.
@compute @workgroup_size(64)
fn scale_sum(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let column = linear_index(group, groups, local, 64u);
    if column >= p.width {
        return;
    }
    var sum = 0.0;
    for (var part = 0u; part < p.parts; part++) {
        sum += x[part * p.width + column];
    }
    of_scale[column] = sum;
}
