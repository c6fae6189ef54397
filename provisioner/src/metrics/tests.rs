use std::collections::BTreeMap;

use super::*;
use crate::{
    catalogs::Key,
    platform::{
        aggregate::Tally,
        gate::{Cluster, judge},
    },
};

/// With one at least of everything that is counted.
fn with_all() -> Metrics {
    let metrics = Metrics::new();
    metrics.failed(Controller::Bundle, "UnpackFailed");
    metrics.pull_problems(Source::Proxy, 0);
    metrics.gate(&judge(&Cluster::Kubernetes, [], &[]));
    let installed = BTreeMap::from([("etcd".to_owned(), true)]);
    metrics.platform_operators(Tally::default(), &installed);
    let key = Key {
        namespace: "catalogs".to_owned(),
        name: "mine".to_owned(),
    };
    metrics.catalog(&key, true);
    metrics
}

#[test]
fn what_alerts_look_at_is_told() {
    let rules = include_str!("../../../manifests/install/monitoring.yaml");
    let text = with_all().render();
    let mut looked_at = 0;
    for expression in rules.lines().filter_map(|line| line.split_once("expr: ")) {
        let words = expression
            .1
            .split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
        for name in words.filter(|word| word.starts_with("rukpak_")) {
            let sample = |line: &str| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            };
            assert!(text.lines().any(sample), "{name}:\n{text}");
            looked_at += 1;
        }
    }
    assert!(looked_at >= 7, "{looked_at}");
}

#[test]
fn every_metric_is_described() {
    let described = include_str!("../../../docs/operations.md");
    let metrics = with_all();
    let text = metrics.render();
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for name in names.filter_map(|line| line.split(' ').next()) {
        assert!(
            described.contains(&format!("`{name}")),
            "docs/operations.md does not tell of {name}"
        );
    }
}

#[test]
fn the_gate_is_told_once_it_is_known() {
    let metrics = Metrics::new();
    let told = || {
        let text = metrics.render();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("rukpak_upgradeable{"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(told(), [""; 0]);
    let errors = ["nothing can be read".to_owned()];
    metrics.gate(&judge(&Cluster::Kubernetes, [], &errors));
    let error = "rukpak_upgradeable{reason=\"ErrorCheckingOperatorCompatibility\"} 0";
    assert_eq!(told(), [error]);
    metrics.gate(&judge(&Cluster::Kubernetes, [], &[]));
    assert_eq!(told(), ["rukpak_upgradeable{reason=\"AsExpected\"} 1"]);
}

#[test]
fn platform_operators_that_are_gone_are_not_told() {
    let metrics = Metrics::new();
    let operators = |names: &[(&str, bool)]| {
        let names = names.iter().map(|(name, is)| ((*name).to_owned(), *is));
        metrics.platform_operators(Tally::default(), &names.collect());
        let text = metrics.render();
        let lines = text
            .lines()
            .filter(|line| line.contains("_operator_installed{"));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let line =
        |name: &str, is: u8| format!("rukpak_platform_operator_installed{{name=\"{name}\"}} {is}");
    assert_eq!(
        operators(&[("a", true), ("b", false)]),
        [line("a", 1), line("b", 0)]
    );
    assert_eq!(operators(&[("b", true)]), [line("b", 1)]);
}

#[test]
fn what_was_counted_is_told() {
    let metrics = Metrics::new();
    let ended = metrics.reconcile(Controller::Bundle);
    drop(ended);
    let running = metrics.reconcile(Controller::Instance);
    metrics.failed(Controller::Instance, "InstallFailed");
    metrics.failed(Controller::Instance, "InstallFailed");
    metrics.applied(7);
    metrics.repaired(2);
    metrics.unpacked(1 << 20);
    metrics.pull_problems(Source::PullSecret, 2);
    metrics.leads(true);
    let text = metrics.render();
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
        "rukpak_leader 1",
        concat!(
            "rukpak_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"} 1"
        ),
        "# EOF",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
    }
    drop(running);
    assert!(
        metrics
            .render()
            .contains("rukpak_reconciles_in_flight{controller=\"Instance\"} 0")
    );
}
