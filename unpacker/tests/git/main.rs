//! Folders of commits, from git's own servers and from ones that mean harm.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod broken;
mod hostile;
mod http;
mod old;

mod shared;
mod ssh;
