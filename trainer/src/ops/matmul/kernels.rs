//! The kernels of products: which of them, and for how many workgroups.
//!
//! On processors in disguise, where barriers and workgroup memory are slow, every invocation loads all that it
//! multiplies, for a block of results in registers (`direct`). On hardware, workgroups share what they load (`tiled`).

use crate::gpu::{GpuArgs, Kernel, PRELUDE, Traits, linear_groups};
use crate::ops::matmul::{Layout, Sizes};

const COMMON: &str = include_str!("common.wgsl");
const VECTORS: &str = include_str!("load_vectors.wgsl");
const NUMBERS: &str = include_str!("load_numbers.wgsl");
const DIRECT: &str = include_str!("direct.wgsl");
const TILED: &str = include_str!("tiled.wgsl");
const TILED_64: &str = include_str!("tiled_64.wgsl");

/// A kernel, and the rows and columns that one of its workgroups computes.
struct Tiling {
    kernel: Kernel,
    rows: usize,
    columns: usize,
}

impl Tiling {
    /// How many rows and columns of workgroups a product takes.
    fn tiles(&self, sizes: Sizes) -> (usize, usize) {
        (sizes.rows.div_ceil(self.rows), sizes.columns.div_ceil(self.columns))
    }
}

/// Loads of four numbers at once: every width is a multiple of four.
static DIRECT_VECTORS: Tiling = Tiling {
    kernel: Kernel {
        name: "matmul_direct",
        source: &[PRELUDE, COMMON, VECTORS, DIRECT, include_str!("direct_vectors.wgsl")],
        entry: "direct",
    },
    rows: 64,
    columns: 64,
};

/// For products large enough to give every processor several tiles of this size: it takes twice as long to compile.
static DIRECT_LARGE: Tiling = Tiling {
    kernel: Kernel {
        name: "matmul_direct_large",
        source: &[PRELUDE, COMMON, VECTORS, DIRECT, include_str!("direct_large.wgsl")],
        entry: "direct",
    },
    rows: 32,
    columns: 128,
};

/// Loads of single numbers.
static DIRECT_NUMBERS: Tiling = Tiling {
    kernel: Kernel {
        name: "matmul_direct_ragged",
        source: &[PRELUDE, COMMON, NUMBERS, DIRECT, include_str!("direct_numbers.wgsl")],
        entry: "direct",
    },
    rows: 32,
    columns: 64,
};

/// For products large enough to give every part of a device a tile of this size.
static TILED_VECTORS_128: Tiling = Tiling {
    kernel: Kernel {
        name: "matmul_tiled_128",
        source: &[PRELUDE, COMMON, VECTORS, TILED, include_str!("tiled_128.wgsl")],
        entry: "tiled",
    },
    rows: 128,
    columns: 128,
};

static TILED_VECTORS: Tiling = Tiling {
    kernel: Kernel {
        name: "matmul_tiled",
        source: &[PRELUDE, COMMON, VECTORS, TILED, TILED_64],
        entry: "tiled",
    },
    rows: 64,
    columns: 64,
};

static TILED_NUMBERS: Tiling = Tiling {
    kernel: Kernel {
        name: "matmul_tiled_ragged",
        source: &[PRELUDE, COMMON, NUMBERS, TILED, TILED_64],
        entry: "tiled",
    },
    rows: 64,
    columns: 64,
};

/// As many large tiles as large devices have parts.
const MANY_TILES: usize = 128;

/// The same for processors: the tiles of 512 by 512 results.
const MANY_DIRECT_TILES: usize = 64;

/// Records the product of input 0 and input 1.
pub(super) fn dispatch(args: &mut GpuArgs<'_>, layout: Layout, sizes: Sizes) {
    let Sizes { batch, rows, depth, columns } = sizes;
    if batch * rows * columns == 0 {
        return;
    }
    let chosen = choose(args.traits(), layout, sizes);
    let (tiles_down, tiles_across) = chosen.tiles(sizes);
    let params = [batch, rows, depth, columns, tiles_down, tiles_across].map(|number| number as u32);
    let flag = |yes: bool| f64::from(u8::from(yes));
    let constants = [("A_ALONG_K", flag(layout != Layout::Tn)), ("B_ALONG_K", flag(layout == Layout::Nt))];
    let buffers = [args.input(0), args.input(1), args.output(0)];
    let groups = linear_groups(batch * tiles_down * tiles_across, 1);
    args.dispatch_with(&chosen.kernel, &constants, &buffers, &params, groups);
}

fn choose(traits: Traits, layout: Layout, sizes: Sizes) -> &'static Tiling {
    let Sizes { batch, rows, depth, columns } = sizes;
    // Steps over the depth are taken four at a time, and all that is stored is read by fours.
    let widths = [depth, columns, if layout == Layout::Tn { rows } else { depth }];
    let vectors = widths.iter().all(|width| width.is_multiple_of(4));
    match (traits.software, vectors) {
        (true, true) => {
            let (down, across) = DIRECT_LARGE.tiles(sizes);
            let tiles = batch * down * across;
            // Of what the tiles compute, a fifth may lie beyond the edges.
            let computed = tiles * DIRECT_LARGE.rows * DIRECT_LARGE.columns;
            let large = tiles >= MANY_DIRECT_TILES && computed * 4 <= batch * rows * columns * 5;
            if large { &DIRECT_LARGE } else { &DIRECT_VECTORS }
        }
        (true, false) => &DIRECT_NUMBERS,
        (false, true) => {
            let (down, across) = TILED_VECTORS_128.tiles(sizes);
            let large = rows.min(columns) >= 128 && batch * down * across >= MANY_TILES;
            if large { &TILED_VECTORS_128 } else { &TILED_VECTORS }
        }
        (false, false) => &TILED_NUMBERS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_products_get_large_blocks_where_few_lie_beyond_the_edges() {
        let traits = Traits { software: true, workgroup_bytes: 16 << 10, workgroup_invocations: 256 };
        let kernel = |(batch, rows, depth, columns)| {
            choose(traits, Layout::Nn, Sizes { batch, rows, depth, columns }).kernel.name
        };
        for sizes in [(1, 512, 512, 512), (1, 2048, 256, 256), (16, 512, 64, 512), (1, 516, 12, 508)] {
            assert_eq!(kernel(sizes), "matmul_direct_large", "{sizes:?}");
        }
        for sizes in [(1, 480, 512, 512), (1, 2048, 256, 64), (64, 36, 64, 128), (1, 64, 512, 64)] {
            assert_eq!(kernel(sizes), "matmul_direct", "{sizes:?}");
        }
        assert_eq!(kernel((1, 512, 511, 512)), "matmul_direct_ragged");
    }
}
