//! Items of a task whose steps below the boundary merge, split, drop or corrupt: where they begin, and what they are.

mod anchors;
mod grouped;
mod index;
mod reader;
mod store;

pub use self::anchors::Anchor;
pub(crate) use self::grouped::GroupedItems;
pub(crate) use self::index::AnchorFile;
pub(crate) use self::reader::ItemReader;
pub(crate) use self::store::ItemStore;
