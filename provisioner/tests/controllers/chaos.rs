//! Faults that take minutes: `make faults`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "helpers of tests fail by panicking"
)]

mod support;

mod faults {
    mod dead_connections;
    mod kills;
    mod label_stripping;
    mod leaders;
    mod support;
    #[allow(dead_code, reason = "shared with the short ones")]
    mod webhook;

    /// The number of kills with a content store that is kept.
    const KILLS_WITH_CONTENT: u64 = 30;
    /// The number of kills with a content store that is deleted at every restart.
    const KILLS_WITHOUT_CONTENT: u64 = 300;
}
