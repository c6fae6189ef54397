//! Alerting rules for Prometheus. Each alert has a section in docs/alerts.md.

use serde_json::{Value, json};

use super::Options;

/// An alert. `NAMESPACE` is replaced by the provisioner's namespace.
struct Alert {
    name: &'static str,
    expression: &'static str,
    /// Duration for which the expression must be true, in Prometheus syntax.
    for_duration: &'static str,
    severity: &'static str,
    summary: &'static str,
    description: &'static str,
}

// Pods are replaced and reasons change, but neither may restart an alert. Therefore, expressions keep only the labels of
// the object. Prometheus renames the metric label `namespace` to `exported_namespace`, because it adds a `namespace` of the
// scraped pod.
const ALERTS: [Alert; 10] = [
    Alert {
        name: "RukpakProvisionerDown",
        expression: "absent(rukpak_leader{namespace=\"NAMESPACE\"} == 1)",
        for_duration: "10m",
        severity: "warning",
        summary: "No provisioner replica is active.",
        description: "For ten minutes no replica of the provisioner has been the leader, or no replica could be scraped. \
                      Installed objects keep running, but nothing is installed, upgraded or repaired. Check the pods of the \
                      Deployment core in NAMESPACE and their logs.",
    },
    Alert {
        name: "RukpakClusterNotUpgradeable",
        expression: "max by (namespace) (rukpak_upgradeable{namespace=\"NAMESPACE\"}) == 0",
        for_duration: "6h",
        severity: "info",
        summary: "Installed operators block the upgrade of the cluster to its next minor version.",
        description: "Some installed operators do not support the next minor version of the cluster, or are not \
                      upgradeable. The condition Upgradeable of the ClusterOperator platform-operators-aggregated (in \
                      clusters without ClusterOperators, of the PlatformStatus cluster) lists them, each with a remedy.",
    },
    Alert {
        name: "RukpakPlatformOperatorFailing",
        expression: "max by (namespace, name) (rukpak_platform_operator_installed{namespace=\"NAMESPACE\"}) == 0",
        for_duration: "30m",
        severity: "warning",
        summary: "The platform operator {{ $labels.name }} is not installed.",
        description: "The PlatformOperator {{ $labels.name }} has not been installed for half an hour. Its condition \
                      Installed reports the reason: kubectl get platformoperator {{ $labels.name }} -o wide",
    },
    Alert {
        name: "RukpakPlatformOperatorUnhealthy",
        expression: "max by (namespace) (rukpak_platform_operators{namespace=\"NAMESPACE\", state=\"unhealthy\"}) > 0",
        for_duration: "20m",
        severity: "warning",
        summary: "Installed platform operators are unhealthy.",
        description: "For 20 minutes platform operators ({{ $value }} now) have been unhealthy, or could not be upgraded or \
                      repaired. The condition Degraded of the ClusterOperator platform-operators-aggregated (in clusters \
                      without ClusterOperators, of the PlatformStatus cluster) lists them with their problems.",
    },
    Alert {
        name: "RukpakStatusNotWritten",
        expression: "max by (namespace, name) (rukpak_report_written{namespace=\"NAMESPACE\"}) == 0",
        for_duration: "15m",
        severity: "warning",
        summary: "The status of {{ $labels.name }} is outdated.",
        description: "For 15 minutes the provisioner has failed to write the state of platform operators, and whether the \
                      cluster may be upgraded, to {{ $labels.name }} (a ClusterOperator, or the PlatformStatus cluster). \
                      The status there may be wrong. The log of the provisioner in NAMESPACE shows the reason (failed to \
                      update the platform operator status).",
    },
    Alert {
        name: "RukpakCatalogUnavailable",
        expression: "max by (namespace, exported_namespace, name) (rukpak_catalog_available{namespace=\"NAMESPACE\"}) == 0",
        for_duration: "30m",
        severity: "warning",
        summary: "The catalog {{ $labels.exported_namespace }}/{{ $labels.name }} is unavailable.",
        description: "The catalog of the CatalogSource {{ $labels.exported_namespace }}/{{ $labels.name }} could not be \
                      read for half an hour. The content that was read last is still used, but newer content is not seen. \
                      Events of the CatalogSource report the reason: kubectl -n {{ $labels.exported_namespace }} describe \
                      catalogsource {{ $labels.name }}",
    },
    Alert {
        name: "RukpakReconcileErrors",
        expression: "sum by (namespace, controller) (rate(rukpak_reconcile_failures_total{namespace=\"NAMESPACE\"}[15m])) \
                     / sum by (namespace, controller) (rate(rukpak_reconciles_total{namespace=\"NAMESPACE\"}[15m])) > 0.5",
        for_duration: "30m",
        severity: "warning",
        summary: "Most reconciles of controller {{ $labels.controller }} fail.",
        description: "For half an hour more than half of all reconciles of the controller {{ $labels.controller }} have \
                      failed ({{ $value | humanizePercentage }} now). The label reason of rukpak_reconcile_failures_total \
                      has the reason; the log of the provisioner in NAMESPACE and the conditions of the objects have the \
                      details.",
    },
    Alert {
        name: "RukpakRepairsDoNotEnd",
        // A lasting field conflict is repaired every ten minutes, which is six times an hour. A single disturbance ends
        // earlier.
        expression: "sum by (namespace) (increase(rukpak_objects_repaired_total{namespace=\"NAMESPACE\"}[1h])) > 4",
        for_duration: "90m",
        severity: "info",
        summary: "Installed objects are changed repeatedly.",
        description: "For more than an hour objects have been repaired repeatedly ({{ $value | humanize }} times in the \
                      last hour), because another client keeps changing their fields. The condition Progressing with the \
                      reason FieldConflict of a BundleInstance names the field manager.",
    },
    Alert {
        name: "RukpakPullConfigurationInvalid",
        expression: "max by (namespace, source) (rukpak_pull_configuration_problems{namespace=\"NAMESPACE\"}) > 0",
        for_duration: "30m",
        severity: "warning",
        summary: "The pull configuration in the cluster's {{ $labels.source }} is invalid.",
        description: "The pull configuration in {{ $labels.source }} is invalid, or the provisioner is not allowed to read \
                      it. Other pull configuration is still applied. The log of the provisioner in NAMESPACE reports the \
                      problem (invalid pull configuration).",
    },
    Alert {
        name: "RukpakAdmissionPoliciesMissing",
        expression: "max by (namespace) (rukpak_admission_policies_missing{namespace=\"NAMESPACE\"}) > 0",
        for_duration: "30m",
        severity: "warning",
        summary: "Admission policies of the provisioner do not exist.",
        description: "For half an hour {{ $value }} admission policies or bindings of the install file have not existed. The \
                      API server allows the requests that these policies deny. Apply the install file again. An Event \
                      AdmissionPolicyMissing in the namespace default names each missing object.",
    },
];

/// Returns the rules of the alert group.
pub(super) fn rules(options: &Options) -> Vec<Value> {
    let with_namespace = |text: &str| text.replace("NAMESPACE", &options.namespace);
    let rule = |alert: &Alert| {
        json!({
            "alert": alert.name,
            "expr": with_namespace(alert.expression),
            "for": alert.for_duration,
            // The result of `absent` has no namespace label.
            "labels": {"severity": alert.severity, "namespace": options.namespace},
            "annotations": {
                "summary": alert.summary,
                "description": with_namespace(alert.description),
                "runbook": format!("docs/alerts.md#{}", alert.name.to_lowercase()),
            },
        })
    };
    ALERTS.iter().map(rule).collect()
}
