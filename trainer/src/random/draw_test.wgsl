struct Params { elements: u32, site: u32, rate: f32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> words: array<u32>;
@group(0) @binding(2) var<storage, read> key: array<u32>;

@compute @workgroup_size(64)
fn draw(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        let pair = threefry2x32(vec2<u32>(key[0], key[1]), vec2<u32>(p.site, i));
        words[i] = pair.x;
        words[p.elements + i] = pair.y;
        words[2u * p.elements + i] = u32(keeps(vec2<u32>(key[0], key[1]), p.site, i, p.rate));
    }
}
