use serde_json::json;

use super::*;

/// Returns a CRD with versions such as `v1 v2:narrow v3:hidden`: a narrow version has a lower maximum, and a hidden one is
/// not served.
fn manifest(versions: &str, stored: &str) -> Value {
    let version = |text: &str| {
        let name = text.split(':').next();
        let mut size = json!({"type": "integer"});
        if text.contains("narrow") {
            size["maximum"] = 5.into();
        }
        json!({
            "name": name, "served": !text.contains("hidden"), "storage": name == Some("v1"), "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}},
            }},
        })
    };
    let versions: Vec<Value> = versions.split(' ').map(version).collect();
    json!({
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "etcds", "kind": "Etcd"},
            "versions": versions,
        },
        "status": {"storedVersions": stored.split_whitespace().collect::<Vec<_>>()},
    })
}

fn crd(versions: &str, stored: &str) -> CrdSummary {
    CrdSummary::read(&manifest(versions, stored))
}

fn targets(assessment: &CrdAssessment) -> Vec<String> {
    let text = |target: &Target| {
        let versions = target.new.iter().map(|schema| schema.version.as_str());
        let versions: Vec<&str> = versions.collect();
        format!("{}: {}", target.version, versions.join(" "))
    };
    assessment.targets.iter().map(text).collect()
}

#[test]
fn versions_determine_findings_and_checked_resources() {
    let lowered = "v1: spec.size: maximum: 5 added";
    let migrate = "cannot remove stored versions [v1]; first migrate the custom resources to a remaining version, and \
                   remove these from status.storedVersions";
    let not_served = "the new CRD does not serve version v1";
    for (case, old, stored, new, problems, notes, checked) in ::tests::rows![
        "nothing changes", "v1", "v1", "v1", vec![], vec![] => vec![];
        "a version gets narrower", "v1", "v1", "v1:narrow", vec![lowered], vec![] => vec!["v1: v1"];
        "a stored version that is not served cannot be listed", "v1:hidden", "v1", "v1:hidden:narrow", vec![lowered], vec![]
            => vec![];
        "a version that is neither stored nor served may change", "v1:hidden v2", "v2", "v1:hidden:narrow v2", vec![], vec![]
            => vec![];
        "a stored version is removed", "v1 v2", "v1 v2", "v2", vec![migrate], vec![] => vec![];
        "a version without objects is removed", "v1 v2", "v2", "v2", vec![], vec![not_served] => vec![];
        "a version is hidden", "v1 v2", "v1", "v1:hidden v2", vec![], vec![not_served] => vec![];
        "a new version is as wide", "v1", "v1", "v1 v2", vec![], vec![] => vec![];
        "a new version is narrower", "v1 v1a", "v1", "v1 v1a v2:narrow", vec![], vec![] => vec!["v1: v2", "v1a: v2"];
    ] {
        let assessment = assess(&crd(old, stored), &crd(new, ""));
        assert_eq!(assessment.problems, problems, "{case}");
        assert_eq!(assessment.notes, notes, "{case}");
        assert_eq!(targets(&assessment), checked, "{case}");
    }
}

#[test]
fn conversion_webhook_exempts_new_versions() {
    let old = crd("v1", "v1");
    let mut new = with!(crd("v1:narrow v2:narrow", "") => webhook: true);
    assert_eq!(targets(&assess(&old, &new)), ["v1: v1"]);
    new.webhook = false;
    assert_eq!(targets(&assess(&old, &new)), ["v1: v1 v2"]);
}

#[test]
fn crd_that_starts_to_prune_needs_a_check_of_resources() {
    let mut with_schema = manifest("v1", "v1");
    with_schema["spec"]["preserveUnknownFields"] = true.into();
    let mut without_schema = with_schema.clone();
    without_schema["spec"]["versions"][0]["schema"] = Value::Null;
    for old in [with_schema, without_schema] {
        let assessment = assess(&CrdSummary::read(&old), &crd("v1", ""));
        assert_eq!(assessment.problems, Vec::<String>::new(), "{old}");
        assert_eq!(targets(&assessment), ["v1: v1"], "{old}");
    }
}

#[test]
fn changes_of_scope_and_kind_are_problems() {
    let new = with!(crd("v1", "") => scope: "Cluster".into(), kind: "Etcdy".into());
    let expected = [
        "scope changed from \"Namespaced\" to \"Cluster\"",
        "kind changed from \"Etcd\" to \"Etcdy\"",
    ];
    assert_eq!(assess(&crd("v1", "v1"), &new).problems, expected);
}

#[test]
fn crds_of_any_shape_are_read() {
    let junk = json!([
        null, {"spec": []}, {"spec": {"versions": {"name": "v1"}}, "status": "x"},
        {"spec": {"versions": [null, {"served": true}, {"name": 5}, {"name": "v1"}]}, "status": {"storedVersions": [1]}},
    ]);
    for junk in junk.as_array().unwrap() {
        let junk = CrdSummary::read(junk);
        assess(&junk, &junk);
        assess(&crd("v1", "v1"), &junk);
    }
}
