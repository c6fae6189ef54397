//! Entry point of the provisioner: parses its command line and runs the process.

use std::process::ExitCode;

use clap::Parser as _;
use provisioner::app::{self, Args};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    app::run(Args::parse())
}
