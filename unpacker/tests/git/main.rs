//! Directories of commits, from git's own servers and from hostile ones.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod broken;
mod content;
mod hostile;
mod revisions;
mod shared;
mod ssh;
