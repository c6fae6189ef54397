//! Whole bundles: what a good one becomes, and what a bad one is told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "helpers of tests fail by panicking; tables are long"
)]

mod bundles {
    mod conversion;
    mod facts;
    mod fixture;
    mod fuzz;
    mod irregular;
    mod memory;
    mod others;
    mod refusals;
}
