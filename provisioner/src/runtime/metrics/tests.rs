use std::collections::BTreeMap;

use super::*;
use crate::controllers::{
    catalog_source::CatalogKey,
    cluster_operator::upgradeable::{ClusterKind, InstalledOperator, UpgradeAssessment, assess},
};

/// Returns metrics with at least one sample of each.
fn with_all() -> Metrics {
    let metrics = Metrics::new();
    metrics.failed(Controller::Bundle, "LimitExceeded");
    metrics.pull_problems("Proxy", 0);
    gate(&metrics, &assess(&ClusterKind::Kubernetes, [], &[]));
    let installed = BTreeMap::from([("etcd".to_owned(), true)]);
    metrics.platform_operators(Tally::default(), &installed);
    metrics.catalog(&CatalogKey::new("catalogs", "mine"), true);
    metrics.report("cluster", true);
    metrics
}

fn lines(metrics: &Metrics, part: &str) -> Vec<String> {
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.contains(part));
    lines.map(str::to_owned).collect()
}

/// Returns the metrics of an expression, each with the labels of its selector.
fn metrics_in(expression: &str) -> Vec<(&str, Vec<&str>)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let found = expression.match_indices("rukpak_").map(|(start, _)| {
        let text = expression.get(start..).unwrap();
        let name = text.split(|c| !is_word(c)).next().unwrap();
        let labels = text.strip_prefix(name).unwrap().strip_prefix('{');
        let selector = labels.and_then(|labels| labels.split_once('}'));
        let pairs = selector.map_or("", |(selector, _)| selector).split(',');
        let labels = pairs.filter_map(|pair| Some(pair.trim().split_once('=')?.0));
        (name, labels.collect())
    });
    found.collect()
}

fn grouped_by(expression: &str) -> Vec<&str> {
    let groups = expression.split(" by (").skip(1);
    let labels = groups.flat_map(|group| group.split_once(')').unwrap().0.split(','));
    labels.map(str::trim).collect()
}

fn gate(metrics: &Metrics, verdict: &UpgradeAssessment) {
    metrics.upgradeable(verdict.is_upgradeable, verdict.reason, &verdict.counts);
}

#[test]
fn metrics_used_by_alerts_exist() {
    let rules = include_str!("../../../../manifests/install/monitoring.yaml");
    let text = with_all().render();
    let mut count = 0;
    for line in rules.lines() {
        let Some((_, expression)) = line.split_once("expr: ") else {
            continue;
        };
        let grouped = grouped_by(expression);
        for (name, selected) in metrics_in(expression) {
            let sample = text.lines().find_map(|line| {
                let rest = line.strip_prefix(name)?;
                rest.starts_with(['{', ' ']).then_some(rest)
            });
            let sample = sample.unwrap_or_else(|| panic!("{name}:\n{text}"));
            for label in grouped.iter().chain(&selected) {
                // Prometheus sets this label to the namespace of the scraped pod, and renames that of the metric.
                let own_name = match *label {
                    "namespace" => continue,
                    "exported_namespace" => "namespace",
                    label => label,
                };
                let labels = [format!("{{{own_name}=\""), format!(",{own_name}=\"")];
                let has_label = labels.iter().any(|label| sample.contains(label));
                assert!(has_label, "{name} has no label {own_name}: {sample}");
            }
            count += 1;
        }
    }
    assert!(count >= 9, "{count}");
}

/// Concerns that do not fit into the status count as well.
#[test]
fn upgrade_concerns_are_counted() {
    let removed = || vec!["it uses something".to_owned()];
    let operator = |n: u32| with!(InstalledOperator, name: n.to_string(), removed_apis: removed());
    let operators: Vec<InstalledOperator> = (0..3000).map(operator).collect();
    let metrics = Metrics::new();
    gate(&metrics, &assess(&ClusterKind::Kubernetes, &operators, &[]));
    for concerns in ["{effect=\"warns\"} 3000", "{effect=\"blocks\"} 0"] {
        let line = format!("rukpak_upgrade_concerns{concerns}");
        assert_eq!(lines(&metrics, &line), [line]);
    }
}

#[test]
fn every_metric_is_described() {
    let described = include_str!("../../../../docs/monitoring.md");
    let text = with_all().render();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<_> = types.filter_map(|line| line.split(' ').next()).collect();
    assert!(names.len() >= 9, "{names:?}");
    for name in names {
        assert_rows!(described.contains(&format!("`{name}")) => true, "docs/monitoring.md does not describe {name}");
    }
}

// parity: max-11
#[test]
fn upgradeable_metric_appears_with_the_first_verdict() {
    let metrics = Metrics::new();
    let upgradeable_lines = || lines(&metrics, "rukpak_upgradeable{");
    let after = |errors: &[String]| {
        gate(&metrics, &assess(&ClusterKind::Kubernetes, [], errors));
        upgradeable_lines()
    };
    assert_rows! {
        upgradeable_lines() => [""; 0];
        after(&["no answer".to_owned()]) => ["rukpak_upgradeable{reason=\"ErrorCheckingOperatorCompatibility\"} 0"];
        after(&[]) => ["rukpak_upgradeable{reason=\"AsExpected\"} 1"];
    }
}

#[test]
fn deleted_platform_operators_have_no_metrics() {
    let metrics = Metrics::new();
    let operators = |names: &[(&str, bool)]| {
        let names = names.iter().map(|(name, is)| ((*name).to_owned(), *is));
        metrics.platform_operators(Tally::default(), &names.collect());
        let mut lines = lines(&metrics, "_operator_installed{");
        lines.sort();
        lines
    };
    let line =
        |name: &str, is: u8| format!("rukpak_platform_operator_installed{{name=\"{name}\"}} {is}");
    assert_rows!(operators(&[("a", true), ("b", false)]) => [line("a", 1), line("b", 0)]);
    assert_eq!(operators(&[("b", true)]), [line("b", 1)]);
}

#[test]
fn counters_are_rendered() {
    let metrics = Metrics::new();
    drop(metrics.reconcile(Controller::Bundle));
    let running = metrics.reconcile(Controller::Instance);
    metrics.failed(Controller::Instance, "InstallFailed");
    metrics.failed(Controller::Instance, "InstallFailed");
    metrics.applied(7);
    metrics.repaired(2);
    metrics.unpacked(1 << 20);
    metrics.pull_problems("PullSecret", 2);
    metrics.admission_policies_missing(3);
    metrics.set_leader(true);
    let text = metrics.render();
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("rukpak_build_info{{version=\"{version}\"}} 1");
    for line in [
        "rukpak_reconciles_total{controller=\"Bundle\"} 1",
        "rukpak_reconciles_in_flight{controller=\"Bundle\"} 0",
        "rukpak_reconciles_in_flight{controller=\"Instance\"} 1",
        "rukpak_reconcile_duration_seconds_count{controller=\"Bundle\"} 1",
        "rukpak_reconcile_duration_seconds_count{controller=\"Instance\"} 0",
        "rukpak_reconcile_failures_total{controller=\"Instance\",reason=\"InstallFailed\"} 2",
        "rukpak_queue_length{controller=\"Bundle\"} 0",
        "rukpak_objects_applied_total 7",
        "rukpak_objects_repaired_total 2",
        "rukpak_unpacked_bytes_total 1048576",
        "rukpak_pull_configuration_problems{source=\"PullSecret\"} 2",
        "rukpak_admission_policies_missing 3",
        "rukpak_leader 1",
        &info,
        "# EOF",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
    }
    drop(running);
    let idle = "rukpak_reconciles_in_flight{controller=\"Instance\"} 0";
    assert_eq!(lines(&metrics, idle), [idle]);
}
