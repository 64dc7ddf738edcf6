// How a tensor's elements belong to rows, columns and batches: lengths from the innermost axis on, and the strides of
// each axis in the tensors of rows, columns and batches. Twenty words, so that it can stand in a uniform struct.
struct Layout {
    axes: u32,
    length_0: u32, length_1: u32, length_2: u32, length_3: u32,
    row_0: u32, row_1: u32, row_2: u32, row_3: u32,
    column_0: u32, column_1: u32, column_2: u32, column_3: u32,
    batch_0: u32, batch_1: u32, batch_2: u32, batch_3: u32,
    unused_0: u32, unused_1: u32, unused_2: u32,
}

// Row, column and batch of an element.
fn place(l: Layout, element: u32) -> vec3<u32> {
    var rest = element;
    var at = vec3<u32>(0u);
    var inner = vec3<u32>(l.row_0, l.column_0, l.batch_0);
    if l.axes > 1u {
        let outer = rest / l.length_0;
        at += (rest - outer * l.length_0) * inner;
        rest = outer;
        inner = vec3<u32>(l.row_1, l.column_1, l.batch_1);
    }
    if l.axes > 2u {
        let outer = rest / l.length_1;
        at += (rest - outer * l.length_1) * inner;
        rest = outer;
        inner = vec3<u32>(l.row_2, l.column_2, l.batch_2);
    }
    if l.axes > 3u {
        let outer = rest / l.length_2;
        at += (rest - outer * l.length_2) * inner;
        rest = outer;
        inner = vec3<u32>(l.row_3, l.column_3, l.batch_3);
    }
    return at + rest * inner;
}

// By its bits: compilers may take comparisons of a number with itself for true.
fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// Of two numbers the larger, or what is not a number.
fn max_or_nan(x: f32, least: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    return max(x, least);
}

// The old number where the new one is none and such are skipped.
fn unless_nan(new_number: f32, old_number: f32, skip: u32) -> f32 {
    if skip == 1u && is_nan(new_number) {
        return old_number;
    }
    return new_number;
}
