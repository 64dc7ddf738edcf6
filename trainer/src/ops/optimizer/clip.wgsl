struct Params { threshold: f32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> squares: array<f32>;
@group(0) @binding(2) var<storage, read_write> factor: array<f32>;

@compute @workgroup_size(1)
fn clip() {
    let most = 1.0 / p.threshold;
    let total = squares[0];
    // Not by 1 / 0, which shaders may leave undefined.
    if total <= p.threshold * p.threshold {
        factor[0] = p.threshold * most;
    } else {
        factor[0] = p.threshold * inverseSqrt(total);
    }
}
