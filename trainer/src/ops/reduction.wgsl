// Which elements go into which sum; twelve words, so that it can stand in a uniform struct.
struct Reduction {
    outputs: u32,
    terms: u32,
    splits: u32,
    // Neighbours in memory go into one sum.
    contiguous_terms: u32,
    kept_inner: u32,
    kept_outer_stride: u32,
    kept_inner_stride: u32,
    terms_inner: u32,
    terms_outer_stride: u32,
    terms_inner_stride: u32,
    unused_0: u32,
    unused_1: u32,
}

// Output and split of an invocation: neighbours read neighbours.
fn output_and_split(r: Reduction, i: u32) -> vec2<u32> {
    if r.contiguous_terms == 1u {
        return vec2<u32>(i / r.splits, i % r.splits);
    }
    return vec2<u32>(i % r.outputs, i / r.outputs);
}

fn kept_offset(r: Reduction, output: u32) -> u32 {
    if r.kept_outer_stride == 0u {
        return output * r.kept_inner_stride;
    }
    let outer = output / r.kept_inner;
    return outer * r.kept_outer_stride + (output - outer * r.kept_inner) * r.kept_inner_stride;
}

// Divisions are what a pass over many terms would wait for, so that it has none where one axis is summed over.
fn term_offset(r: Reduction, term: u32) -> u32 {
    if r.terms_outer_stride == 0u {
        return term * r.terms_inner_stride;
    }
    let outer = term / r.terms_inner;
    return outer * r.terms_outer_stride + (term - outer * r.terms_inner) * r.terms_inner_stride;
}
