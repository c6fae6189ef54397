//! Tests of the whole product with real components. One binary links once and starts one control plane.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod acceptance {
    mod alerts;
    mod architecture;
    mod cluster;
    mod corpus;
    mod documents;
    mod messages;
    mod parity;
    mod semantic_diff;
}
