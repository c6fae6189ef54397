//! Blocks and extended headers of tar archives.

pub(crate) mod blocks;
pub(crate) mod pax;
