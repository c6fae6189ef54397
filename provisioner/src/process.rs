//! The process: flags, log, metrics, leadership, readiness, signals.
