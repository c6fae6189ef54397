//! The registry API: a real server over TCP, our client, a client generated from the protocol, and hostile servers.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // helpers of tests fail by panicking

#[macro_use(assert_each, assert_rows, with)]
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

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use catalog::{
    Limits, Source, load,
    registry::{Cache, Client, ClientLimits, ObserveCalls, Store, client::Error, packages},
};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    sync::Notify,
    time::{sleep, timeout},
};
use tonic::{Code, Status, transport::Endpoint};
