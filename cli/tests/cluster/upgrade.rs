//! `rukpak upgrade-check`.

mod olm;
mod rights;
mod scene;

use cluster::{Cluster, DryRun, Lease};
use manifests::api::definitions;
use serde_json::{Value, json};

use self::scene::{DIGEST, instance, run};
pub(crate) use self::scene::{become_openshift, catalog, count, define, module, package, put};
use crate::world::{bare, text};

/// A control plane with our definitions.
async fn ours() -> Lease {
    let cluster = bare().await;
    // Nothing is there that could be looked at.
    run(&cluster, &[])
        .exits(1)
        .says("neither BundleInstances nor ClusterServiceVersions");
    for definition in definitions::all().into_iter().chain(definitions::foreign()) {
        let name = definition.metadata.name.clone().unwrap();
        let definition = serde_json::to_value(definition).unwrap();
        cluster.apply(&definition, DryRun::No).await.unwrap();
        cluster.wait_established(&name).await.unwrap();
    }
    cluster
}

/// What is told to programs, and the effect of each operator.
fn effects(cluster: &Cluster, args: &[&str], code: i32) -> (Value, Vec<String>) {
    let mut all = vec!["-o", "json"];
    all.extend(args);
    let told = run(cluster, &all).exits(code).json();
    let mut effects = Vec::new();
    for operator in told["operators"].as_array().unwrap() {
        for finding in operator["findings"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            effects.push(format!(
                "{} {}",
                text(&operator["name"]),
                text(&finding["effect"])
            ));
        }
    }
    (told, effects)
}

// parity: max-20
#[tokio::test(flavor = "multi_thread")]
async fn an_openshift_is_told_what_blocks_it_and_what_comes_first() {
    let cluster = ours().await;
    become_openshift(&cluster, "4.22.3").await;
    let empty = run(&cluster, &[]).exits(0);
    assert_eq!(
        empty.out,
        "OpenShift 4.22 to 4.23 (Kubernetes 1.36 to 1.36): 0 operators, nothing blocks\n"
    );
    let overrides =
        json!([{"constraint": "maxOpenShiftVersion", "digest": DIGEST, "reason": "tested by us"}]);
    for (name, maximum, more) in [
        ("fine", Some("5.0"), json!({})),
        ("mute", None, json!({})),
        ("old", Some("4.22"), json!({})),
        ("stuck", Some("4.22"), json!({})),
        ("tested", Some("4.22"), json!({"overrides": overrides})),
        ("waiting", Some("4.1"), json!({"installedBundleName": null})),
    ] {
        instance(&cluster, name, maximum, more).await;
    }
    let (told, found) = effects(&cluster, &[], 3);
    let expected = [
        "mute Unknown",
        "old Blocks",
        "stuck Blocks",
        "tested Overridden",
    ];
    assert_eq!(found, expected);
    assert_eq!(
        (&told["blocked"], &told["to"]["openshift"]),
        (&json!(true), &json!("4.23"))
    );
    // Several releases ahead, what runs on the next one is in the way, too.
    let (_, found) = effects(&cluster, &["--to", "5.1"], 3);
    assert!(found.contains(&"fine Blocks".to_owned()), "{found:?}");
    catalogs_count(&cluster);
    for (args, code, words) in [
        (&["--to", "4.22"][..], 1, "runs OpenShift 4.22 already"),
        (&["--to", "4.23.1"], 2, "without a patch"),
        (&["--to", "latest"], 2, "without a patch"),
        (&["--catalog", "/nowhere"], 1, "cannot be read"),
    ] {
        let run = run(&cluster, args).exits(code).says(words);
        assert_eq!(run.out, "");
    }
    what_a_platform_operator_asks_for_counts(&cluster).await;
    the_provisioner_has_the_last_word(&cluster).await;
    plain_manifests_are_known_by_what_they_were_chosen_for(&cluster).await;
    // What stands in a status is somebody's text.
    let evil = "4.22\u{1b}[2J\u{202e}";
    instance(&cluster, "evil", Some(evil), json!({"version": evil})).await;
    let run = run(&cluster, &[]).exits(3);
    assert!(run.out.contains("evil/evil"), "{run:?}");
    assert!(!run.out.contains(['\u{1b}', '\u{202e}']), "{run:?}");
}

/// Where no catalog is named, what the provisioner has written down counts: what catalogs said of a bundle, and its remedy.
async fn the_provisioner_has_the_last_word(cluster: &Cluster) {
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "platform-operators-aggregated"}, "spec": {},
    });
    let remedy = "it runs on OpenShift 4.22 at most: upgrade it to 0.9.5, which runs on 4.23";
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
    put(cluster, object, Some(json!({"extension": extension}))).await;
    for args in [&[][..], &["--to", "5.0"]] {
        let told = run(cluster, args).exits(3);
        assert!(told.out.contains(remedy), "{told:?}");
        assert!(told.out.contains("nobody else knows why"), "{told:?}");
        assert!(!told.out.contains("stuck/stuck"), "{told:?}");
    }
    // It speaks of the next release, and of no other.
    let told = run(cluster, &["--to", "5.1"]).exits(3);
    assert!(!told.out.contains("0.9.5"), "{told:?}");
    assert!(told.out.contains("stuck/stuck"), "{told:?}");
}

/// A catalog may have what runs then, and may know better about what is installed.
fn catalogs_count(cluster: &Cluster) {
    let folder = catalog(&[
        package(
            "old",
            &[("1.0.0", "4.22"), ("1.1.0", "4.23"), ("1.2.0", "4.22")],
        ),
        package("stuck", &[("1.0.0", "5.1")]),
    ]);
    let told = run(cluster, &["--catalog", text(&folder)]).exits(3);
    let mut lines = told.out.lines();
    let line = lines.find(|line| line.starts_with("old/old")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words[2], words[3]), ("blocks", "1.1.0"), "{told:?}");
    assert!(!told.out.contains("stuck/stuck"), "{told:?}");
    let end = ": 5 operators, 1 blocks, of 1 it is not known\n";
    assert!(told.out.ends_with(end), "{told:?}");
    let (told, _) = effects(cluster, &["--catalog", text(&folder)], 3);
    assert_eq!(told["operators"][2]["unblockedBy"]["version"], "1.1.0");
    let folder = catalog(&[
        package("old", &[("1.0.0", "5.0")]),
        package("stuck", &[("1.0.0", "5.1")]),
    ]);
    let told = run(cluster, &["--catalog", text(&folder)]).exits(0);
    assert!(told.out.contains("nothing blocks"), "{told:?}");
}

/// A version that its spec does not let in comes never.
async fn what_a_platform_operator_asks_for_counts(cluster: &Cluster) {
    let channel = json!({"schema": "olm.channel", "package": "old", "name": "slow", "entries": [{"name": "old.v1.0.0"}]});
    let versions = [("1.0.0", "4.22"), ("1.1.0", "4.23"), ("1.2.0", "4.23")];
    let folder = catalog(&[package("old", &versions), channel.to_string()]);
    for (more, expected) in [
        (json!({}), json!("1.2.0")),
        (json!({"version": "<1.2.0"}), json!("1.1.0")),
        (json!({"version": "<1.1.0"}), Value::Null),
        (json!({"channel": "slow"}), Value::Null),
    ] {
        let mut spec = json!({"package": {"name": "old"}});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let object = json!({
            "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator", "metadata": {"name": "old"},
            "spec": spec,
        });
        put(cluster, object, None).await;
        let (told, _) = effects(cluster, &["--catalog", text(&folder)], 3);
        let all = told["operators"].as_array().unwrap();
        let old = all.iter().find(|it| it["name"] == "old").unwrap();
        assert_eq!(old["unblockedBy"]["version"], expected, "{more}");
    }
}

/// They say nothing of themselves; what the cluster's catalog says of them closes the gate.
async fn plain_manifests_are_known_by_what_they_were_chosen_for(cluster: &Cluster) {
    let nothing = json!({"package": null, "version": null, "clusterServiceVersion": null});
    instance(cluster, "plain", None, nothing).await;
    let find = |told: &Value| {
        let all = told["operators"].as_array().unwrap();
        all.iter().find(|it| it["name"] == "plain").unwrap().clone()
    };
    let (told, _) = effects(cluster, &["--to", "5.1"], 3);
    let found = find(&told);
    assert_eq!(
        (&found["bundle"], &found["maximum"]),
        (&json!("plain.v1.0.0"), &json!("4.22"))
    );
    assert_eq!(found["findings"][0]["effect"], "Blocks");
    // A catalog that is asked may know better, and what comes next.
    let folder = catalog(&[package("plain", &[("1.0.0", "4.23"), ("1.1.0", "5.1")])]);
    let args = ["--to", "5.1", "--catalog", text(&folder)];
    let found = find(&effects(cluster, &args, 3).0);
    assert_eq!(found["maximum"], "4.23");
    assert_eq!(found["unblockedBy"]["version"], "1.1.0");
    // What cannot be read is said, and the rest is told.
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "platform-operators-aggregated"}, "spec": {},
    });
    let extension = json!({"operators": "many"});
    put(cluster, object, Some(json!({"extension": extension}))).await;
    run(cluster, &[])
        .exits(3)
        .says("status.extension of ClusterOperator platform-operators-aggregated cannot be read");
}
