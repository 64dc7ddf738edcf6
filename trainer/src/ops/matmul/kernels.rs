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
        (true, true) => &DIRECT_VECTORS,
        (true, false) => &DIRECT_NUMBERS,
        (false, true) => {
            let (down, across) = TILED_VECTORS_128.tiles(sizes);
            let large = rows.min(columns) >= 128 && batch * down * across >= MANY_TILES;
            if large { &TILED_VECTORS_128 } else { &TILED_VECTORS }
        }
        (false, false) => &TILED_NUMBERS,
    }
}
