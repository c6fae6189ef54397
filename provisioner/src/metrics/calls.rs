//! What is told of the requests to catalogs that we serve. Of catalogs none is named: there may be thousands, and anybody's.

use std::time::Duration;

use catalog::registry::Calls;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

use super::Metrics;

/// From a package that is in memory to a list of everything over a slow line.
const SECONDS: [f64; 5] = [0.001, 0.01, 0.1, 1.0, 10.0];

/// The metrics themselves.
#[derive(Debug)]
pub(super) struct Requests {
    ended: Family<Ended, Counter>,
    durations: Family<Of, Histogram>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    rpc: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    rpc: &'static str,
}

impl Default for Requests {
    fn default() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(SECONDS);
        Self {
            ended: Family::default(),
            durations: Family::new_with_constructor(durations),
        }
    }
}

impl Requests {
    pub(super) fn register(&self, ours: &mut Registry) {
        ours.register(
            "catalog_requests",
            "Requests to catalogs that are served here and have ended, by rpc and code",
            self.ended.clone(),
        );
        ours.register_with_unit(
            "catalog_request_duration",
            "How long requests to catalogs took",
            Unit::Seconds,
            self.durations.clone(),
        );
    }
}

impl Calls for Metrics {
    fn ended(&self, rpc: &'static str, code: &'static str, took: Duration) {
        let requests = &self.requests;
        let ended = requests.ended.get_or_create_owned(&Ended { rpc, code });
        ended.inc();
        let durations = requests.durations.get_or_create_owned(&Of { rpc });
        durations.observe(took.as_secs_f64());
    }
}
