//! What Prometheus scrapes, and what it tells people of: objects of its operator, which OpenShift has and other clusters
//! may have.

use serde_json::json;

use super::{
    Document, Options, Target, alerts, labels,
    workload::{METRICS, METRICS_PORT},
};

const API: &str = "monitoring.coreos.com/v1";

pub(super) fn documents(options: &Options, target: Target) -> Vec<Document> {
    let metadata = json!({"name": METRICS, "namespace": options.namespace, "labels": labels()});
    let scraped = if target.is_openshift() {
        "What the cluster's own Prometheus asks for metrics."
    } else {
        "To be applied beside rukpak.yaml where the Prometheus operator runs. A Prometheus that selects such objects by\n\
         their labels or namespaces has to select these."
    };
    vec![
        Document::new(
            scraped,
            json!({
                "apiVersion": API,
                "kind": "ServiceMonitor",
                "metadata": metadata,
                "spec": {
                    "selector": {"matchLabels": {"app.kubernetes.io/name": "rukpak"}},
                    "namespaceSelector": {"matchNames": [options.namespace]},
                    "endpoints": [{"port": METRICS_PORT, "interval": "30s", "path": "/metrics", "scheme": "http"}],
                },
            }),
        ),
        Document::new(
            "When somebody should look, and where it is told what to do then.",
            json!({
                "apiVersion": API,
                "kind": "PrometheusRule",
                "metadata": metadata,
                "spec": {"groups": [{"name": "rukpak", "rules": alerts::rules(options)}]},
            }),
        ),
    ]
}
