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
mod fetch_packages;
mod fixture;
mod hostile_servers;
mod opm;
mod protocol;
mod real;
mod rpcs;
mod service;
mod stores;
