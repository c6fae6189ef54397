//! The alerts: read by promtool, fired by series that are as bad as they say, and explained where they say.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use manifests::yaml;
use serde_json::{Value, json};

/// A file of the project.
fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn promtool(args: &[&str]) -> Output {
    let script = project("tests/cluster/promtool/promtool.sh");
    Command::new(script).args(args).output().unwrap()
}

fn told(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The groups of the one PrometheusRule in a file, as Prometheus itself reads them.
fn groups(file: &str) -> Value {
    let text = fs::read(project(file)).unwrap();
    let documents = yaml::documents(&text).map(|document| document.unwrap());
    let mut rules: Vec<Value> = documents
        .filter(|document: &Value| document["kind"] == "PrometheusRule")
        .collect();
    assert_eq!(rules.len(), 1, "{file}");
    rules.remove(0)["spec"].take()
}

fn rules(groups: &Value) -> &Vec<Value> {
    groups["groups"][0]["rules"].as_array().unwrap()
}

const FILES: [(&str, &str); 3] = [
    ("manifests/install/monitoring.yaml", "rukpak-system"),
    ("manifests/install/openshift.yaml", "rukpak-system"),
    (
        "manifests/release/0000_90_cluster-platform-operator-manager_01-monitoring.yaml",
        "openshift-platform-operators",
    ),
];

#[test]
fn promtool_finds_nothing_wrong_and_would_have_found_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    let check = |groups: &Value| {
        fs::write(&file, groups.to_string()).unwrap();
        let file = file.to_str().unwrap();
        promtool(&["check", "rules", "--lint=all", "--lint-fatal", file])
    };
    for (path, namespace) in FILES {
        let mut groups = groups(path);
        let found = check(&groups);
        assert!(found.status.success(), "{path}: {}", told(&found));
        let count = rules(&groups).len();
        assert!(
            told(&found).contains(&format!("{count} rules found")),
            "{}",
            told(&found)
        );
        for rule in rules(&groups) {
            let expression = rule["expr"].as_str().unwrap();
            assert!(
                expression.contains(&format!("namespace=\"{namespace}\"")),
                "{expression}"
            );
        }
        for (field, wrong) in [("expr", "rukpak_leader =="), ("for", "long"), ("alert", "")] {
            let right = groups["groups"][0]["rules"][1][field].take();
            groups["groups"][0]["rules"][1][field] = wrong.into();
            let found = check(&groups);
            assert!(!found.status.success(), "{field}: {}", told(&found));
            groups["groups"][0]["rules"][1][field] = right;
        }
    }
}

/// What is scraped, for how many minutes, and which alert then fires.
struct Case {
    name: &'static str,
    series: &'static [(&'static str, &'static str)],
    minutes: u32,
    fires: Option<Fires>,
}

/// An alert, the labels that its series give it, and its summary.
struct Fires(
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
);

/// As Prometheus has it: with the labels of what was scraped.
const LEADS: (&str, &str) = (
    r#"rukpak_leader{namespace="rukpak-system",pod="a"}"#,
    "1x1000",
);
const WAITS: (&str, &str) = (
    r#"rukpak_leader{namespace="rukpak-system",pod="b"}"#,
    "0x1000",
);
/// Of another installation, which says nothing of ours.
const ELSEWHERE: (&str, &str) = (r#"rukpak_leader{namespace="elsewhere",pod="a"}"#, "1x1000");

const CASES: &[Case] = &[
    Case {
        name: "all is well",
        series: &[
            LEADS,
            WAITS,
            (
                r#"rukpak_upgradeable{namespace="rukpak-system",pod="a"}"#,
                "1x1000",
            ),
            (
                r#"rukpak_platform_operator_installed{namespace="rukpak-system",name="tide"}"#,
                "1x1000",
            ),
            (
                r#"rukpak_catalog_available{namespace="rukpak-system",exported_namespace="catalogs",name="mine"}"#,
                "1x1000",
            ),
            (
                r#"rukpak_reconciles_total{namespace="rukpak-system",controller="Bundle"}"#,
                "0+10x1000",
            ),
            (
                r#"rukpak_reconcile_failures_total{namespace="rukpak-system",controller="Bundle",reason="A"}"#,
                "0+2x1000",
            ),
            // A commotion.
            (
                r#"rukpak_objects_repaired_total{namespace="rukpak-system",pod="a"}"#,
                "0+50x20 1000x980",
            ),
            (
                r#"rukpak_platform_operators{namespace="rukpak-system",pod="a",state="installed"}"#,
                "1x1000",
            ),
            (
                r#"rukpak_platform_operators{namespace="rukpak-system",pod="a",state="unhealthy"}"#,
                "0x1000",
            ),
            (
                r#"rukpak_report_written{namespace="rukpak-system",pod="a",name="platform-operators-core"}"#,
                "1x1000",
            ),
            (
                r#"rukpak_pull_configuration_problems{namespace="rukpak-system",source="Proxy"}"#,
                "0x1000",
            ),
        ],
        minutes: 900,
        fires: None,
    },
    Case {
        name: "nobody leads",
        series: &[WAITS, ELSEWHERE],
        minutes: 11,
        fires: Some(Fires("RukpakProvisionerDown", &[], "No provisioner works.")),
    },
    Case {
        name: "nobody leads for a moment, as in a rollout",
        series: &[
            (
                r#"rukpak_leader{namespace="rukpak-system",pod="a"}"#,
                "1x5 0x8 1x1000",
            ),
            ELSEWHERE,
        ],
        minutes: 13,
        fires: None,
    },
    Case {
        name: "nothing is scraped",
        series: &[ELSEWHERE],
        minutes: 11,
        fires: Some(Fires("RukpakProvisionerDown", &[], "No provisioner works.")),
    },
    Case {
        name: "the gate is closed",
        series: &[
            LEADS,
            WAITS,
            // Another pod, for another reason.
            (
                r#"rukpak_upgradeable{namespace="rukpak-system",pod="a",reason="A"}"#,
                "0x200 _x800",
            ),
            (
                r#"rukpak_upgradeable{namespace="rukpak-system",pod="b",reason="B"}"#,
                "_x200 0x800",
            ),
        ],
        minutes: 361,
        fires: Some(Fires(
            "RukpakClusterNotUpgradeable",
            &[],
            "Installed operators keep the cluster from its next minor version.",
        )),
    },
    Case {
        name: "the gate has not been closed for long",
        series: &[
            LEADS,
            (
                r#"rukpak_upgradeable{namespace="rukpak-system",pod="a"}"#,
                "0x1000",
            ),
        ],
        minutes: 359,
        fires: None,
    },
    Case {
        name: "one of two platform operators fails",
        series: &[
            LEADS,
            (
                r#"rukpak_platform_operator_installed{namespace="rukpak-system",name="tide"}"#,
                "0x1000",
            ),
            (
                r#"rukpak_platform_operator_installed{namespace="rukpak-system",name="etcd"}"#,
                "1x1000",
            ),
        ],
        minutes: 31,
        fires: Some(Fires(
            "RukpakPlatformOperatorFailing",
            &[("name", "tide")],
            "The platform operator tide is not installed.",
        )),
    },
    Case {
        name: "one that is installed is unhealthy",
        series: &[
            LEADS,
            (
                r#"rukpak_platform_operators{namespace="rukpak-system",pod="a",state="unhealthy"}"#,
                "1x1000",
            ),
        ],
        minutes: 21,
        fires: Some(Fires(
            "RukpakPlatformOperatorUnhealthy",
            &[],
            "Installed platform operators are in trouble.",
        )),
    },
    Case {
        name: "a status cannot be written",
        series: &[
            LEADS,
            (
                r#"rukpak_report_written{namespace="rukpak-system",pod="a",name="platform-operators-core"}"#,
                "1x1000",
            ),
            (
                r#"rukpak_report_written{namespace="rukpak-system",pod="a",name="platform-operators-aggregated"}"#,
                "0x1000",
            ),
        ],
        minutes: 16,
        fires: Some(Fires(
            "RukpakStatusNotWritten",
            &[("name", "platform-operators-aggregated")],
            "The status of platform-operators-aggregated is out of date.",
        )),
    },
    Case {
        name: "a catalog is away",
        series: &[
            LEADS,
            (
                r#"rukpak_catalog_available{namespace="rukpak-system",exported_namespace="catalogs",name="mine"}"#,
                "0x1000",
            ),
        ],
        minutes: 31,
        fires: Some(Fires(
            "RukpakCatalogUnavailable",
            &[("exported_namespace", "catalogs"), ("name", "mine")],
            "The catalog catalogs/mine cannot be read.",
        )),
    },
    Case {
        name: "most of what one controller does fails",
        series: &[
            LEADS,
            (
                r#"rukpak_reconciles_total{namespace="rukpak-system",controller="Bundle"}"#,
                "0+10x1000",
            ),
            (
                r#"rukpak_reconcile_failures_total{namespace="rukpak-system",controller="Bundle",reason="A"}"#,
                "0+4x1000",
            ),
            (
                r#"rukpak_reconcile_failures_total{namespace="rukpak-system",controller="Bundle",reason="B"}"#,
                "0+4x1000",
            ),
            (
                r#"rukpak_reconciles_total{namespace="rukpak-system",controller="Instance"}"#,
                "0+10x1000",
            ),
        ],
        minutes: 60,
        fires: Some(Fires(
            "RukpakReconcileErrors",
            &[("controller", "Bundle")],
            "Most of what the controller Bundle does fails.",
        )),
    },
    Case {
        name: "somebody fights",
        series: &[
            LEADS,
            (
                r#"rukpak_objects_repaired_total{namespace="rukpak-system",pod="a"}"#,
                include_str!("fight.txt"),
            ),
        ],
        minutes: 150,
        fires: Some(Fires(
            "RukpakRepairsDoNotEnd",
            &[],
            "Somebody keeps changing what was installed.",
        )),
    },
    Case {
        name: "the cluster's proxy makes no sense",
        series: &[
            LEADS,
            (
                r#"rukpak_pull_configuration_problems{namespace="rukpak-system",source="Proxy"}"#,
                "2x1000",
            ),
        ],
        minutes: 31,
        fires: Some(Fires(
            "RukpakPullConfigurationInvalid",
            &[("source", "Proxy")],
            "The cluster's Proxy cannot be followed in pulling.",
        )),
    },
];

/// What promtool is told to expect of an alert.
fn expected(case: &Case, rule: &Value) -> Value {
    let Some(Fires(name, labels, summary)) = &case.fires else {
        return json!([]);
    };
    if rule["alert"] != *name {
        return json!([]);
    }
    let mut all = rule["labels"].clone();
    for (key, value) in *labels {
        all[key] = (*value).into();
    }
    json!([{"exp_labels": all, "exp_annotations": {"summary": summary}}])
}

#[test]
fn every_alert_fires_when_it_should_and_not_before() {
    let mut groups = groups(FILES[0].0);
    // Annotations are compared as a whole: the summary shows that labels find their places.
    for rule in groups["groups"][0]["rules"].as_array_mut().unwrap() {
        rule["annotations"] = json!({"summary": rule["annotations"]["summary"]});
    }
    let alerts = rules(&groups);
    for rule in alerts {
        let mut shown = CASES.iter().filter_map(|case| case.fires.as_ref());
        assert!(shown.any(|fires| rule["alert"] == fires.0), "{rule}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    fs::write(&file, groups.to_string()).unwrap();
    let cases = CASES.iter().map(|case| {
        let series = case.series.iter();
        let series: Vec<Value> = series
            .map(|(series, values)| json!({"series": series, "values": values.trim_end()}))
            .collect();
        let time = format!("{}m", case.minutes);
        let expected = alerts.iter().map(|rule| {
            json!({"eval_time": time, "alertname": rule["alert"], "exp_alerts": expected(case, rule)})
        });
        let expected: Vec<Value> = expected.collect();
        json!({"name": case.name, "interval": "1m", "input_series": series, "alert_rule_test": expected})
    });
    let cases: Vec<Value> = cases.collect();
    let document = json!({"rule_files": [file], "evaluation_interval": "1m", "tests": cases});
    let test = folder.path().join("test.yaml");
    fs::write(&test, document.to_string()).unwrap();
    let found = promtool(&["test", "rules", test.to_str().unwrap()]);
    assert!(found.status.success(), "{}", told(&found));
}

#[test]
fn every_alert_is_explained_where_it_says() {
    let page = fs::read_to_string(project("docs/operations.md")).unwrap();
    let anchors: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .collect();
    for (file, _) in FILES {
        for rule in rules(&groups(file)) {
            let annotations = &rule["annotations"];
            for field in ["summary", "description"] {
                assert!(annotations[field].as_str().is_some(), "{field}: {rule}");
            }
            let runbook = annotations["runbook"].as_str().unwrap();
            let (page, anchor) = runbook.split_once('#').unwrap();
            assert_eq!(page, "docs/operations.md");
            assert!(anchors.iter().any(|it| it == anchor), "{runbook}");
        }
    }
}
