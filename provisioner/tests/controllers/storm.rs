//! Faults that take minutes: `make faults`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "what goes wrong fails the test by panicking"
)]

mod support;

mod faults {
    #[allow(dead_code, reason = "shared with the short ones")]
    mod hook;
    mod kills;
    mod leaders;
    mod silence;
    mod stage;
    mod stubborn;

    /// The number of kills with a content store that is kept.
    const KILLS_WITH_CONTENT: u64 = 30;
    /// The number of kills with a content store that is deleted at every restart.
    const KILLS_WITHOUT_CONTENT: u64 = 300;
}
