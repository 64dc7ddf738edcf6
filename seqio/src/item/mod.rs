//! Steps below the cache boundary that merge, split, drop or corrupt: planned from lengths, carried out on the rows that
//! are wanted.
//!
//! ```text
//! examples of a group  ->  items: named ropes  ->  steps cut, join and promise  ->  rows read what they hold
//!                          (lengths alone)
//! ```
//!
//! A step is an [`ItemStep`]. It gets items, whose sequences are [`Rope`]s: lengths, and where the tokens would come
//! from. It cuts, joins and drops ropes, and promises new ones by a [`TokenOp`], which runs when a row is written. So
//! every host can plan all rows from lengths, and reads the tokens of its own.

#[expect(clippy::module_inception, reason = "`Item` is the noun of this folder")]
mod item;
mod rope;
mod step;
mod steps;

pub use self::item::Item;
pub use self::rope::{Rope, StoredSpan, TokenOp};
pub(crate) use self::step::EditStep;
pub use self::step::{Draws, ItemStep};
pub(crate) use self::steps::Drawing;
pub use self::steps::{DEFAULT_GROUP, ItemSteps, MadeItem, NamedItemStep};
