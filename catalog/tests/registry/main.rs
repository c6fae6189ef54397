//! The registry API: a real server over TCP, our client, a client generated from the protocol, and hostile servers.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

#[macro_use(with)]
extern crate tests;

#[path = "../../src/testing.rs"]
mod testing;

mod calls;
mod dynamic;
mod fixture;
mod opm;
mod protocol;
mod reading;
mod real;
mod rpcs;
mod service;
mod stores;
mod suspicion;
