//! Scrape configuration and alerting rules for the Prometheus operator, which OpenShift has and other clusters may have.

use serde_json::json;

use super::{
    CommentedObject, Options, Target, alerts,
    deployment::{METRICS, METRICS_PORT},
    labels,
};

const API: &str = "monitoring.coreos.com/v1";

pub(super) fn documents(options: &Options, target: Target) -> Vec<CommentedObject> {
    let metadata = json!({"name": METRICS, "namespace": options.namespace, "labels": labels()});
    let scraped = if target.is_openshift() {
        "Endpoints that the cluster's Prometheus scrapes."
    } else {
        "Apply this in addition to rukpak.yaml in clusters with the Prometheus operator. A Prometheus that selects such objects\n\
         by labels or namespaces must select these."
    };
    vec![
        CommentedObject::new(
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
        CommentedObject::new(
            "Alerts, each with a link to its runbook.",
            json!({
                "apiVersion": API,
                "kind": "PrometheusRule",
                "metadata": metadata,
                "spec": {"groups": [{"name": "rukpak", "rules": alerts::rules(options)}]},
            }),
        ),
    ]
}
