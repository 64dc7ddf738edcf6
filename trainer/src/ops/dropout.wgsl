struct Params {
    invocations: u32,
    width: u32,
    places: u32,
    rows_at_once: u32,
    // How often `rows_at_once` goes into `places`, rounded up.
    parts: u32,
    site: u32,
    rate: f32,
    scale: f32,
    // Of the mask of the whole: its first element here, and its width.
    first: u32,
    whole_width: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> x: array<f32>;
@group(0) @binding(2) var<storage, read> key: array<u32>;

// A column of up to `rows_at_once` rows that share a mask.
@compute @workgroup_size(64)
fn dropout(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i >= p.invocations {
        return;
    }
    let column = i % p.width;
    let part = i / p.width % p.parts;
    let sharing = i / p.width / p.parts;
    let kept = keeps(vec2<u32>(key[0], key[1]), p.site, p.first + sharing * p.whole_width + column, p.rate);
    let end = min((part + 1u) * p.rows_at_once, p.places);
    for (var place = part * p.rows_at_once; place < end; place++) {
        let at = (sharing * p.places + place) * p.width + column;
        x[at] = select(0.0, x[at] * p.scale, kept);
    }
}
