//! Bundle content to plain Kubernetes objects, and a report of what was changed, dropped or refused.
pub mod code;
pub mod report;
