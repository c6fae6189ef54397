//! `rukpak upgrade-check`.

mod olm;
mod rights;
mod scene;

use cluster::{Cluster, Lease};
use manifests::api::definitions;
use serde_json::{Value, json};

use self::scene::{DIGEST, instance};
pub(crate) use self::scene::{
    become_openshift, catalog, channel, count, define, define_olm, module, package, put,
};
use crate::world::{Rukpak as _, apply, bare, objects, text};

/// A control plane with our definitions.
async fn ours() -> Lease {
    let cluster = bare().await;
    // Nothing is there that could be looked at.
    tests::assert_runs! { cluster;
        "upgrade-check" => 1, "", "neither BundleInstances nor ClusterServiceVersions";
    }
    apply(&cluster, objects(definitions::all())).await;
    apply(&cluster, objects(definitions::foreign())).await;
    cluster
}

/// What is told to programs of a cluster that is blocked.
fn told(cluster: &Cluster, args: &str) -> Value {
    let run = cluster.run(&format!("upgrade-check -o json {args}"));
    run.exits(3).json()
}

/// The effect on each operator.
fn effects(told: &Value) -> Vec<String> {
    let operators = told["operators"].as_array().unwrap().iter();
    let effects = operators.flat_map(|operator| {
        let findings = operator["findings"].as_array().unwrap().iter();
        findings.map(|it| {
            [&operator["name"], &it["effect"]]
                .map(|it| it.as_str().unwrap())
                .join(" ")
        })
    });
    effects.collect()
}

/// What is told of an operator.
fn of(told: &Value, name: &str) -> Value {
    let mut operators = told["operators"].as_array().unwrap().iter();
    operators.find(|it| it["name"] == name).unwrap().clone()
}

// parity: max-20
#[tokio::test(flavor = "multi_thread")]
async fn an_openshift_is_told_what_blocks_it_and_what_comes_first() {
    let cluster = ours().await;
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
    let found = told(&cluster, "");
    let expected = [
        "mute Unknown",
        "old Blocks",
        "stuck Blocks",
        "tested Overridden",
    ];
    assert_eq!(effects(&found), expected);
    assert_eq!(found["blocked"], true);
    assert_eq!(found["to"]["openshift"], "4.23");
    // Several releases ahead, what runs on the next one is in the way, too.
    let found = effects(&told(&cluster, "--to 5.1"));
    assert!(found.contains(&"fine Blocks".to_owned()), "{found:?}");
    catalogs_count(&cluster);
    tests::assert_runs! { cluster;
        "upgrade-check --to 4.22" => 1, "", "already runs OpenShift 4.22";
        "upgrade-check --to 4.23.1" => 2, "", "without a patch";
        "upgrade-check --to latest" => 2, "", "without a patch";
        "upgrade-check --catalog /nowhere" => 1, "", "failed to read catalog";
    }
    what_a_platform_operator_asks_for_counts(&cluster).await;
    the_provisioner_has_the_last_word(&cluster).await;
    plain_manifests_are_known_by_what_they_were_chosen_for(&cluster).await;
    // What stands in a status is somebody's text.
    let evil = "4.22\u{1b}[2J\u{202e}";
    instance(&cluster, "evil", Some(evil), json!({"version": evil})).await;
    let run = cluster.run("upgrade-check").exits(3);
    run.out_has("evil/evil");
    assert!(!run.out.contains(['\u{1b}', '\u{202e}']), "{run:?}");
}

/// Writes what the provisioner tells of all operators.
async fn aggregate(cluster: &Cluster, extension: &Value) {
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "platform-operators-aggregated"}, "spec": {},
    });
    put(cluster, object, Some(json!({"extension": extension}))).await;
}

/// Where no catalog is named, what the provisioner has written down counts: what catalogs said of a bundle, and its remedy.
async fn the_provisioner_has_the_last_word(cluster: &Cluster) {
    let remedy = "supports OpenShift up to 4.22: upgrade it to 0.9.5, which runs on 4.23";
    let extension = json!({
        "operators": 2, "installed": 2,
        "concerns": [
            {"operator": "fine/fine", "effect": "Blocks", "message": "nobody else knows why"},
            {"operator": "old/old", "effect": "Blocks", "message": remedy},
        ],
        "catalogMaxima": {
            format!("stuck/stuck.v1.0.0@{DIGEST}"): "\"5.0\"", format!("plain/plain.v1.0.0@{DIGEST}"): "\"4.22\"",
        },
    });
    aggregate(cluster, &extension).await;
    // It speaks of the next release, and of no other.
    for (args, has, lacks) in [
        ("", &[remedy, "nobody else knows why"][..], "stuck/stuck"),
        (
            "--to 5.0",
            &[remedy, "nobody else knows why"],
            "stuck/stuck",
        ),
        ("--to 5.1", &["stuck/stuck"], "0.9.5"),
    ] {
        let run = cluster.run(&format!("upgrade-check {args}")).exits(3);
        for part in has {
            run.out_has(part);
        }
        run.out_lacks(lacks);
    }
}

/// A catalog may have what runs then, and may know better about what is installed.
fn catalogs_count(cluster: &Cluster) {
    let old = [("1.0.0", "4.22"), ("1.1.0", "4.23"), ("1.2.0", "4.22")];
    let stuck = package("stuck", &[("1.0.0", "5.1")]);
    let folder = catalog(&[package("old", &old), stuck.clone()]);
    let args = format!("--catalog {}", text(&folder));
    let run = cluster.run(&format!("upgrade-check {args}")).exits(3);
    let mut lines = run.out.lines();
    let line = lines.find(|line| line.starts_with("old/old")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[2..4], ["blocks", "1.1.0"], "{run:?}");
    run.out_lacks("stuck/stuck");
    let end = ": 5 operators, 1 blocks, 1 unknown\n";
    assert!(run.out.ends_with(end), "{run:?}");
    let operator = &told(cluster, &args)["operators"][2];
    assert_eq!(operator["unblockedBy"]["version"], "1.1.0");
    let folder = catalog(&[package("old", &[("1.0.0", "5.0")]), stuck]);
    let run = cluster.ok(&["upgrade-check", "--catalog", text(&folder)]);
    run.out_has("nothing blocks");
}

/// A version that its spec does not let in comes never.
async fn what_a_platform_operator_asks_for_counts(cluster: &Cluster) {
    let slow = channel("old", "slow", &[json!({"name": "old.v1.0.0"})]);
    let versions = [("1.0.0", "4.22"), ("1.1.0", "4.23"), ("1.2.0", "4.23")];
    let folder = catalog(&[package("old", &versions), slow.to_string()]);
    let args = format!("--catalog {}", text(&folder));
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
        let old = of(&told(cluster, &args), "old");
        assert_eq!(old["unblockedBy"]["version"], expected, "{spec}");
    }
}

/// They say nothing of themselves; what the cluster's catalog says of them closes the gate.
async fn plain_manifests_are_known_by_what_they_were_chosen_for(cluster: &Cluster) {
    let nothing = json!({"package": null, "version": null, "clusterServiceVersion": null});
    instance(cluster, "plain", None, nothing).await;
    let found = of(&told(cluster, "--to 5.1"), "plain");
    assert_eq!(found["bundle"], "plain.v1.0.0");
    assert_eq!(found["maximum"], "4.22");
    assert_eq!(found["findings"][0]["effect"], "Blocks");
    // A catalog that is asked may know better, and what comes next.
    let folder = catalog(&[package("plain", &[("1.0.0", "4.23"), ("1.1.0", "5.1")])]);
    let args = format!("--to 5.1 --catalog {}", text(&folder));
    let found = of(&told(cluster, &args), "plain");
    assert_eq!(found["maximum"], "4.23");
    assert_eq!(found["unblockedBy"]["version"], "1.1.0");
    // What cannot be read is said, and the rest is told.
    aggregate(cluster, &json!({"operators": "many"})).await;
    tests::assert_runs! { cluster;
        "upgrade-check" => 3, _, "invalid status.extension of ClusterOperator platform-operators-aggregated is ignored";
    }
}
