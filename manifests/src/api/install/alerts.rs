//! When Prometheus tells people that something is wrong. Each alert has a section in docs/operations.md.

use serde_json::{Value, json};

use super::Options;

/// What is alerted on. `NAMESPACE` stands for the provisioner's.
struct Alert {
    name: &'static str,
    expression: &'static str,
    /// How long that has to last, as Prometheus writes durations.
    lasts: &'static str,
    severity: &'static str,
    summary: &'static str,
    description: &'static str,
}

// Pods come and go, and reasons change: neither must make an alert begin anew, so all that is left of labels is what it is
// about. A label `namespace` of ours is called `exported_namespace`, for Prometheus has one for whatever it scrapes.
const ALERTS: [Alert; 10] = [
    Alert {
        name: "RukpakProvisionerDown",
        expression: "absent(rukpak_leader{namespace=\"NAMESPACE\"} == 1)",
        lasts: "10m",
        severity: "warning",
        summary: "No provisioner works.",
        description: "For ten minutes no replica of the provisioner has held the lead, or none could be scraped. What is \
                      installed keeps running, but nothing is installed, upgraded or repaired. Look at the pods of the \
                      Deployment core in NAMESPACE and at their logs.",
    },
    Alert {
        name: "RukpakClusterNotUpgradeable",
        expression: "max by (namespace) (rukpak_upgradeable{namespace=\"NAMESPACE\"}) == 0",
        lasts: "6h",
        severity: "info",
        summary: "Installed operators keep the cluster from its next minor version.",
        description: "Some installed operators do not run on the next minor version of the cluster, or ask not to be \
                      upgraded now. The condition Upgradeable of the ClusterOperator platform-operators-aggregated (of the \
                      PlatformStatus cluster where there is none) names them, each with what to do.",
    },
    Alert {
        name: "RukpakPlatformOperatorFailing",
        expression: "max by (namespace, name) (rukpak_platform_operator_installed{namespace=\"NAMESPACE\"}) == 0",
        lasts: "30m",
        severity: "warning",
        summary: "The platform operator {{ $labels.name }} is not installed.",
        description: "The PlatformOperator {{ $labels.name }} has not been installed for half an hour. Its condition Installed \
                      says why: kubectl get platformoperator {{ $labels.name }} -o wide",
    },
    Alert {
        name: "RukpakPlatformOperatorUnhealthy",
        expression: "max by (namespace) (rukpak_platform_operators{namespace=\"NAMESPACE\", state=\"unhealthy\"}) > 0",
        lasts: "20m",
        severity: "warning",
        summary: "Installed platform operators are in trouble.",
        description: "For half an hour platform operators ({{ $value }} now) have been unhealthy, or could not be upgraded or \
                      repaired. The condition Degraded of the ClusterOperator platform-operators-aggregated (of the \
                      PlatformStatus cluster where there is none) names them, and says what is wrong with each.",
    },
    Alert {
        name: "RukpakStatusNotWritten",
        expression: "max by (namespace, name) (rukpak_report_written{namespace=\"NAMESPACE\"}) == 0",
        lasts: "15m",
        severity: "warning",
        summary: "The status of {{ $labels.name }} is out of date.",
        description: "What is concluded about platform operators, and whether the cluster may be upgraded, could not be \
                      written to {{ $labels.name }} (a ClusterOperator, or the PlatformStatus cluster) for a quarter of an \
                      hour. What stands there may be wrong. The log of the provisioner in NAMESPACE says why (what is \
                      concluded cannot be written).",
    },
    Alert {
        name: "RukpakCatalogUnavailable",
        expression: "max by (namespace, exported_namespace, name) (rukpak_catalog_available{namespace=\"NAMESPACE\"}) == 0",
        lasts: "30m",
        severity: "warning",
        summary: "The catalog {{ $labels.exported_namespace }}/{{ $labels.name }} cannot be read.",
        description: "The catalog of the CatalogSource {{ $labels.exported_namespace }}/{{ $labels.name }} could not be read \
                      for half an hour. What was read last still counts, but nothing newer is seen. Events of the \
                      CatalogSource say why: kubectl -n {{ $labels.exported_namespace }} describe catalogsource {{ $labels.name }}",
    },
    Alert {
        name: "RukpakReconcileErrors",
        expression: "sum by (namespace, controller) (rate(rukpak_reconcile_failures_total{namespace=\"NAMESPACE\"}[15m])) \
                     / sum by (namespace, controller) (rate(rukpak_reconciles_total{namespace=\"NAMESPACE\"}[15m])) > 0.5",
        lasts: "30m",
        severity: "warning",
        summary: "Most of what the controller {{ $labels.controller }} does fails.",
        description: "For half an hour more than half of all reconciles of the controller {{ $labels.controller }} have failed \
                      ({{ $value | humanizePercentage }} now). The label reason of rukpak_reconcile_failures_total says in one \
                      word why; the log of the provisioner in NAMESPACE and the conditions of the objects say more.",
    },
    Alert {
        name: "RukpakRepairsDoNotEnd",
        // Who is fought with for long is put right every ten minutes: six times an hour. One commotion is over before.
        expression: "sum by (namespace) (increase(rukpak_objects_repaired_total{namespace=\"NAMESPACE\"}[1h])) > 4",
        lasts: "90m",
        severity: "info",
        summary: "Somebody keeps changing what was installed.",
        description: "For more than an hour objects had to be put right again and again ({{ $value | humanize }} times in the \
                      last hour). Somebody else wants their fields to be different: a BundleInstance whose condition \
                      Progressing has the reason FieldConflict says who.",
    },
    Alert {
        name: "RukpakPullConfigurationInvalid",
        expression: "max by (namespace, source) (rukpak_pull_configuration_problems{namespace=\"NAMESPACE\"}) > 0",
        lasts: "30m",
        severity: "warning",
        summary: "The cluster's {{ $labels.source }} cannot be followed in pulling.",
        description: "What the cluster says in {{ $labels.source }} about where images come from makes no sense, or may not be \
                      read. Everything else is followed. The log of the provisioner in NAMESPACE says what is \
                      wrong (cannot follow the cluster in pulling).",
    },
    Alert {
        name: "RukpakAdmissionPoliciesMissing",
        expression: "max by (namespace) (rukpak_admission_policies_missing{namespace=\"NAMESPACE\"}) > 0",
        lasts: "30m",
        severity: "warning",
        summary: "Admission policies of the provisioner do not exist.",
        description: "For half an hour {{ $value }} admission policies or bindings of the install file have not existed. The \
                      API server allows the requests that these policies deny. Apply the install file again. An Event \
                      AdmissionPolicyMissing in the namespace default names each missing object.",
    },
];

/// The rules of a group.
pub(super) fn rules(options: &Options) -> Vec<Value> {
    let of_here = |text: &str| text.replace("NAMESPACE", &options.namespace);
    let rule = |alert: &Alert| {
        json!({
            "alert": alert.name,
            "expr": of_here(alert.expression),
            "for": alert.lasts,
            // What is absent has no namespace of its own.
            "labels": {"severity": alert.severity, "namespace": options.namespace},
            "annotations": {
                "summary": alert.summary,
                "description": of_here(alert.description),
                "runbook": format!("docs/operations.md#{}", alert.name.to_lowercase()),
            },
        })
    };
    ALERTS.iter().map(rule).collect()
}
