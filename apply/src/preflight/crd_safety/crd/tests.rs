use serde_json::json;

use super::*;

fn schema(size: &Value) -> Value {
    json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": size}},
    }}})
}

fn version(name: &str, served: bool, size: &Value) -> Value {
    json!({"name": name, "served": served, "storage": name == "v1", "schema": schema(size)})
}

fn crd(versions: &[Value], stored: &[&str]) -> CrdSummary {
    CrdSummary::read(&json!({
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "etcds", "kind": "Etcd"},
            "versions": versions,
        },
        "status": {"storedVersions": stored},
    }))
}

fn targets(assessment: &CrdAssessment) -> Vec<String> {
    assessment
        .targets
        .iter()
        .map(|target| {
            let versions: Vec<_> = target
                .new
                .iter()
                .map(|schema| schema.version.as_str())
                .collect();
            format!("{}: {}", target.version, versions.join(" "))
        })
        .collect()
}

#[test]
fn versions_determine_findings_and_checked_resources() {
    let any = json!({"type": "integer"});
    let narrow = json!({"type": "integer", "maximum": 5});
    let lowered = "v1: spec.size: maximum: 5 added";
    for (case, old, new, problems, notes, checked) in ::tests::rows![
        "nothing changes", crd(&[version("v1", true, &any)], &["v1"]), crd(&[version("v1", true, &any)], &[]), vec![], vec![]
            => vec![];
        "a version gets narrower", crd(&[version("v1", true, &any)], &["v1"]), crd(&[version("v1", true, &narrow)], &[]),
          vec![lowered], vec![] => vec!["v1: v1"];
        "a version that is stored and not served cannot be listed", crd(&[version("v1", false, &any)], &["v1"]),
          crd(&[version("v1", false, &narrow)], &[]), vec![lowered], vec![] => vec![];
        "a version that nobody uses may become what it likes",
          crd(&[version("v1", false, &any), version("v2", true, &any)], &["v2"]),
          crd(&[version("v1", false, &narrow), version("v2", true, &any)], &[]), vec![], vec![] => vec![];
        "a stored version goes", crd(&[version("v1", true, &any), version("v2", true, &any)], &["v1", "v2"]),
          crd(&[version("v2", true, &any)], &[]),
          vec![
              "cannot remove stored versions [v1]; first migrate the custom resources to a remaining version, and \
               remove these from status.storedVersions",
          ],
          vec![] => vec![];
        "a version goes in which nothing is stored", crd(&[version("v1", true, &any), version("v2", true, &any)], &["v2"]),
          crd(&[version("v2", true, &any)], &[]), vec![], vec!["version v1 is no longer served"] => vec![];
        "a version is hidden", crd(&[version("v1", true, &any), version("v2", true, &any)], &["v1"]),
          crd(&[version("v1", false, &any), version("v2", true, &any)], &[]), vec![], vec!["version v1 is no longer served"]
            => vec![];
        "a version comes that is as wide", crd(&[version("v1", true, &any)], &["v1"]),
          crd(&[version("v1", true, &any), version("v2", true, &any)], &[]), vec![], vec![] => vec![];
        "a version comes that is narrower: what there is may not fit",
          crd(&[version("v1", true, &any), version("v1a", true, &any)], &["v1"]),
          crd(&[version("v1", true, &any), version("v1a", true, &any), version("v2", true, &narrow)], &[]), vec![], vec![]
            => vec!["v1: v2", "v1a: v2"];
    ] {
        let assessment = assess(&old, &new);
        assert_eq!(assessment.problems, problems, "{case}");
        assert_eq!(assessment.notes, notes, "{case}");
        assert_eq!(targets(&assessment), checked, "{case}");
    }
}

#[test]
fn conversion_webhook_exempts_new_versions() {
    let any = json!({"type": "integer"});
    let narrow = json!({"type": "integer", "maximum": 5});
    let old = crd(&[version("v1", true, &any)], &["v1"]);
    let versions = ["v1", "v2"].map(|name| version(name, true, &narrow));
    let mut new = with!(crd(&versions, &[]) => webhook: true);
    assert_eq!(targets(&assess(&old, &new)), ["v1: v1"]);
    new.webhook = false;
    assert_eq!(targets(&assess(&old, &new)), ["v1: v1 v2"]);
}

#[test]
fn crd_that_starts_to_prune_needs_a_check_of_resources() {
    let new = crd(&[version("v1", true, &json!({"type": "integer"}))], &[]);
    for schema in [json!(null), schema(&json!({"type": "integer"}))] {
        let old = CrdSummary::read(&json!({
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "etcds", "kind": "Etcd"},
                "preserveUnknownFields": true,
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
            "status": {"storedVersions": ["v1"]},
        }));
        let assessment = assess(&old, &new);
        assert_eq!(assessment.problems, Vec::<String>::new(), "{schema}");
        assert_eq!(targets(&assessment), ["v1: v1"], "{schema}");
    }
}

#[test]
fn changes_of_scope_and_kind_are_problems() {
    let any = json!({"type": "integer"});
    let old = crd(&[version("v1", true, &any)], &["v1"]);
    let new = with!(crd(&[version("v1", true, &any)], &[]) => scope: "Cluster".into(), kind: "Etcdy".into());
    let expected = [
        "scope changed from \"Namespaced\" to \"Cluster\"",
        "kind changed from \"Etcd\" to \"Etcdy\"",
    ];
    assert_eq!(assess(&old, &new).problems, expected);
}

#[test]
fn crds_of_any_shape_are_read() {
    for junk in [
        json!(null),
        json!({"spec": []}),
        json!({"spec": {"versions": {"name": "v1"}}, "status": "x"}),
        json!({"spec": {"versions": [null, {"served": true}, {"name": 5}, {"name": "v1"}]}, "status": {"storedVersions": [1]}}),
    ] {
        let junk = CrdSummary::read(&junk);
        assess(&junk, &junk);
        assess(&crd(&[version("v1", true, &json!({}))], &["v1"]), &junk);
    }
}
