//! Metrics of the requests to served catalogs. Labels do not name catalogs: there may be thousands, of any user.

use std::time::Duration;

use catalog::registry::ObserveCalls;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::{Registry, Unit},
};

use super::Metrics;

/// Buckets in seconds: from a package in memory to a list of all bundles over a slow connection.
const REQUEST_BUCKETS: [f64; 5] = [0.001, 0.01, 0.1, 1.0, 10.0];

/// Metrics of the requests.
#[derive(Debug)]
pub(super) struct CatalogRequests {
    ended: Family<RequestLabels, Counter>,
    durations: Family<RpcLabels, Histogram>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    rpc: &'static str,
    code: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RpcLabels {
    rpc: &'static str,
}

impl Default for CatalogRequests {
    fn default() -> Self {
        let durations: fn() -> Histogram = || Histogram::new(REQUEST_BUCKETS);
        Self {
            ended: Family::default(),
            durations: Family::new_with_constructor(durations),
        }
    }
}

impl CatalogRequests {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "catalog_requests",
            "Completed requests to served catalogs by rpc and code",
            self.ended.clone(),
        );
        registry.register_with_unit(
            "catalog_request_duration",
            "Duration of requests to served catalogs",
            Unit::Seconds,
            self.durations.clone(),
        );
    }
}

impl ObserveCalls for Metrics {
    fn ended(&self, rpc: &'static str, code: &'static str, took: Duration) {
        let requests = &self.requests;
        let ended = requests
            .ended
            .get_or_create_owned(&RequestLabels { rpc, code });
        ended.inc();
        let durations = requests.durations.get_or_create_owned(&RpcLabels { rpc });
        durations.observe(took.as_secs_f64());
    }
}
