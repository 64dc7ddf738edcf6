// Changes parameters by `update_of(i)`, which whoever includes this defines, with its buffers.

@compute @workgroup_size(64)
fn apply(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        let old = parameters[i];
        parameters[i] = unless_nan((1.0 - scalars[3]) * old - update_of(i), old, p.skip_nan);
    }
}

@compute @workgroup_size(64)
fn apply_with_momentum(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = linear_index(group, groups, local, 64u);
    if i < p.elements {
        let old = parameters[i];
        let momentum = p.beta * momenta[i] + (1.0 - p.beta) * update_of(i);
        momenta[i] = unless_nan(momentum, momenta[i], p.skip_nan);
        parameters[i] = unless_nan((1.0 - scalars[3]) * old - momentum, old, p.skip_nan);
    }
}
