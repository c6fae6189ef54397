//! The process: flags, log, metrics, leadership, readiness, signals.

mod ready;

pub use ready::{Ready, Task};
