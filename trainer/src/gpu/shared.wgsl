// Numbers of another rank on the same device. Of tensors that are cut along an axis, runs follow each other at a stride.
struct Params { elements: u32, offset: u32, run: u32, stride: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

// A part of x is all of y.
@compute @workgroup_size(64)
fn take(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        y[i] = x[i / p.run * p.stride + p.offset + i % p.run];
    }
}

// A part of x is added to all of y.
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

// All of x is a part of y.
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
