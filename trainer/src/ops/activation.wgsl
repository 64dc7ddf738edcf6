// Which functions: 0 gelu, 1 relu, 2 silu, 3 linear.
override FIRST: u32;
override SECOND: u32;

struct Params { elements: u32 }
@group(0) @binding(0) var<uniform> p: Params;

// No infinities, which a device need not know.
fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(clamp(-x, -80.0, 80.0)));
}

// The function and its derivative.
fn function(which: u32, x: f32) -> vec2<f32> {
    switch which {
        case 0u: {
            let s = sigmoid(1.5957691 * x * (1.0 + 0.044715 * x * x));
            return vec2<f32>(x * s, s + x * s * (1.0 - s) * 1.5957691 * (1.0 + 0.134145 * x * x));
        }
        case 1u: {
            return vec2<f32>(select(x, 0.0, x < 0.0), select(0.0, 1.0, x > 0.0));
        }
        case 2u: {
            let s = sigmoid(x);
            return vec2<f32>(x * s, s + x * s * (1.0 - s));
        }
        default: {
            return vec2<f32>(x, 1.0);
        }
    }
}

@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn activate(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        y[i] = function(FIRST, x[i]).x;
    }
}

// `y` is the gradient.
@compute @workgroup_size(64)
fn activate_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        y[i] *= function(FIRST, x[i]).y;
    }
}

@group(0) @binding(2) var<storage, read> x2: array<f32>;
@group(0) @binding(3) var<storage, read_write> product: array<f32>;

@compute @workgroup_size(64)
fn gated(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        product[i] = function(FIRST, x[i]).x * function(SECOND, x2[i]).x;
    }
}

@group(0) @binding(1) var<storage, read_write> a: array<f32>;
@group(0) @binding(2) var<storage, read_write> b: array<f32>;
@group(0) @binding(3) var<storage, read> gradient: array<f32>;

@compute @workgroup_size(64)
fn gated_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        let of_a = function(FIRST, a[i]);
        let of_b = function(SECOND, b[i]);
        a[i] = gradient[i] * of_a.y * of_b.x;
        b[i] = gradient[i] * of_b.y * of_a.x;
    }
}
