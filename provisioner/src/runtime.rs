//! Services of the process that know no resource of ours: leader election, TLS, metrics, Events and the log.

pub mod events;
pub mod fence;
pub mod http;
pub(crate) mod https;
pub(crate) mod leader_election;
pub mod leader_flag;
pub(crate) mod leader_label;
pub(crate) mod log;
pub mod metrics;
pub mod readiness;
pub mod settings;
pub(crate) mod signals;
pub(crate) mod tls;
