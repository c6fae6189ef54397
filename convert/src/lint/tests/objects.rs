//! Workloads, permissions, ServiceAccounts and other objects.

use super::*;

const RBAC: &str = "rbac.authorization.k8s.io/v1";
const DEPLOYMENTS: &str = "/spec/install/spec/deployments";
/// The start of locations in the pod template.
const POD: &str = "manifests/csv.yaml (…deployments[0].spec.template.spec";
const SUBJECT: &str = "BindingNamespace manifests/binding.yaml (subjects[0])";
const MISSING_ROLE: &str = "MissingRole manifests/binding.yaml (roleRef)";

/// Returns a bundle with one more object. Without metadata, the object has the name `a`.
fn object(file: &str, api: &str, kind: &str, fields: Value) -> Bundle {
    with_object(Bundle::good(), file, api, kind, fields)
}

fn with_object(bundle: Bundle, file: &str, api: &str, kind: &str, mut fields: Value) -> Bundle {
    fields["apiVersion"] = api.into();
    fields["kind"] = kind.into();
    if fields["metadata"].is_null() {
        fields["metadata"] = json!({"name": "a"});
    }
    bundle.file(&format!("manifests/{file}.yaml"), fields)
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Bundle {
    let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    csv("/spec/install/spec/clusterPermissions/0/rules/0", rule)
}

// parity: check-19
#[test]
fn workloads_are_checked() {
    let pod = |field: &str, value: Value| {
        let pointer = format!("{DEPLOYMENTS}/0/spec/template/spec/{field}");
        csv(&pointer, value)
    };
    let container = |field: &str, value: Value| pod(&format!("containers/0/{field}"), value);
    let resources = format!("ResourceRequests {POD}.containers[0])");
    let image = format!("MutableImage {POD}.containers[0].image)");
    let template = json!({"spec": {"containers": [{"name": "a", "image": "a"}]}});
    let job = json!({"schedule": "@daily", "jobTemplate": {"spec": {"template": template}}});
    let in_job = "manifests/job.yaml (spec.jobTemplate.spec.template.spec.containers[0]";
    check(::tests::rows![
        csv(DEPLOYMENTS, json!([])) => "";
        container("resources", json!({})) => &resources;
        container("resources", json!({"requests": {"cpu": "1"}})) => &resources;
        container("resources", json!({"limits": {"cpu": "1", "memory": "1Gi"}})) => "";
        container("image", "example.com/a".into()) => &image;
        container("image", "example.com/a:latest".into()) => &image;
        container("image", "example.com/a:1".into()) => &image;
        container("image", "".into()) => &format!("MutableImage {POD}.containers[0])");
        container("securityContext", json!({"privileged": true}))
            => &format!("Privileged {POD}.containers[0].securityContext.privileged)");
        container("securityContext", json!({"privileged": false})) => "";
        pod("initContainers", json!([{"name": "a", "image": "a:1"}])) => &format!("MutableImage {POD}.initContainers[0].image)");
        object("job", "batch/v1", "CronJob", json!({"spec": job}))
            => &format!("ResourceRequests {in_job}), MutableImage {in_job}.image)");
    ]);
}

// parity: check-18, check-19
#[test]
fn permissions_and_apis_are_checked() {
    let (crds, group) = ("customresourcedefinitions", "apiextensions.k8s.io");
    let (sccs, openshift) = ("securitycontextconstraints", "security.openshift.io");
    let scc = |names: &[&str]| {
        let pointer = "/spec/install/spec/clusterPermissions/0/rules/0/resourceNames";
        rule(openshift, sccs, &["use", "update"]).csv(pointer, json!(names))
    };
    let resource = |kind: &str, version: &str| {
        let resources = json!([{"kind": kind, "name": "", "version": version}]);
        let pointer = "/spec/customresourcedefinitions/owned/0/resources";
        csv(pointer, resources)
    };
    let rules = json!({"rules": [{"apiGroups": ["a"], "resources": ["b"], "verbs": ["*"]}]});
    let at = |code: &str| format!("{code} manifests/csv.yaml (…clusterPermissions[0].rules[0])");
    let used =
        "RemovedAPI manifests/csv.yaml (spec.customresourcedefinitions.owned[0].resources[0])";
    check(::tests::rows![
        rule("*", "a", &["get"]) => &*at("WildcardPermissions");
        rule("a", "*", &["get"]) => &at("WildcardPermissions");
        rule("a", "a", &["*"]) => &at("WildcardPermissions");
        rule("*", "*", &["*"]) => &at("WildcardPermissions");
        rule(group, crds, &["get", "list"]) => "";
        rule(group, crds, &["get", "create"]) => &at("CRDPermissions");
        rule(group, "*", &["patch"]) => &["WildcardPermissions", "CRDPermissions"].map(at).join(", ");
        rule("policy", "poddisruptionbudgets", &["update"]) => &["BudgetPermissions", "MentionedAPI"].map(at).join(", ");
        scc(&[]) => &at("SecurityConstraints");
        scc(&["restricted-v2"]) => &at("SecurityConstraints");
        scc(&["mine"]) => "";
        rule(openshift, sccs, &["use"]) => "";
        object("role", RBAC, "ClusterRole", rules) => "WildcardPermissions manifests/role.yaml (rules[0])";
        // Removed APIs that a role or the CSV mentions.
        rule("extensions", "ingresses", &["get"]) => &at("RemovedAPI");
        rule("policy", "podsecuritypolicies", &["get"]) => &at("RemovedAPI");
        rule("batch", "cronjobs", &["get"]) => &at("MentionedAPI");
        rule("batch", "jobs", &["get"]) => "";
        rule("autoscaling", "horizontalpodautoscalers", &["get"]) => &["MentionedAPI"; 2].map(at).join(", ");
        resource("CronJob", "v1") => "";
        resource("CronJob", "v1beta1") => used;
        resource("CronJob", "batch/v1beta1") => used;
        resource("Ingress", "v1beta1") => used;
        resource("Etcd", "v1beta1") => "";
    ]);
}

// parity: check-20, convert-7
#[test]
fn service_accounts_and_bindings_are_checked() {
    let account = |name: &str| {
        let metadata = json!({"metadata": {"name": name}});
        object("sa", "v1", "ServiceAccount", metadata)
    };
    let bind = |bundle: Bundle, kind: &str, [role_kind, role]: [&str; 2], subject: Value| {
        let role =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role});
        let fields = json!({"roleRef": role, "subjects": [subject]});
        with_object(bundle, "binding", RBAC, kind, fields)
    };
    let view = |bundle: Bundle, kind: &str, name: &str, namespace: Value| {
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": namespace});
        bind(bundle, kind, ["ClusterRole", "view"], subject)
    };
    let good = Bundle::good;
    let bound = |kind: &str, role_kind: &str, role: &str| {
        let metadata = json!({"metadata": {"name": "reader"}, "rules": []});
        let bundle = object("role", RBAC, "Role", metadata);
        let user = json!({"kind": "User", "name": "jane"});
        bind(bundle, kind, [role_kind, role], user)
    };
    check(::tests::rows![
        account("etcd") => "ShippedServiceAccount manifests/sa.yaml";
        account("other") => "";
        view(good(), "ClusterRoleBinding", "etcd", "etcd-system".into()) => "";
        view(good(), "ClusterRoleBinding", "etcd", "elsewhere".into()) => SUBJECT;
        view(good(), "RoleBinding", "etcd", "elsewhere".into()) => SUBJECT;
        view(good(), "ClusterRoleBinding", "etcd", "".into()) => SUBJECT;
        bind(good(), "RoleBinding", ["ClusterRole", "view"], json!({"kind": "ServiceAccount", "name": "etcd"})) => "";
        view(good(), "ClusterRoleBinding", "prometheus", "monitoring".into()) => "";
        view(account("other"), "RoleBinding", "other", "elsewhere".into()) => SUBJECT;
        // Bindings refer to roles that exist.
        bound("RoleBinding", "Role", "reader") => "";
        bound("RoleBinding", "Role", "extension-apiserver-authentication-reader") => MISSING_ROLE;
        bound("RoleBinding", "ClusterRole", "view") => "";
        bound("RoleBinding", "ClusterRole", "of-the-cluster") => "";
        bound("ClusterRoleBinding", "ClusterRole", "system:auth-delegator") => "";
        bound("ClusterRoleBinding", "Role", "reader") => MISSING_ROLE;
    ]);
    // Another bundle or an admin may have created the Role.
    let content = bound("RoleBinding", "Role", "writer").content();
    let report = validate(&content, &Options::default());
    let expected = "RoleBinding \"a\" refers to Role \"writer\", which the bundle does not contain; the binding grants \
                    nothing unless the Role exists in the cluster; add the Role to the bundle, or refer to a ClusterRole";
    let is_reported = |finding: &Finding| finding.to_string().ends_with(expected);
    assert_rows!(report.findings.iter().any(is_reported) => true, "{:?}", report.findings);
}

// parity: check-20
#[test]
fn other_objects_are_checked() {
    let budget = |field: &str, value: Value| {
        let fields = json!({"spec": {field: value, "selector": {"matchLabels": {"app": "etcd"}}}});
        object("a", "policy/v1", "PodDisruptionBudget", fields)
    };
    let priority = |default: bool| {
        let fields = json!({"value": 1, "globalDefault": default});
        object("a", "scheduling.k8s.io/v1", "PriorityClass", fields)
    };
    let service = |selector: Value| {
        let fields = json!({"spec": {"selector": selector}});
        object("a", "v1", "Service", fields)
    };
    let max = "DisruptionBudget manifests/a.yaml (spec.maxUnavailable)";
    check(::tests::rows![
        budget("maxUnavailable", 0.into()) => max;
        budget("maxUnavailable", "0%".into()) => max;
        budget("maxUnavailable", 1.into()) => "";
        budget("minAvailable", "100%".into()) => "DisruptionBudget manifests/a.yaml (spec.minAvailable)";
        budget("minAvailable", "50%".into()) => "";
        priority(true) => "GlobalPriority manifests/a.yaml (globalDefault)";
        priority(false) => "";
        service(json!({"app": "etcd"})) => "";
        service(json!({})) => "";
        service(json!({"app": "etcd", "tier": "x"})) => "ServiceSelector manifests/a.yaml (spec.selector)";
        service(json!({"tier": "x"})).csv(DEPLOYMENTS, json!([])) => "";
    ]);
    // Comparisons of selectors have a limit.
    let deployment =
        json!({"name": "a", "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    let selector: Value = (0..1000).map(|n| (format!("l{n}"), json!("a"))).collect();
    let bundle = service(selector).csv(DEPLOYMENTS, vec![deployment; 1001].into());
    let report = validate(&bundle.content(), &Options::default());
    assert_rows!(report.findings.iter().any(|finding: &Finding| finding.message.contains("too many Services")) => true);
}
