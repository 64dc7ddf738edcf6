// Which workgroup this is among those of `linear_groups`.
fn linear_group(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}

// Which invocation this is, with workgroups of `size`.
fn linear_index(group: vec3<u32>, groups: vec3<u32>, local: u32, size: u32) -> u32 {
    return linear_group(group, groups) * size + local;
}
