use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::*;

fn held(rules: &Value, urls: &Value) -> Vec<Rule> {
    let review = json!({"resourceRules": rules, "nonResourceRules": urls, "incomplete": false});
    Rule::from_review(serde_json::from_value(review).unwrap())
}

fn rules(rules: Value) -> Vec<PolicyRule> {
    serde_json::from_value(rules).unwrap()
}

/// Parses `RESOURCE VERB`, `GROUP:RESOURCE VERB`, `RESOURCE#NAME VERB` and `url:URL VERB`.
fn right(text: &str) -> Permission<'_> {
    let (resource_text, verb) = text.split_once(' ').unwrap();
    let (group, resource) = resource_text.split_once(':').unwrap_or(("", resource_text));
    if group == "url" {
        let url = resource;
        return Permission::Url { url, verb };
    }
    let mut parts = resource.split('#');
    Permission::Resource {
        group,
        resource: parts.next().unwrap(),
        name: parts.next(),
        verb,
    }
}

fn permissions(text: &str) -> BTreeSet<Permission<'_>> {
    text.split(", ").map(right).collect()
}

#[test]
fn rules_grant_the_same_as_in_authorizers() {
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
    let allowed = permissions(
        "pods get, pods#a list, apps:deployments get, apps:deployments/status get, apps:deployments/scale update, secrets#a get, \
         batch:jobs delete, batch:jobs *, apps:* get, url:/metrics get, url:/logs/a/b get, url:/logs/* get",
    );
    let missing = permissions(
        "pods create, pods/log get, pods *, * get, *:pods get, apps:scale update, secrets get, secrets#b get, \
         url:/metrics/a get, url:* get, url:/metrics post",
    );
    assert_eq!(rbac::missing(allowed, &held), BTreeSet::new());
    assert_eq!(rbac::missing(missing.clone(), &held), missing);
}

#[test]
fn rules_are_expanded_within_a_limit() {
    let rules = rules(json!([
        {"apiGroups": ["", "apps"], "resources": ["a"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["b"], "resourceNames": ["x", "y"], "verbs": ["get"]},
        {"nonResourceURLs": ["/u"], "verbs": ["get"]}, {"verbs": ["get"]},
    ]));
    let mut left = 6;
    assert_rows!((expand(&rules, &mut left), left) => (Some(permissions("a get, apps:a get, b#x get, b#y get, url:/u get")), 0));
    assert_eq!(expand(&rules, &mut 5), None);
    let list: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    let fields = "apiGroups resources resourceNames verbs nonResourceURLs".split(' ');
    let hostile: Value = fields.map(|field| (field, json!(list))).collect();
    assert_eq!(expand(&self::rules(json!([hostile])), &mut 50_000), None);
}

#[test]
fn missing_permissions_are_formatted_as_a_manifest() {
    let account = crate::tests::account("installer", "tenant");
    let missing = BTreeMap::from(::tests::rows![
        None => permissions("nodes get, nodes list, apps:nodes list, rbac.authorization.k8s.io:clusterroles#a patch");
        Some("tenant") => permissions("configmaps#b get, configmaps get, nodes get, secrets get, url:/metrics get");
    ]);
    let text = manifest::format_manifest(&missing, Some(&account), "etcd", "rukpak-system");
    let (summary, yaml) = text.split_once("\n---\n").unwrap();
    assert_rows!(summary.starts_with("ServiceAccount tenant/installer lacks permissions") => true, "{summary}");
    let objects = manifests::yaml::documents(yaml.as_bytes());
    let objects: Vec<Value> = objects.map(Result::unwrap).collect();
    assert_rows! {
        objects.iter().map(|object| &object["kind"]).collect::<Vec<_>>()
            => ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
        objects[0]["rules"] => json!([
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
            {"apiGroups": ["apps"], "resources": ["nodes"], "verbs": ["list"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["a"], "verbs": ["patch"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]);
        objects[1]["roleRef"]["name"] => objects[0]["metadata"]["name"];
        objects[2]["rules"] => json!([{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get"]}]);
        objects[2]["metadata"]["namespace"] => "tenant";
        objects[3]["subjects"] => json!([{"kind": "ServiceAccount", "name": "installer", "namespace": "tenant"}]);
    }
}

#[test]
fn many_names_become_one_rule_and_the_text_is_bounded() {
    let names: Vec<String> = (0..2_000).map(|n| format!("namespace-{n}")).collect();
    let texts = names.iter().map(|name| format!("configmaps#{name} get"));
    let texts = texts.collect::<Vec<_>>().join(", ");
    let missing = BTreeMap::from([(None, permissions(&texts))]);
    let text = manifest::format_manifest(&missing, None, "etcd", "rukpak-system");
    assert_rows!(text.contains(r#"- {apiGroups: [""], resources: ["configmaps"], verbs: ["get"]}"#) => true, "{text}");
    assert!(text.contains("provisioner-install-anything"), "{text}");

    let missing = names.iter();
    let missing = missing.map(|name| (Some(name.as_str()), permissions("configmaps#a get")));
    let text = manifest::format_manifest(&missing.collect(), None, "etcd", "rukpak-system");
    assert_rows!((text.len() < 17 << 10, text.ends_with("listed after this manifest is applied")) => (true, true), "{text}");
}
