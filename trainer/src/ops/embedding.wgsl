struct Params {
    elements: u32,
    width: u32,
    // The id of the table's first row, and how many rows there are.
    first: u32,
    rows_here: u32,
}
@group(0) @binding(0) var<uniform> p: Params;

@group(0) @binding(1) var<storage, read> table: array<f32>;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read_write> rows: array<f32>;

@compute @workgroup_size(64)
fn embedding(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        // A negative id, or one before the first row, is beyond every table as an unsigned number.
        let at = ids[i / p.width] - p.first;
        var value = 0.0;
        if at < p.rows_here {
            value = table[at * p.width + i % p.width];
        }
        rows[i] = value;
    }
}

@group(0) @binding(1) var<storage, read> gradient: array<f32>;
@group(0) @binding(2) var<storage, read> order: array<u32>;
@group(0) @binding(3) var<storage, read> starts: array<u32>;
@group(0) @binding(4) var<storage, read_write> of_table: array<f32>;

@compute @workgroup_size(64)
fn embedding_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        let column = i % p.width;
        let id = p.first + i / p.width;
        var at = starts[id];
        let end = starts[id + 1u];
        var sum = 0.0;
        // Padding may take most places: four at a time do not wait for each other.
        for (; at + 4u <= end; at += 4u) {
            let a = gradient[order[at] * p.width + column];
            let b = gradient[order[at + 1u] * p.width + column];
            let c = gradient[order[at + 2u] * p.width + column];
            let d = gradient[order[at + 3u] * p.width + column];
            sum += (a + b) + (c + d);
        }
        for (; at < end; at++) {
            sum += gradient[order[at] * p.width + column];
        }
        of_table[i] = sum;
    }
}
