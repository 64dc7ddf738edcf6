//! The kernels of products: which of them, and for how many workgroups.

use crate::gpu::{GpuArgs, Kernel, PRELUDE, Traits, linear_groups};
use crate::ops::matmul::{Layout, Sizes};

/// How a product is computed on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Every invocation loads all that it multiplies, for a block of results in registers: for processors in disguise,
    /// where barriers and workgroup memory are slow.
    Direct,
    /// Workgroups share tiles in workgroup memory.
    Tiled,
}

impl Kernels {
    /// Those that suit a device.
    pub fn of(traits: Traits) -> Self {
        if traits.software { Self::Direct } else { Self::Tiled }
    }
}

const COMMON: &str = include_str!("common.wgsl");
const VECTORS: &str = include_str!("load_vectors.wgsl");
const NUMBERS: &str = include_str!("load_numbers.wgsl");
const DIRECT: &str = include_str!("direct.wgsl");
const TILED: &str = include_str!("tiled.wgsl");

/// With loads of four numbers at once: every width is a multiple of four.
static DIRECT_VECTORS: Kernel =
    Kernel { name: "matmul direct vectors", source: &[PRELUDE, COMMON, VECTORS, DIRECT], entry: "direct" };
/// With loads of single numbers.
static DIRECT_NUMBERS: Kernel =
    Kernel { name: "matmul direct numbers", source: &[PRELUDE, COMMON, NUMBERS, DIRECT], entry: "direct" };
static TILED_VECTORS: Kernel =
    Kernel { name: "matmul tiled vectors", source: &[PRELUDE, COMMON, VECTORS, TILED], entry: "tiled" };
static TILED_NUMBERS: Kernel =
    Kernel { name: "matmul tiled numbers", source: &[PRELUDE, COMMON, NUMBERS, TILED], entry: "tiled" };

/// Results of one workgroup of the direct kernel, rows by columns: 8 by 8 invocations of 16 by 8.
const DIRECT_TILE: (usize, usize) = (128, 64);
/// Results of one workgroup of the tiled kernel: 16 by 16 invocations of 4 by 4.
const TILED_TILE: (usize, usize) = (64, 64);

/// Records the product of input 0 and input 1.
pub(super) fn dispatch(args: &mut GpuArgs<'_>, kernels: Kernels, layout: Layout, sizes: Sizes) {
    let Sizes { batch, rows, depth, columns } = sizes;
    if batch * rows * columns == 0 {
        return;
    }
    let widths = match layout {
        Layout::Nn | Layout::Nt => [depth, columns, depth],
        Layout::Tn => [depth, columns, rows],
    };
    let vectors = widths.iter().all(|width| width.is_multiple_of(4));
    let (kernel, (tile_rows, tile_columns)) = match (kernels, vectors) {
        (Kernels::Direct, true) => (&DIRECT_VECTORS, DIRECT_TILE),
        (Kernels::Direct, false) => (&DIRECT_NUMBERS, DIRECT_TILE),
        (Kernels::Tiled, true) => (&TILED_VECTORS, TILED_TILE),
        (Kernels::Tiled, false) => (&TILED_NUMBERS, TILED_TILE),
    };
    let tiles = (rows.div_ceil(tile_rows), columns.div_ceil(tile_columns));
    let params = [batch, rows, depth, columns, tiles.0, tiles.1].map(|number| number as u32);
    let along_depth = |yes: bool| f64::from(u8::from(yes));
    let constants =
        [("A_ALONG_K", along_depth(layout != Layout::Tn)), ("B_ALONG_K", along_depth(layout == Layout::Nt))];
    let buffers = [args.input(0), args.input(1), args.output(0)];
    args.dispatch_with(kernel, &constants, &buffers, &params, linear_groups(batch * tiles.0 * tiles.1, 1));
}
