//! The product as users run it: the image, installed by the install file, on a real node. `tests/e2e.sh` builds the image
//! and the node, and runs these tests. Without a node every test fails with that message.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

mod e2e {
    mod bundle;
    mod catalogs;
    mod commands;
    mod day_0;
    mod documents;
    mod environment;
    mod exclusive;
    mod host;
    mod install;
    mod job;
    mod lifecycle;
    mod olm;
    mod platform;
    mod removal;
    mod restart;
    mod wait;
}
