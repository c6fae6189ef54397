use std::collections::BTreeMap;

use super::*;
use crate::platform::{
    aggregate::Tally,
    gate::{Cluster, Operator, judge},
};

/// With one at least of everything that is counted.
fn with_all() -> Metrics {
    let metrics = Metrics::new();
    metrics.failed(Controller::Bundle, "UnpackFailed");
    metrics.pull_problems(Source::Proxy, 0);
    metrics.gate(&judge(&Cluster::Kubernetes, [], &[]));
    let installed = BTreeMap::from([("etcd".to_owned(), true)]);
    metrics.platform_operators(Tally::default(), &installed);
    let key = crate::fixtures::key("catalogs", "mine");
    metrics.catalog(&key, true);
    metrics.report("cluster", true);
    metrics
}

/// The lines with a part.
fn lines(metrics: &Metrics, part: &str) -> Vec<String> {
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.contains(part));
    lines.map(str::to_owned).collect()
}

/// What an expression looks at: names, each with the labels that it is selected by.
fn looked_at(expression: &str) -> Vec<(&str, Vec<&str>)> {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let found = expression.match_indices("rukpak_").map(|(start, _)| {
        let text = expression.get(start..).unwrap();
        let name = text.split(|it| !is_word(it)).next().unwrap();
        let rest = text.strip_prefix(name).unwrap();
        let selector = rest.strip_prefix('{').and_then(|it| it.split_once('}'));
        let pairs = selector.map_or("", |(selector, _)| selector).split(',');
        let labels = pairs.filter_map(|pair| Some(pair.trim().split_once('=')?.0));
        (name, labels.collect())
    });
    found.collect()
}

/// The labels that an expression is grouped by.
fn grouped_by(expression: &str) -> Vec<&str> {
    let groups = expression.split(" by (").skip(1);
    let labels = groups.flat_map(|group| group.split_once(')').unwrap().0.split(','));
    labels.map(str::trim).collect()
}

#[test]
fn what_alerts_look_at_is_told() {
    let rules = include_str!("../../../manifests/install/monitoring.yaml");
    let text = with_all().render();
    let mut count = 0;
    for line in rules.lines() {
        let Some((_, expression)) = line.split_once("expr: ") else {
            continue;
        };
        let grouped = grouped_by(expression);
        for (name, selected) in looked_at(expression) {
            let sample = text.lines().find_map(|line| {
                let rest = line.strip_prefix(name)?;
                rest.starts_with(['{', ' ']).then_some(rest)
            });
            let sample = sample.unwrap_or_else(|| panic!("{name}:\n{text}"));
            for label in grouped.iter().chain(&selected) {
                // Of the pod that is scraped; ours of that name is called differently then.
                let ours = match *label {
                    "namespace" => continue,
                    "exported_namespace" => "namespace",
                    label => label,
                };
                let is_there = [format!("{{{ours}=\""), format!(",{ours}=\"")];
                let is_there = is_there.iter().any(|it| sample.contains(it));
                assert!(is_there, "{name} has no label {ours}: {sample}");
            }
            count += 1;
        }
    }
    assert!(count >= 9, "{count}");
}

/// Also those that a status has no room for.
#[test]
fn all_that_is_said_of_an_upgrade_is_counted() {
    let removed = vec!["it uses something".to_owned()];
    let operators =
        (0..3000).map(|n| with!(Operator, name: n.to_string(), removed: removed.clone()));
    let operators: Vec<Operator> = operators.collect();
    let metrics = Metrics::new();
    metrics.gate(&judge(&Cluster::Kubernetes, &operators, &[]));
    let text = metrics.render();
    for line in [
        "rukpak_upgrade_concerns{effect=\"warns\"} 3000",
        "rukpak_upgrade_concerns{effect=\"blocks\"} 0",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}:\n{text}");
    }
}

#[test]
fn every_metric_is_described() {
    let described = include_str!("../../../docs/operations.md");
    let metrics = with_all();
    let text = metrics.render();
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    for name in names.filter_map(|line| line.split(' ').next()) {
        let is_described = described.contains(&format!("`{name}"));
        assert!(is_described, "docs/operations.md does not tell of {name}");
    }
}

// parity: max-11
#[test]
fn the_gate_is_told_once_it_is_known() {
    let metrics = Metrics::new();
    let told = || lines(&metrics, "rukpak_upgradeable{");
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
        let mut lines = lines(&metrics, "_operator_installed{");
        lines.sort();
        lines
    };
    let line =
        |name: &str, is: u8| format!("rukpak_platform_operator_installed{{name=\"{name}\"}} {is}");
    let both = operators(&[("a", true), ("b", false)]);
    assert_eq!(both, [line("a", 1), line("b", 0)]);
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
