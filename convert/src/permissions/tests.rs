use serde_json::json;

use super::*;

fn objects(values: &[Value]) -> Vec<Object> {
    let named = |value: &Value| Object::try_from(value.clone()).unwrap();
    values.iter().map(named).collect()
}

#[allow(clippy::needless_pass_by_value, reason = "the cases read better")]
fn role(kind: &str, name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules})
}

fn binding(kind: &str, role_kind: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": "ops", "name": "operator"}],
    })
}

fn within(namespace: &str, mut value: Value) -> Value {
    value["metadata"]["namespace"] = namespace.into();
    value
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn named(mut rule: Value, name: &str) -> Value {
    rule["resourceNames"] = json!([name]);
    rule
}

/// Formats `verbs on groups:resources`, short enough for tables.
fn short(permissions: &SubjectPermissions) -> Vec<String> {
    let join = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(",");
    let line = |Grant { rule, .. }: &Grant| {
        let (verbs, groups) = (join(&rule.verbs), join(&rule.api_groups));
        let of = [&rule.resources, &rule.resource_names, &rule.urls].map(join);
        format!("{verbs} {groups}:{}", of.concat())
    };
    permissions.grants.iter().map(line).collect()
}

/// Formats the subject, scope, grants and roles of others of each entry.
fn described(values: &[Value]) -> Vec<String> {
    let line = |permissions: &SubjectPermissions| {
        let (grants, others) = (short(permissions), &permissions.other_roles);
        let (holder, scope) = (&permissions.holder, &permissions.scope);
        format!("{holder} {scope:?} {grants:?} {others:?}")
    };
    granted_by(&objects(values)).iter().map(line).collect()
}

#[test]
fn permissions_apply_in_the_scope_of_the_binding() {
    let rules = json!([rule(&[""], &["pods"], &["get"]), {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let tides = json!([rule(&["acme.io"], &["tides"], &["get"])]);
    let mut part = role("ClusterRole", "part", tides);
    part["metadata"]["labels"] =
        json!({"acme.io/part": "true", "rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let mut whole = role("ClusterRole", "whole", json!([]));
    whole["aggregationRule"] =
        json!({"clusterRoleSelectors": [{"matchLabels": {"acme.io/part": "true"}}]});
    assert_each!(|objects, expected| described(&objects) => expected;
        vec![role("ClusterRole", "r", rules.clone()), binding("ClusterRoleBinding", "ClusterRole", "r")]
            => &[r#"ServiceAccount ops/operator Cluster ["get :/metrics", "get :pods"] {}"#][..];
        vec![role("ClusterRole", "r", rules.clone()), within("a", binding("RoleBinding", "ClusterRole", "r"))]
            => &[r#"ServiceAccount ops/operator Namespace("a") ["get :pods"] {}"#];
        vec![within("a", role("Role", "r", rules.clone())), within("a", binding("RoleBinding", "Role", "r"))]
            => &[r#"ServiceAccount ops/operator Namespace("a") ["get :pods"] {}"#];
        // A Role of another namespace grants nothing, and is listed.
        vec![within("a", role("Role", "r", rules)), within("b", binding("RoleBinding", "Role", "r"))]
            => &[r#"ServiceAccount ops/operator Namespace("b") [] {"Role r"}"#];
        vec![role("ClusterRole", "r", json!([rule(&["*"], &["*"], &["*"])]))] => &[];
        // Roles of the cluster are listed, and the permissions of some of them are known.
        vec![binding("ClusterRoleBinding", "ClusterRole", "cluster-admin")]
            => &[r#"ServiceAccount ops/operator Cluster ["* :*", "* *:*"] {"ClusterRole cluster-admin"}"#];
        vec![binding("ClusterRoleBinding", "ClusterRole", "view")]
            => &[r#"ServiceAccount ops/operator Cluster [] {"ClusterRole view"}"#];
        // Aggregation extends roles of the bundle and roles of the cluster.
        vec![part, whole, binding("ClusterRoleBinding", "ClusterRole", "whole")] => &[
            r#"ClusterRole view Cluster ["get acme.io:tides"] {}"#,
            r#"ServiceAccount ops/operator Cluster ["get acme.io:tides"] {}"#,
        ];
    );
}

#[test]
fn equivalent_rules_are_merged() {
    let short_of = |rules: &[Value]| {
        let role = role("ClusterRole", "r", rules.to_vec().into());
        let binding = binding("ClusterRoleBinding", "ClusterRole", "r");
        short(&granted_by(&objects(&[role, binding]))[0])
    };
    assert_each!(|rules, merged| short_of(&rules) => merged;
        vec![rule(&[""], &["pods"], &["get"]), rule(&[""], &["pods"], &["list"])] => &["get,list :pods"][..];
        vec![rule(&[""], &["pods"], &["get"]), rule(&[""], &["nodes"], &["get"])] => &["get :nodes,pods"];
        vec![rule(&["a"], &["x"], &["get"]), rule(&["b"], &["x"], &["get"])] => &["get a,b:x"];
        vec![rule(&["a"], &["x"], &["get"]), rule(&["a"], &["y"], &["list"])] => &["get a:x", "list a:y"];
        vec![rule(&["a"], &["x"], &["get", "*"])] => &["* a:x"];
        // The third rule makes the first two mergeable.
        vec![rule(&["a"], &["x"], &["get"]), rule(&["a"], &["y"], &["get", "list"]), rule(&["a"], &["x"], &["list"])]
            => &["get,list a:x,y"];
        vec![rule(&["a"], &["x"], &["get"]), named(rule(&["a"], &["x"], &["get"]), "n")] => &["get a:x"];
        vec![named(rule(&["a"], &["x"], &["get"]), "m"), named(rule(&["a"], &["x"], &["get"]), "n")] => &["get a:xm,n"];
    );
}

#[test]
fn dangerous_permissions_are_reported() {
    use Risk::*;
    let rbac = "rbac.authorization.k8s.io";
    let (group, constraints) = ("security.openshift.io", "securitycontextconstraints");
    let scc = rule(&[group], &[constraints], &["use"]);
    assert_each!(|rule, dangers| risk::risks_of_rule(&Rule::read(&rule)) => dangers.iter().copied().collect();
        rule(&[""], &["pods", "configmaps"], &["get", "list", "watch"]) => &[][..];
        rule(&[""], &["secrets"], &["create", "delete"]) => &[];
        rule(&[""], &["secrets"], &["list"]) => &[Secrets];
        named(rule(&[""], &["secrets"], &["get"]), "own") => &[];
        rule(&["other"], &["secrets"], &["get"]) => &[];
        rule(&["acme.io"], &["*"], &["get"]) => &[Wildcard];
        rule(&[rbac], &["clusterroles"], &["create", "update"]) => &[];
        rule(&[rbac], &["clusterroles"], &["escalate"]) => &[Escalate];
        named(rule(&[rbac], &["clusterroles"], &["bind"]), "cluster-admin") => &[Bind];
        rule(&[""], &["users"], &["impersonate"]) => &[Impersonate];
        rule(&["authentication.k8s.io"], &["uids"], &["impersonate"]) => &[Impersonate];
        rule(&[""], &["pods/exec"], &["create"]) => &[Exec];
        rule(&[""], &["pods/exec"], &["get"]) => &[Exec];
        rule(&[""], &["pods/log"], &["get"]) => &[];
        rule(&[""], &["*/exec"], &["create"]) => &[Wildcard, Exec];
        rule(&[""], &["pods/ephemeralcontainers"], &["patch"]) => &[Exec];
        rule(&["apps"], &["deployments"], &["create"]) => &[Workloads];
        rule(&["batch"], &["jobs"], &["delete"]) => &[];
        rule(&[""], &["persistentvolumes"], &["create"]) => &[Volumes];
        rule(&[""], &["nodes/proxy"], &["get"]) => &[NodeProxy];
        rule(&[""], &["nodes"], &["get"]) => &[];
        rule(&[""], &["serviceaccounts/token"], &["create"]) => &[Tokens];
        rule(&["certificates.k8s.io"], &["certificatesigningrequests/approval"], &["update"]) => &[Certificates];
        rule(&["certificates.k8s.io"], &["signers"], &["sign"]) => &[Certificates];
        rule(&["admissionregistration.k8s.io"], &["validatingwebhookconfigurations"], &["patch"]) => &[Admission];
        rule(&[""], &["namespaces"], &["create"]) => &[];
        rule(&[""], &["namespaces"], &["update"]) => &[Namespaces];
        scc.clone() => &[PrivilegedPods];
        named(scc.clone(), "restricted") => &[];
        named(scc, "anyuid") => &[PrivilegedPods];
        json!({"nonResourceURLs": ["*"], "verbs": ["get"]}) => &[Wildcard];
    );
    let everything = risk::risks_of_rule(&Rule::read(&rule(&["*"], &["*"], &["*"])));
    assert_eq!(everything.len(), 14, "{everything:?}");
    // Default roles of the cluster.
    let edit = within("a", binding("RoleBinding", "ClusterRole", "edit"));
    let permissions = granted_by(&objects(&[edit]));
    let grants = permissions[0].grants.iter();
    let dangers: BTreeSet<Risk> = grants.flat_map(|grant| grant.dangers.clone()).collect();
    assert!(dangers.is_superset(&BTreeSet::from([Secrets, Impersonate, Exec])));
}

#[test]
fn selectors_match_as_in_the_api_server() {
    let labeled = json!({"metadata": {"labels": {"a": "1"}}});
    assert_each!(|selector, is_chosen| roles::selects(&selector, &labeled) => is_chosen;
        json!({}) => true;
        json!({"matchLabels": {"a": "1"}}) => true;
        json!({"matchLabels": {"a": "1", "b": "1"}}) => false;
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}) => true;
        json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}) => false;
        json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}) => true;
        json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}) => true;
        json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}) => false;
        json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}) => false;
    );
}

#[test]
fn openshift_roles_and_bindings_grant_permissions() {
    let api = "authorization.openshift.io/v1";
    let binding = |role: Value, subjects: Value| {
        let mut binding = subjects;
        binding["apiVersion"] = api.into();
        binding["kind"] = "ClusterRoleBinding".into();
        binding["metadata"] = json!({"name": "b"});
        binding["roleRef"] = role;
        binding
    };
    let account =
        json!({"subjects": [{"kind": "ServiceAccount", "namespace": "ops", "name": "operator"}]});
    let user = json!({"userNames": ["system:serviceaccount:ops:operator"]});
    let with_rule = |rule: Value| json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [rule]});
    let role = with_rule(rule(&[""], &["pods"], &["get"]));
    let without_groups = |resources: &[&str], verbs: &[&str]| {
        with_rule(json!({"resources": resources, "verbs": verbs}))
    };
    let restricted =
        json!({"resources": ["*"], "verbs": ["*"], "attributeRestrictions": {"kind": "A"}});
    let mixed = json!({"apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/a"], "verbs": ["get"]});
    let system = json!([{"kind": "SystemUser", "name": "u"}, {"kind": "SystemGroup", "name": "g"}]);
    let with = |mut binding: Value, field: &str, value: Value| {
        binding[field] = value;
        binding
    };
    let of_a = |subjects: &Value| binding(json!({"name": "a"}), subjects.clone());
    let rbac_binding = self::binding("ClusterRoleBinding", "ClusterRole", "a");
    let admin =
        r#"ServiceAccount ops/operator Cluster ["* :*", "* *:*"] {"ClusterRole cluster-admin"}"#;
    assert_each!(|objects, expected| described(&objects) => expected;
        vec![binding(json!({"name": "cluster-admin"}), account.clone())] => &[admin][..];
        vec![binding(json!({"name": "cluster-admin"}), user)] => &[admin];
        vec![binding(json!({"name": "a", "namespace": "b"}), json!({"groupNames": ["g"], "userNames": ["u"]}))]
            => &[r#"Group g Cluster [] {"Role a"}"#, r#"User u Cluster [] {"Role a"}"#];
        vec![binding(json!({"name": "r"}), account.clone()), role]
            => &[r#"ServiceAccount ops/operator Cluster ["get :pods"] {}"#];
        // The lists of names replace the subjects, unless both are null.
        vec![with(of_a(&account), "userNames", json!(["u"]))] => &[r#"User u Cluster [] {"ClusterRole a"}"#];
        vec![with(of_a(&account), "groupNames", json!([]))] => &[];
        vec![with(of_a(&account), "userNames", json!(null))] => &[r#"ServiceAccount ops/operator Cluster [] {"ClusterRole a"}"#];
        vec![with(rbac_binding, "userNames", json!(["u"]))] => &[r#"ServiceAccount ops/operator Cluster [] {"ClusterRole a"}"#];
        vec![of_a(&json!({"subjects": system}))]
            => &[r#"Group g Cluster [] {"ClusterRole a"}"#, r#"User u Cluster [] {"ClusterRole a"}"#];
        // OpenShift sets the group of a rule without groups.
        vec![binding(json!({"name": "r"}), account.clone()), without_groups(&["*"], &["*"])]
            => &[r#"ServiceAccount ops/operator Cluster ["* *:*"] {}"#];
        vec![binding(json!({"name": "r"}), account.clone()), without_groups(&["pods"], &["get"])]
            => &[r#"ServiceAccount ops/operator Cluster ["get :pods"] {}"#];
        vec![binding(json!({"name": "r"}), account.clone()), without_groups(&["*", "pods"], &["*"])]
            => &[r#"ServiceAccount ops/operator Cluster ["* :*"] {}"#];
        vec![binding(json!({"name": "r"}), account.clone()), with_rule(restricted)]
            => &[r#"ServiceAccount ops/operator Cluster ["* :*"] {}"#];
        vec![binding(json!({"name": "r"}), account), with_rule(rule(&[], &["*"], &["*"]))]
            => &[r#"ServiceAccount ops/operator Cluster ["* :*"] {}"#];
        // OpenShift splits a rule for resources and URLs.
        vec![within("a", self::binding("RoleBinding", "ClusterRole", "r")), with_rule(mixed)]
            => &[r#"ServiceAccount ops/operator Namespace("a") ["get :pods"] {}"#];
    );
}

#[test]
fn roles_of_both_apis_are_the_same_role() {
    let of_openshift = |mut role: Value| {
        role["apiVersion"] = "authorization.openshift.io/v1".into();
        role
    };
    let wide = role("ClusterRole", "r", json!([rule(&["*"], &["*"], &["*"])]));
    let rules = json!([rule(&[""], &["pods"], &["get"])]);
    let narrow = of_openshift(role("ClusterRole", "r", rules));
    let mut part = wide.clone();
    part["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let mut whole = role("ClusterRole", "whole", json!([]));
    let selector = json!({"matchLabels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}});
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [selector]});
    let empty = of_openshift(role("ClusterRole", "whole", json!([])));
    let of_r = binding("ClusterRoleBinding", "ClusterRole", "r");
    let of_whole = binding("ClusterRoleBinding", "ClusterRole", "whole");
    let both = r#"ServiceAccount ops/operator Cluster ["get :pods", "* *:*"] {}"#;
    let view = r#"ClusterRole view Cluster ["get :pods", "* *:*"] {}"#;
    assert_each!(|objects, expected| described(&objects) => expected;
        vec![wide.clone(), narrow.clone(), of_r.clone()] => &[both][..];
        vec![narrow.clone(), wide, of_r] => &[both];
        vec![part.clone(), narrow.clone(), whole.clone(), empty.clone(), of_whole.clone()] => &[view, both];
        vec![narrow, part, empty, whole, of_whole] => &[view, both];
    );
}
