struct Params { elements: u32, offset: u32, run: u32, stride: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn slice(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        y[i] = x[i / p.run * p.stride + p.offset + i % p.run];
    }
}

@compute @workgroup_size(64)
fn unslice(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        // What is before the run wraps around and is beyond it as well.
        let at = i % p.stride - p.offset;
        var value = 0.0;
        if at < p.run {
            value = x[i / p.stride * p.run + at];
        }
        y[i] = value;
    }
}

// The runs of x are added to all of y.
@compute @workgroup_size(64)
fn add(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        y[i] += x[i / p.run * p.stride + p.offset + i % p.run];
    }
}

// All of x are the runs of y; what is between them stays.
@compute @workgroup_size(64)
fn place(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        y[i / p.run * p.stride + p.offset + i % p.run] = x[i];
    }
}
