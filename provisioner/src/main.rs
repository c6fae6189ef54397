//! The provisioner.

use std::process::ExitCode;

use clap::Parser as _;
use provisioner::process::{self, Args};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    process::run(Args::parse())
}
