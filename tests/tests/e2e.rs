//! The product as its users have it: the image, installed by the install file, on a real node. `tests/e2e.sh` builds what
//! that takes and runs this; where there is no node, every test fails and says so.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod e2e {
    mod alone;
    mod bundle;
    mod catalogs;
    mod commands;
    mod day_0;
    mod documents;
    mod install;
    mod job;
    mod lifecycle;
    mod machine;
    mod olm;
    mod platform;
    mod removal;
    mod restart;
    mod sources;
    mod wait;
    mod world;
}
