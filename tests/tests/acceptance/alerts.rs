//! The alerts: promtool accepts them, matching series fire them, and their runbooks explain them.

use std::{fs, process::Command};

use manifests::yaml;
use serde_json::{Value, json};
use tests::{Run, assert_has, root};

fn promtool(args: &[&str]) -> Run {
    let output = Command::new("promtool").args(args).output();
    output.unwrap().into()
}

/// The groups of the only PrometheusRule in a file, in the form that Prometheus reads.
fn groups(file: &str) -> Value {
    let text = fs::read(root().join(file)).unwrap();
    let documents = yaml::documents(&text).map(|document| document.unwrap());
    let mut rules: Vec<Value> = documents.collect();
    rules.retain(|document| document["kind"] == "PrometheusRule");
    assert_eq!(rules.len(), 1, "{file}");
    rules.remove(0)["spec"].take()
}

fn rules(groups: &Value) -> &Vec<Value> {
    groups["groups"][0]["rules"].as_array().unwrap()
}

const FILES: [(&str, &str); 3] = tests::rows![
    "manifests/install/monitoring.yaml" => "rukpak-system";
    "manifests/install/openshift.yaml" => "rukpak-system";
    "manifests/release/0000_90_cluster-platform-operator-manager_01-monitoring.yaml" => "openshift-platform-operators";
];

#[test]
fn promtool_accepts_the_alerts_and_rejects_broken_ones() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.yaml");
    let check = |groups: &Value| {
        fs::write(&file, groups.to_string()).unwrap();
        let file = file.to_str().unwrap();
        promtool(&["check", "rules", "--lint=all", "--lint-fatal", file])
    };
    for (path, namespace) in FILES {
        let mut groups = groups(path);
        let found = check(&groups).exits(0);
        found.out_has(format!("{} rules found", rules(&groups).len()));
        for rule in rules(&groups) {
            let expression = rule["expr"].as_str().unwrap();
            assert_has(expression, &format!("namespace=\"{namespace}\""));
        }
        for (field, wrong) in [("expr", "rukpak_leader =="), ("for", "long"), ("alert", "")] {
            let right = groups["groups"][0]["rules"][1][field].take();
            groups["groups"][0]["rules"][1][field] = wrong.into();
            let found = check(&groups);
            assert_ne!(found.code, Some(0), "{field}: {found:?}");
            groups["groups"][0]["rules"][1][field] = right;
        }
    }
}

/// Scraped series, the evaluation time in minutes, and the alert that fires then.
struct Case {
    name: &'static str,
    minutes: &'static str,
    /// An alert, the labels that its series give it, and its summary.
    fires: Option<(&'static str, &'static str, &'static str)>,
    series: Vec<Value>,
}

/// A line for each case: its name, its minutes, and the alert with its labels and its summary. The lines below are the series,
/// each with its values; the default namespace is `rukpak-system`. A comment explains the series below.
const CASES: &str = r#"
    no problem | 900 | nothing
        leader{pod="a"} 1x1000
        leader{pod="b"} 0x1000
        upgradeable{pod="a"} 1x1000
        platform_operator_installed{name="tide"} 1x1000
        catalog_available{exported_namespace="catalogs",name="mine"} 1x1000
        reconciles_total{controller="Bundle"} 0+10x1000
        reconcile_failures_total{controller="Bundle",reason="A"} 0+2x1000
        # Many repairs that end.
        objects_repaired_total{pod="a"} 0+50x20 1000x980
        platform_operators{pod="a",state="installed"} 1x1000
        platform_operators{pod="a",state="unhealthy"} 0x1000
        report_written{pod="a",name="platform-operators-core"} 1x1000
        pull_configuration_problems{source="Proxy"} 0x1000
        admission_policies_missing{pod="a"} 0x1000
    no leader | 11 | RukpakProvisionerDown{} No provisioner replica is active.
        leader{pod="b"} 0x1000
        leader{namespace="elsewhere",pod="a"} 1x1000
    no leader during a rollout | 13 | nothing
        leader{pod="a"} 1x5 0x8 1x1000
        leader{namespace="elsewhere",pod="a"} 1x1000
    no scraped series | 11 | RukpakProvisionerDown{} No provisioner replica is active.
        leader{namespace="elsewhere",pod="a"} 1x1000
    the gate is closed | 361 | RukpakClusterNotUpgradeable{} Installed operators block the upgrade of the cluster to its next minor version.
        leader{pod="a"} 1x1000
        leader{pod="b"} 0x1000
        # Another pod, for another reason.
        upgradeable{pod="a",reason="A"} 0x200 _x800
        upgradeable{pod="b",reason="B"} _x200 0x800
    the gate has not been closed for long | 359 | nothing
        leader{pod="a"} 1x1000
        upgradeable{pod="a"} 0x1000
    one of two platform operators fails | 31 | RukpakPlatformOperatorFailing{name=tide} The platform operator tide is not installed.
        leader{pod="a"} 1x1000
        platform_operator_installed{name="tide"} 0x1000
        platform_operator_installed{name="etcd"} 1x1000
    one that is installed is unhealthy | 21 | RukpakPlatformOperatorUnhealthy{} Installed platform operators are unhealthy.
        leader{pod="a"} 1x1000
        platform_operators{pod="a",state="unhealthy"} 1x1000
    a status cannot be written | 16 | RukpakStatusNotWritten{name=platform-operators-aggregated} The status of platform-operators-aggregated is outdated.
        leader{pod="a"} 1x1000
        report_written{pod="a",name="platform-operators-core"} 1x1000
        report_written{pod="a",name="platform-operators-aggregated"} 0x1000
    a catalog is unavailable | 31 | RukpakCatalogUnavailable{exported_namespace=catalogs,name=mine} The catalog catalogs/mine is unavailable.
        leader{pod="a"} 1x1000
        catalog_available{exported_namespace="catalogs",name="mine"} 0x1000
    most of what one controller does fails | 60 | RukpakReconcileErrors{controller=Bundle} Most reconciles of controller Bundle fail.
        leader{pod="a"} 1x1000
        reconciles_total{controller="Bundle"} 0+10x1000
        reconcile_failures_total{controller="Bundle",reason="A"} 0+4x1000
        reconcile_failures_total{controller="Bundle",reason="B"} 0+4x1000
        reconciles_total{controller="Instance"} 0+10x1000
    repairs do not end | 150 | RukpakRepairsDoNotEnd{} Installed objects are changed repeatedly.
        leader{pod="a"} 1x1000
        objects_repaired_total{pod="a"} FIGHT
    the cluster's proxy is invalid | 31 | RukpakPullConfigurationInvalid{source=Proxy} The pull configuration in the cluster's Proxy is invalid.
        leader{pod="a"} 1x1000
        pull_configuration_problems{source="Proxy"} 2x1000
    the admission policies are missing | 62 | RukpakAdmissionPoliciesMissing{} Admission policies of the provisioner do not exist.
        leader{pod="a"} 1x1000
        admission_policies_missing{pod="a"} 0x30 3x1000
"#;

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let lines = CASES.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let cells: Vec<_> = line.split(" | ").collect();
        if let [name, minutes, fires] = cells[..] {
            let fires = fires.split_once('{').map(|(alert, rest)| {
                let (labels, summary) = rest.split_once("} ").unwrap();
                (alert, labels, summary)
            });
            cases.push(Case {
                name,
                minutes,
                fires,
                series: Vec::new(),
            });
            continue;
        }
        // Prometheus adds the labels of the scrape target.
        let (series, values) = line.split_once("} ").unwrap();
        let (name, labels) = series.split_once('{').unwrap();
        let own = "namespace=\"rukpak-system\",";
        let is_named = labels.starts_with("namespace=");
        let namespace = if is_named { "" } else { own };
        let values = match values {
            "FIGHT" => include_str!("fight.txt").trim_end(),
            values => values,
        };
        let series = format!("rukpak_{name}{{{namespace}{labels}}}");
        let series = json!({"series": series, "values": values});
        cases.last_mut().unwrap().series.push(series);
    }
    cases
}

/// The alerts that promtool has to expect of a rule.
fn expected(case: &Case, rule: &Value) -> Value {
    let Some((_, labels, summary)) = case.fires.filter(|fires| rule["alert"] == fires.0) else {
        return json!([]);
    };
    let mut all = rule["labels"].clone();
    for (key, value) in labels.split(',').filter_map(|label| label.split_once('=')) {
        all[key] = value.into();
    }
    json!([{"exp_labels": all, "exp_annotations": {"summary": summary}}])
}

#[test]
fn every_alert_fires_after_its_delay_and_not_before() {
    let mut groups = groups(FILES[0].0);
    // promtool compares all annotations. The summary alone is enough to check the substitution of labels.
    for rule in groups["groups"][0]["rules"].as_array_mut().unwrap() {
        rule["annotations"] = json!({"summary": rule["annotations"]["summary"]});
    }
    let (alerts, cases) = (rules(&groups), cases());
    for rule in alerts {
        let mut firing = cases.iter().filter_map(|case| case.fires);
        assert!(firing.any(|fires| rule["alert"] == fires.0), "{rule}");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.yaml");
    fs::write(&file, groups.to_string()).unwrap();
    let cases = cases.iter().map(|case| {
        let time = format!("{}m", case.minutes);
        let expected = alerts.iter().map(|rule| {
            json!({"eval_time": time, "alertname": rule["alert"], "exp_alerts": expected(case, rule)})
        });
        let expected: Value = expected.collect();
        json!({"name": case.name, "interval": "1m", "input_series": case.series, "alert_rule_test": expected})
    });
    let cases: Value = cases.collect();
    let document = json!({"rule_files": [file], "evaluation_interval": "1m", "tests": cases});
    let test = dir.path().join("test.yaml");
    fs::write(&test, document.to_string()).unwrap();
    promtool(&["test", "rules", test.to_str().unwrap()]).exits(0);
}

#[test]
fn every_alert_has_a_section_in_its_runbook() {
    let page = fs::read_to_string(root().join("docs/alerts.md")).unwrap();
    let headings = page.lines().filter_map(|line| line.strip_prefix("### "));
    let anchors = headings.map(|heading| heading.to_lowercase().replace(' ', "-"));
    let anchors: Vec<String> = anchors.collect();
    for (file, _) in FILES {
        for rule in rules(&groups(file)) {
            let annotations = &rule["annotations"];
            for field in ["summary", "description"] {
                assert!(annotations[field].as_str().is_some(), "{field}: {rule}");
            }
            let runbook = annotations["runbook"].as_str().unwrap();
            let (page, anchor) = runbook.split_once('#').unwrap();
            assert_eq!(page, "docs/alerts.md");
            assert!(anchors.iter().any(|found| found == anchor), "{runbook}");
        }
    }
}
