//! The provisioner.

use std::process::ExitCode;

use clap::Parser as _;
use provisioner::process::{self, Args};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    process::run(Args::parse())
}
