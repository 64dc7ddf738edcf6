//! Random numbers as functions of a key and a place: no state, so that any part of a tensor can be drawn by itself, on
//! the host and on the device alike.

mod distribution;
mod threefry;

pub use distribution::{normal, truncated_normal, uniform};
pub use threefry::{Key, THREEFRY, keeps, threefry2x32};
