use k8s_openapi::api::{authorization::v1::SubjectRulesReviewStatus, rbac::v1::PolicyRule};
use serde_json::{Value, json};

use super::text;
use std::collections::{BTreeMap, BTreeSet};

use manifests::api::rights::{Right, Rule, expand, not_covered};

use crate::account::Account;

fn held(rules: &Value, urls: &Value) -> Vec<Rule> {
    let review = json!({"resourceRules": rules, "nonResourceRules": urls, "incomplete": false});
    let status: SubjectRulesReviewStatus = serde_json::from_value(review).unwrap();
    Rule::of_review(status)
}

fn rules(rules: Value) -> Vec<PolicyRule> {
    serde_json::from_value(rules).unwrap()
}

fn right<'a>(group: &'a str, resource: &'a str, name: Option<&'a str>, verb: &'a str) -> Right<'a> {
    Right::Resource {
        group,
        resource,
        name,
        verb,
    }
}

fn url<'a>(url: &'a str, verb: &'a str) -> Right<'a> {
    Right::Url { url, verb }
}

#[test]
fn rules_allow_what_authorizers_say_they_do() {
    let held = held(
        &json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
            {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["get"]},
            {"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["update"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["*"]},
        ]),
        &json!([{"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}]),
    );
    let allowed = [
        right("", "pods", None, "get"),
        right("", "pods", Some("a"), "list"),
        right("apps", "deployments", None, "get"),
        right("apps", "deployments/status", None, "get"),
        right("apps", "deployments/scale", None, "update"),
        right("", "secrets", Some("a"), "get"),
        right("batch", "jobs", None, "delete"),
        right("batch", "jobs", None, "*"),
        right("apps", "*", None, "get"),
        url("/metrics", "get"),
        url("/logs/a/b", "get"),
        url("/logs/*", "get"),
    ];
    let missing = [
        right("", "pods", None, "create"),
        right("", "pods/log", None, "get"),
        right("", "pods", None, "*"),
        right("", "*", None, "get"),
        right("*", "pods", None, "get"),
        right("apps", "scale", None, "update"),
        right("", "secrets", None, "get"),
        right("", "secrets", Some("b"), "get"),
        url("/metrics/a", "get"),
        url("*", "get"),
        url("/metrics", "post"),
    ];
    assert_eq!(not_covered(allowed, &held), BTreeSet::new());
    assert_eq!(not_covered(missing, &held), BTreeSet::from(missing));
}

#[test]
fn rules_are_taken_apart_within_bounds() {
    let rules = rules(json!([
        {"apiGroups": ["", "apps"], "resources": ["a"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["b"], "resourceNames": ["x", "y"], "verbs": ["get"]},
        {"nonResourceURLs": ["/u"], "verbs": ["get"]}, {"verbs": ["get"]},
    ]));
    let mut left = 6;
    let expected = Some(BTreeSet::from([
        right("", "a", None, "get"),
        right("apps", "a", None, "get"),
        right("", "b", Some("x"), "get"),
        right("", "b", Some("y"), "get"),
        url("/u", "get"),
    ]));
    assert_eq!(expand(&rules, &mut left), expected);
    assert_eq!(left, 0);
    assert_eq!(expand(&rules, &mut 5), None);
    let list: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    let hostile = PolicyRule {
        api_groups: Some(list.clone()),
        resources: Some(list.clone()),
        resource_names: Some(list.clone()),
        verbs: list.clone(),
        non_resource_urls: Some(list),
    };
    assert_eq!(expand(&[hostile], &mut 50_000), None);
}

#[test]
fn what_is_missing_is_listed_as_objects_that_can_be_created() {
    let account = Account {
        name: "installer".to_owned(),
        namespace: "tenant".to_owned(),
    };
    let missing = BTreeMap::from(::tests::rows![
        None => BTreeSet::from([
            right("", "nodes", None, "get"), right("", "nodes", None, "list"), right("apps", "nodes", None, "list"),
            right("rbac.authorization.k8s.io", "clusterroles", Some("a"), "patch"),
        ]);
        Some("tenant") => BTreeSet::from([
            right("", "configmaps", Some("b"), "get"), right("", "configmaps", None, "get"), right("", "nodes", None, "get"),
            right("", "secrets", None, "get"), url("/metrics", "get"),
        ]);
    ]);
    let text = text::of(&missing, Some(&account), "etcd", "rukpak-system");
    let (words, yaml) = text.split_once("\n---\n").unwrap();
    let holds = words.starts_with("ServiceAccount tenant/installer lacks rights");
    assert!(holds, "{words}");
    let objects = manifests::yaml::documents(yaml.as_bytes());
    let objects: Vec<Value> = objects.map(Result::unwrap).collect();
    let rules = objects.iter().filter_map(|object| object.get("rules"));
    let rules: Vec<&Value> = rules.collect();
    let expected = [
        &json!([
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
            {"apiGroups": ["apps"], "resources": ["nodes"], "verbs": ["list"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["a"], "verbs": ["patch"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]),
        &json!([{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get"]}]),
    ];
    assert_eq!(rules, expected);
    let kinds = objects.iter();
    let kinds: Vec<&str> = kinds.filter_map(|object| object["kind"].as_str()).collect();
    let expected = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    assert_eq!(kinds, expected);
    let role = &objects[0]["metadata"]["name"];
    assert_eq!(*role, objects[1]["roleRef"]["name"]);
    assert_eq!(objects[2]["metadata"]["namespace"], "tenant");
    let subject = json!([{"kind": "ServiceAccount", "name": "installer", "namespace": "tenant"}]);
    assert_eq!(objects[3]["subjects"], subject);
}

#[test]
fn many_names_become_a_rule_for_all_and_much_text_is_bounded() {
    let names: Vec<String> = (0..2_000).map(|n| format!("namespace-{n}")).collect();
    let one = |name| right("", "configmaps", Some(name), "get");
    let rights: BTreeSet<Right<'_>> = names.iter().map(|name| one(name)).collect();
    let missing = BTreeMap::from([(None, rights)]);
    let text = text::of(&missing, None, "etcd", "rukpak-system");
    let holds = text.contains(r#"- {apiGroups: [""], resources: ["configmaps"], verbs: ["get"]}"#);
    assert!(holds, "{text}");
    assert!(text.contains("provisioner-install-anything"), "{text}");

    let missing = names
        .iter()
        .map(|name| (Some(name.as_str()), [one("a")].into()));
    let text = text::of(&missing.collect(), None, "etcd", "rukpak-system");
    assert!(text.len() < 17 << 10, "{}", text.len());
    assert!(text.ends_with("is listed when this is granted"), "{text}");
}
