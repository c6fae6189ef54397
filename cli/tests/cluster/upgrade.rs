//! `rukpak upgrade-check`.

mod olm;
mod support;

use cluster::Cluster;
use manifests::api::crds;
use serde_json::{Value, json};

use self::support::{DIGEST, instance};
pub(crate) use self::support::{
    become_openshift, catalog, channel, count, define, define_olm, module, package, put,
};
use crate::environment::{Rukpak as _, apply, bare, objects, text};

fn report(cluster: &Cluster, args: &str) -> Value {
    let run = cluster.run(&format!("upgrade-check -o json {args}"));
    run.exits(3).json()
}

fn effects(report: &Value) -> Vec<String> {
    let operators = report["operators"].as_array().unwrap().iter();
    let effects = operators.flat_map(|operator| {
        let findings = operator["findings"].as_array().unwrap().iter();
        findings.map(|finding| format!("{} {}", operator["name"], finding["effect"]))
    });
    effects.map(|effect| effect.replace('"', "")).collect()
}

fn find_operator(report: &Value, name: &str) -> Value {
    let mut operators = report["operators"].as_array().unwrap().iter();
    let operator = operators.find(|operator| operator["name"] == name);
    operator.unwrap().clone()
}

// parity: max-20
#[tokio::test(flavor = "multi_thread")]
async fn report_names_operators_that_block_an_openshift() {
    let cluster = bare().await;
    // Without the CRDs, no operator exists.
    tests::assert_runs! { cluster; "upgrade-check" => 1, "", "neither BundleInstances nor ClusterServiceVersions"; }
    apply(&cluster, objects(crds::all())).await;
    apply(&cluster, objects(crds::optional_crds())).await;
    become_openshift(&cluster, "4.22.3").await;
    tests::assert_runs! { cluster;
        "upgrade-check" => 0, "OpenShift 4.22 to 4.23 (Kubernetes 1.36 to 1.36): 0 operators, nothing blocks\n";
    }
    let overrides =
        json!([{"constraint": "maxOpenShiftVersion", "digest": DIGEST, "reason": "tested by us"}]);
    for (name, maximum, more) in tests::rows![
        "fine", Some("5.0") => json!({});
        "mute", None => json!({});
        "old", Some("4.22") => json!({});
        "stuck", Some("4.22") => json!({});
        "tested", Some("4.22") => json!({"overrides": overrides});
        "waiting", Some("4.1") => json!({"installedBundleName": null});
    ] {
        instance(&cluster, name, maximum, more).await;
    }
    let found = report(&cluster, "");
    tests::assert_rows!(effects(&found).join(", ") => "mute Unknown, old Blocks, stuck Blocks, tested Overridden");
    assert_eq!(found["blocked"], true);
    assert_eq!(found["to"]["openshift"], "4.23");
    catalogs_are_considered(&cluster);
    tests::assert_runs! { cluster;
        "upgrade-check --to 4.22" => 1, "", "already runs OpenShift 4.22";
        "upgrade-check --to 4.23.1" => 2, "", "without a patch";
        "upgrade-check --to latest" => 2, "", "without a patch";
        "upgrade-check --catalog /nowhere" => 1, "", "failed to read catalog";
    }
    platform_operator_spec_limits_the_remedy(&cluster).await;
    provisioner_report_takes_precedence(&cluster).await;
    plain_bundles_use_the_maximum_of_the_catalog(&cluster).await;
    // A status may contain untrusted text.
    let evil = "4.22\u{1b}[2J\u{202e}";
    instance(&cluster, "evil", Some(evil), json!({"version": evil})).await;
    let run = cluster.run("upgrade-check").exits(3);
    run.out_has("evil/evil");
    assert!(!run.out.contains(['\u{1b}', '\u{202e}']), "{run:?}");
}

async fn aggregate(cluster: &Cluster, extension: &Value) {
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "platform-operators-aggregated"}, "spec": {},
    });
    put(cluster, object, Some(json!({"extension": extension}))).await;
}

/// Without `--catalog`, the maximum from catalogs and the remedy that the provisioner recorded are used.
async fn provisioner_report_takes_precedence(cluster: &Cluster) {
    let remedy = "supports OpenShift up to 4.22: upgrade it to 0.9.5, which runs on 4.23";
    let extension = json!({
        "operators": 2, "installed": 2,
        "concerns": [
            {"operator": "fine/fine", "effect": "Blocks", "message": "reported by it only"},
            {"operator": "old/old", "effect": "Blocks", "message": remedy},
        ],
        "catalogMaxima": {
            format!("stuck/stuck.v1.0.0@{DIGEST}"): "\"5.0\"", format!("plain/plain.v1.0.0@{DIGEST}"): "\"4.22\"",
        },
    });
    aggregate(cluster, &extension).await;
    // The provisioner reports the next release only.
    for (args, has, lacks) in [
        ("", [remedy, "reported by it only"], "stuck/stuck"),
        ("--to 5.0", [remedy, "reported by it only"], "stuck/stuck"),
        ("--to 5.1", ["stuck/stuck", "old/old"], "0.9.5"),
    ] {
        let run = cluster.run(&format!("upgrade-check {args}")).exits(3);
        for part in has {
            run.out_has(part);
        }
        run.out_lacks(lacks);
    }
}

/// A catalog may contain a version for the target and may correct the maximum of the installed one.
fn catalogs_are_considered(cluster: &Cluster) {
    let old = [("1.0.0", "4.22"), ("1.1.0", "4.23"), ("1.2.0", "4.22")];
    let stuck = package("stuck", &[("1.0.0", "5.1")]);
    let dir = catalog(&[package("old", &old), stuck.clone()]);
    let args = format!("--catalog {}", text(&dir));
    let run = cluster.run(&format!("upgrade-check {args}")).exits(3);
    let mut lines = run.out.lines();
    let line = lines.find(|line| line.starts_with("old/old")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[2..4], ["blocks", "1.1.0"], "{run:?}");
    run.out_lacks("stuck/stuck");
    let end = ": 5 operators, 1 blocks, 1 unknown\n";
    assert!(run.out.ends_with(end), "{run:?}");
    let operator = &report(cluster, &args)["operators"][2];
    assert_eq!(operator["unblockedBy"]["version"], "1.1.0");
    let dir = catalog(&[package("old", &[("1.0.0", "5.0")]), stuck]);
    let run = cluster.ok(&["upgrade-check", "--catalog", text(&dir)]);
    run.out_has("nothing blocks");
}

/// Versions that the spec excludes are not a remedy.
async fn platform_operator_spec_limits_the_remedy(cluster: &Cluster) {
    let slow = channel("old", "slow", &[json!({"name": "old.v1.0.0"})]);
    let versions = [("1.0.0", "4.22"), ("1.1.0", "4.23"), ("1.2.0", "4.23")];
    let dir = catalog(&[package("old", &versions), slow.to_string()]);
    let args = format!("--catalog {}", text(&dir));
    let package = json!({"name": "old"});
    for (spec, expected) in tests::rows![
        json!({"package": package}) => json!("1.2.0");
        json!({"package": package, "version": "<1.2.0"}) => json!("1.1.0");
        json!({"package": package, "version": "<1.1.0"}) => Value::Null;
        json!({"package": package, "channel": "slow"}) => Value::Null;
    ] {
        let object = json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "metadata": {"name": "old"},
            "spec": spec,
        });
        put(cluster, object, None).await;
        tests::assert_rows!(find_operator(&report(cluster, &args), "old")["unblockedBy"]["version"] => expected, "{spec}");
    }
}

/// Plain bundles declare no maximum, so the recorded maximum from the catalog of the cluster blocks.
async fn plain_bundles_use_the_maximum_of_the_catalog(cluster: &Cluster) {
    let nothing = json!({"package": null, "version": null, "clusterServiceVersion": null});
    instance(cluster, "plain", None, nothing).await;
    let found = find_operator(&report(cluster, "--to 5.1"), "plain");
    assert_eq!(found["bundle"], "plain.v1.0.0");
    assert_eq!(found["maximum"], "4.22");
    assert_eq!(found["findings"][0]["effect"], "Blocks");
    // A specified catalog may correct the maximum and contain the next version.
    let dir = catalog(&[package("plain", &[("1.0.0", "4.23"), ("1.1.0", "5.1")])]);
    let args = format!("--to 5.1 --catalog {}", text(&dir));
    let found = find_operator(&report(cluster, &args), "plain");
    assert_eq!(found["maximum"], "4.23");
    assert_eq!(found["unblockedBy"]["version"], "1.1.0");
    // A malformed extension is reported, and the check continues.
    aggregate(cluster, &json!({"operators": "many"})).await;
    tests::assert_runs! { cluster;
        "upgrade-check" => 3, _, "invalid status.extension of ClusterOperator platform-operators-aggregated is ignored";
    }
}
