//! On a device: tiles of four queries by four keys, one invocation for four rows of a result.

use super::{Attention, AttentionBackward, Extent, Part};
use crate::gpu::{BufferRef, GpuArgs, Kernel, PRELUDE, linear_groups};
use crate::random::THREEFRY;

const COMMON: &str = include_str!("common.wgsl");
const TILES: &str = include_str!("tiles.wgsl");
/// Heads are read as vectors where their width is a multiple of four, else one number at a time.
const VECTORS: &str = include_str!("vectors.wgsl");
const NUMBERS: &str = include_str!("numbers.wgsl");
const FORWARD: &str = include_str!("forward.wgsl");
const QUERIES: &str = include_str!("queries.wgsl");
const KEYS: &str = include_str!("keys.wgsl");
const TABLE: &str = include_str!("table.wgsl");

static GATHER: Kernel = Kernel {
    name: "attention_gather",
    source: &[PRELUDE, COMMON, THREEFRY, include_str!("gather.wgsl")],
    entry: "gather",
};

static ATTEND: [Kernel; 2] = [
    Kernel { name: "attention", source: &[PRELUDE, COMMON, TILES, VECTORS, FORWARD], entry: "attend" },
    Kernel { name: "attention_ragged", source: &[PRELUDE, COMMON, TILES, NUMBERS, FORWARD], entry: "attend" },
];

static PRODUCTS: Kernel = Kernel {
    name: "attention_products",
    source: &[PRELUDE, COMMON, include_str!("products.wgsl")],
    entry: "products",
};

static OF_QUERIES: [Kernel; 2] = [
    Kernel {
        name: "attention_queries",
        source: &[PRELUDE, COMMON, TILES, VECTORS, QUERIES],
        entry: "of_queries",
    },
    Kernel {
        name: "attention_queries_ragged",
        source: &[PRELUDE, COMMON, TILES, NUMBERS, QUERIES],
        entry: "of_queries",
    },
];

static OF_KEYS: [Kernel; 2] = [
    Kernel { name: "attention_keys", source: &[PRELUDE, COMMON, TILES, VECTORS, KEYS], entry: "of_keys" },
    Kernel {
        name: "attention_keys_ragged",
        source: &[PRELUDE, COMMON, TILES, NUMBERS, KEYS],
        entry: "of_keys",
    },
];

static OVER_QUERIES: Kernel =
    Kernel { name: "attention_table", source: &[PRELUDE, COMMON, TABLE], entry: "over_queries" };

static OVER_BATCH: Kernel =
    Kernel { name: "attention_table", source: &[PRELUDE, COMMON, TABLE], entry: "over_batch" };

/// Blocks of four columns that an invocation keeps the sums of.
const BLOCKS: usize = 16;

/// Where the smaller inputs are in the one buffer that kernels read them from: a shader has few bindings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    buckets: usize,
    q_groups: usize,
    k_groups: usize,
    prefix: usize,
    kept: usize,
    len: usize,
}

impl Layout {
    pub(super) fn new(attention: &Attention, extent: &Extent) -> Self {
        let mut next = 0;
        let mut take = |there: bool, elements: usize| {
            next += if there { elements } else { 0 };
            next
        };
        let buckets = take(attention.relative, extent.heads * extent.distances());
        let q_groups = take(attention.relative, extent.distances());
        let k_groups = take(true, extent.batch * extent.queries);
        let prefix = take(true, extent.batch * extent.keys);
        let kept = take(attention.prefix, extent.batch * extent.queries);
        let len = take(attention.dropout.is_some(), extent.batch * extent.heads * extent.keys);
        Self { buckets, q_groups, k_groups, prefix, kept, len }
    }

    /// How many words there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// What all kernels are told.
fn params(attention: &Attention, extent: &Extent) -> Vec<u32> {
    let layout = Layout::new(attention, extent);
    let lengths = [extent.batch, extent.queries, extent.keys, extent.heads, extent.width, extent.buckets];
    let flags = [attention.causal, attention.relative, attention.prefix].map(usize::from);
    let places = [layout.buckets, layout.q_groups, layout.k_groups, layout.prefix, layout.kept, layout.len];
    let (site, rate, scale) =
        attention.dropout.map_or((0, 0.0, 1.0), |dropout| (dropout.site, dropout.rate, dropout.scale()));
    let words = lengths.into_iter().chain(flags).chain(places).map(|word| word as u32);
    let Part { first_row, first_head, whole_heads } = attention.whole();
    let part = [first_row, first_head, whole_heads].map(|word| word as u32);
    words.chain([site, rate.to_bits(), scale.to_bits()]).chain(part).collect()
}

/// Fills the buffer of the smaller inputs.
fn gather(attention: &Attention, args: &mut GpuArgs<'_>, params: &[u32], facts: usize) -> BufferRef {
    // What is not there is bound to something else, and not read.
    let or_else = |at: Option<usize>| args.input(at.unwrap_or(3));
    let table = attention.table_at();
    let (elements, facts) = (args.output_shape(facts).elements(), args.output(facts));
    let buffers = [
        facts,
        args.input(3),
        args.input(4),
        or_else(table),
        or_else(table.map(|at| at + 1)),
        or_else(attention.prefix_at()),
        or_else(attention.key_at()),
    ];
    args.dispatch(&GATHER, &buffers, params, linear_groups(elements, 64));
    facts
}

/// One invocation for every four of `rows` and every stretch of columns.
fn groups(extent: &Extent, rows: usize) -> [u32; 3] {
    let stretches = extent.width.div_ceil(4).div_ceil(BLOCKS);
    linear_groups(extent.batch * extent.heads * rows.div_ceil(4) * stretches, 64)
}

fn ragged(extent: &Extent) -> usize {
    usize::from(!extent.width.is_multiple_of(4))
}

pub(super) fn forward(attention: &Attention, args: &mut GpuArgs<'_>) {
    let extent = attention.known_extent(|i| args.shape(i).dims());
    let params = params(attention, &extent);
    let facts = gather(attention, args, &params, 2);
    let buffers = [args.input(0), args.input(1), args.input(2), facts, args.output(0), args.output(1)];
    args.dispatch(&ATTEND[ragged(&extent)], &buffers, &params, groups(&extent, extent.queries));
}

pub(super) fn backward(op: &AttentionBackward, args: &mut GpuArgs<'_>) {
    let attention = &op.attention;
    let extent = attention.known_extent(|i| args.shape(i).dims());
    let params = params(attention, &extent);
    let (places, y_at) = (op.places(), op.y_at());
    let facts = gather(attention, args, &params, places.facts);
    let (rows, partial) = (args.output(places.rows), args.output(places.partial));

    let (y, sums, of_y) = (args.input(y_at), args.input(y_at + 1), args.input(y_at + 2));
    let of_sums = if op.of_sums { args.input(y_at + 3) } else { sums };
    let with_flag = |flag: bool| [&params[..], &[u32::from(flag)]].concat();
    let all_rows = linear_groups(extent.batch * extent.heads * extent.queries, 64);
    args.dispatch(&PRODUCTS, &[of_y, y, sums, of_sums, rows], &with_flag(op.of_sums), all_rows);

    let [q, k, v] = [0, 1, 2].map(|input| args.input(input));
    if let Some(place) = places.queries {
        let buffers = [q, k, v, facts, of_y, rows, args.output(place), partial];
        let groups = groups(&extent, extent.queries);
        args.dispatch(&OF_QUERIES[ragged(&extent)], &buffers, &with_flag(op.needs_table), groups);
    }
    if let (Some(keys), Some(values)) = (places.keys, places.values) {
        let buffers = [q, k, v, facts, of_y, rows, args.output(keys), args.output(values)];
        args.dispatch(&OF_KEYS[ragged(&extent)], &buffers, &params, groups(&extent, extent.keys));
    }
    if let Some(place) = places.table {
        let columns = extent.heads * extent.buckets;
        args.dispatch(&OVER_QUERIES, &[partial], &params, linear_groups(extent.batch * columns, 64));
        let buffers = [partial, args.output(place)];
        args.dispatch(&OVER_BATCH, &buffers, &params, linear_groups(columns, 64));
    }
}
