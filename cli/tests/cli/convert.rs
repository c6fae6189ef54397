use std::process::Stdio;

use serde_json::json;

use crate::bundle::{Place, binary, csv};

// parity: platform-14
#[test]
fn a_bundle_becomes_a_stream_of_yaml_documents() {
    let place = Place::new();
    place.good("tide");
    let run = place.ok("convert tide");
    run.out_starts_with("apiVersion: v1\nkind: Namespace\n");
    run.out_has("\n---\napiVersion: apps/v1\nkind: Deployment\n");
    assert!(run.out.contains("answer: \"yes\"") && run.out.ends_with('\n'));
    assert_eq!(run.err, "");
    assert_eq!(place.run("convert tide").out, run.out);
}

#[test]
fn json_is_one_list() {
    let place = Place::new();
    place.good("tide");
    let list = place.ok("convert tide -o json").json();
    assert_eq!(
        (&list["apiVersion"], &list["kind"]),
        (&json!("v1"), &json!("List"))
    );
    let kinds: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "Namespace",
            "ServiceAccount",
            "ConfigMap",
            "ClusterRole",
            "ClusterRoleBinding",
            "Deployment"
        ]
    );
}

#[test]
fn a_refusal_tells_every_reason_and_prints_nothing() {
    let place = Place::new();
    place.bad("tide");
    for extra in [&[][..], &["-o", "json"], &["--output-dir", "out"]] {
        let run = place.fail(&[&["convert", "tide"], extra].concat());
        assert_eq!(run.out, "");
        run.err_has("error[Webhooks]: manifests/csv.yaml:");
        run.err_has("error[InstallMode]: ");
        run.err_ends_with("error: bundle \"tide\" cannot be converted: 2 problems\n");
    }
    assert!(!place.path("out").exists());
}

#[test]
fn what_cannot_be_read_is_told_once() {
    let place = Place::new();
    place.write("noise.tar", "this is no archive");
    for (bundle, text) in tests::rows![
        "missing" => "error: \"missing\" does not exist here, and names no registry; check the path";
        "./missing" => "error: failed to open \"./missing\"";
        "noise.tar" => "error: failed to unpack \"noise.tar\": this is neither a tar";
    ] {
        let run = place.fail(&format!("convert {bundle}"));
        assert_eq!(run.out, "");
        run.err_starts_with(text);
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    }
    let run = place.run_with(&["convert", "-"], b"").exits(1);
    run.err_starts_with("error: failed to unpack \"-\": the archive is empty");
}

#[test]
fn options_reach_the_conversion() {
    let place = Place::new();
    place.good("tide");
    place.write("config.yaml", "nodeSelector:\n  disk: fast\n");
    let args = "convert tide -o json --install-namespace ops --no-namespace --config config.yaml";
    let list = place.ok(&args).json();
    let items = list["items"].as_array().unwrap();
    assert!(items.iter().all(|o| o["kind"] != "Namespace"));
    let deployment = items.last().unwrap();
    assert_eq!(deployment["metadata"]["namespace"], "ops");
    assert_eq!(
        deployment["spec"]["template"]["spec"]["nodeSelector"],
        json!({"disk": "fast"})
    );

    let plain = place.ok("convert tide --class plain -o json").json();
    let kinds: Vec<_> = plain["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| o["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["ConfigMap", "ClusterServiceVersion"]);
}

#[test]
fn a_configuration_must_be_one() {
    let place = Place::new();
    place.good("tide");
    place.write("wrong.yaml", "nodeSelektor: {}\n");
    place.write("two.yaml", "env: []\n---\nenv: []\n");
    for (file, text) in [
        ("wrong.yaml", "nodeSelektor is not known"),
        ("two.yaml", "more than one document"),
        ("no.yaml", "no.yaml"),
    ] {
        let run = place.fail(&format!("convert tide --config {file}"));
        assert_eq!(run.out, "");
        run.err_starts_with("error: ");
        run.err_has(text);
    }
}

#[test]
fn limits_are_enforced_and_named() {
    let place = Place::new();
    place.good("tide");
    for (flag, value, text) in [
        ("--max-size", "1Ki", "raise --max-size"),
        ("--max-file-size", "256", "raise --max-file-size"),
        ("--max-entries", "2", "raise --max-entries"),
        ("--max-path-length", "9", "raise --max-path-length"),
        ("--max-path-depth", "1", "raise --max-path-depth"),
    ] {
        let run = place.fail(&format!("convert tide {flag} {value}"));
        assert_eq!(run.out, "");
        run.err_has(text);
    }
    place.ok("convert tide --max-size 64Ki");
}

#[test]
fn a_folder_gets_a_file_for_each_object() {
    let place = Place::new();
    place.good("tide");
    let run = place.ok("convert tide --output-dir a/out");
    assert_eq!(
        (run.out.as_str(), run.err.as_str()),
        ("", "6 objects written to a/out\n")
    );
    let names = place.list("a/out");
    assert_eq!(names.len(), 6);
    assert_eq!(names[0], "01-namespace-tide-system.yaml");
    assert_eq!(names[5], "06-deployment-tide.yaml");
    assert!(
        names[3].starts_with("04-clusterrole-tide.v1.2.3-"),
        "{names:?}"
    );
    let stream: Vec<String> = names
        .iter()
        .map(|name| place.read(&format!("a/out/{name}")))
        .collect();
    assert_eq!(stream.join("---\n"), place.run("convert tide").out);
}

#[test]
fn a_folder_with_files_is_left_alone_unless_forced() {
    let place = Place::new();
    place.good("tide");
    place.write("out/.gitkeep", "");
    place.ok("convert tide --output-dir out");
    place.write("out/notes.txt", "mine");
    place.write("out/09-role-old.yaml", "stale");
    let before = place.list("out");
    let run = place.fail("convert tide --output-dir out");
    run.err_has("out is not empty");
    run.err_has("--force");
    assert_eq!(place.list("out"), before);

    place.ok("convert tide --output-dir out --force -o json -q");
    let after = place.list("out");
    assert_eq!(after.len(), 8, "{after:?}");
    assert!(
        after.contains(&"notes.txt".to_owned())
            && after.contains(&"06-deployment-tide.json".to_owned())
    );
    assert!(
        !after.iter().any(|name| name.contains(".yaml")),
        "{after:?}"
    );
}

#[test]
fn nothing_is_left_behind_by_a_failure() {
    let place = Place::new();
    place.good("tide");
    place.write("file", "");
    let run = place.fail("convert tide --output-dir file");
    run.err_has("failed to prepare --output-dir");
    assert_eq!(place.list("."), ["file", "tide"]);
}

#[test]
fn the_report_is_written_either_way() {
    let place = Place::new();
    place.good("good");
    place.bad("bad");
    place.ok("convert good --report good.json");
    let report: serde_json::Value = serde_json::from_str(&place.read("good.json")).unwrap();
    assert_eq!(report["facts"]["package"], "tide");
    assert!(
        report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .all(|f| f["level"] != "error")
    );

    place.fail("convert bad --report bad.json");
    let report: serde_json::Value = serde_json::from_str(&place.read("bad.json")).unwrap();
    let webhooks = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|f| f["code"] == "Webhooks")
        .unwrap();
    assert!(
        webhooks["line"].is_u64() && webhooks["remedy"].is_string(),
        "{webhooks}"
    );
    assert_eq!(place.list("."), ["bad", "bad.json", "good", "good.json"]);

    let run = place.ok("convert good --report /dev/stderr");
    run.err_starts_with("{\n");
}

#[test]
fn warnings_are_told_unless_nobody_wants_them() {
    let place = Place::new();
    let mut csv = csv("tide");
    for field in 0..12 {
        csv["spec"]["install"]["spec"]["deployments"][0]["spec"][format!("unknown{field}")] =
            json!(1);
    }
    place.bundle("tide", &csv);
    let run = place.ok("convert tide");
    run.err_has("warning[UnknownField]: manifests/csv.yaml:");
    run.err_ends_with("2 more warnings: rukpak validate tide\n");
    assert_eq!(place.ok("convert tide --quiet").err, "");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let place = Place::new();
    let mut csv = csv("tide");
    csv["metadata"]["labels"] = json!({"x": "y"});
    place.bundle("tide", &csv);
    // More than a pipe holds.
    let big = "x".repeat(300_000);
    place.write(
        "tide/manifests/big.yaml",
        format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: big}}, data: {{a: {big}}}}}"),
    );
    for args in [
        &["convert", "tide"][..],
        &["convert", "tide", "-o", "json"],
        &["completion", "bash"],
    ] {
        let mut child = place
            .command(&binary())
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{args:?}");
    }
}
