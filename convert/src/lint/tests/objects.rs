use super::*;

const DEPLOYMENT: &str = "/spec/install/spec/deployments/0/spec/template/spec";
const CONTAINER: &str = "/spec/install/spec/deployments/0/spec/template/spec/containers/0";
const CONTAINER_AT: &str =
    "manifests/csv.yaml (spec.install.spec.deployments[0].spec.template.spec.containers[0])";
const IMAGE_AT: &str =
    "manifests/csv.yaml (spec.install.spec.deployments[0].spec.template.spec.containers[0].image)";
const RULE: &str = "manifests/csv.yaml (spec.install.spec.clusterPermissions[0].rules[0])";
const RESOURCE: &str = "manifests/csv.yaml (spec.customresourcedefinitions.owned[0].resources[0])";
const SUBJECT: &str = "manifests/binding.yaml (subjects[0])";
const MAX: &str = "manifests/a.yaml (spec.maxUnavailable)";

// parity: check-19
#[test]
fn workloads() {
    let container =
        |field: &str, value: Value| Bundle::good().csv(&format!("{CONTAINER}/{field}"), value);
    check(::tests::rows![
        Bundle::good().csv("/spec/install/spec/deployments", json!([])) => &[] as &[_];
        container("resources", json!({})) => &[(Code::ResourceRequests, CONTAINER_AT)];
        container("resources", json!({"requests": {"cpu": "1"}})) => &[(Code::ResourceRequests, CONTAINER_AT)];
        container("resources", json!({"limits": {"cpu": "1", "memory": "1Gi"}})) => &[];
        container("image", "example.com/a".into()) => &[(Code::MutableImage, IMAGE_AT)];
        container("image", "example.com/a:latest".into()) => &[(Code::MutableImage, IMAGE_AT)];
        container("image", "example.com/a:1".into()) => &[(Code::MutableImage, IMAGE_AT)];
        container("image", "".into()) => &[(Code::MutableImage, CONTAINER_AT)];
        container("securityContext", json!({"privileged": true})) => &[(
            Code::Privileged,
            "manifests/csv.yaml (spec.install.spec.deployments[0].spec.template.spec.containers[0].securityContext.privileged)",
        )];
        container("securityContext", json!({"privileged": false})) => &[];
        Bundle::good().csv(&format!("{DEPLOYMENT}/initContainers"), json!([{"name": "a", "image": "a:1"}])) => &[(
            Code::MutableImage,
            "manifests/csv.yaml (spec.install.spec.deployments[0].spec.template.spec.initContainers[0].image)",
        )];
        Bundle::good().file("manifests/job.yaml", json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "a"}, "spec": {
            "schedule": "@daily",
            "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}},
        }})) => &[
            (Code::ResourceRequests, "manifests/job.yaml (spec.jobTemplate.spec.template.spec.containers[0])"),
            (Code::MutableImage, "manifests/job.yaml (spec.jobTemplate.spec.template.spec.containers[0].image)"),
        ];
    ]);
}

// parity: check-19
#[test]
fn permissions() {
    let rule = |group: &str, resource: &str, verbs: &[&str]| {
        let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        Bundle::good().csv("/spec/install/spec/clusterPermissions/0/rules/0", rule)
    };
    let scc = |names: &[&str]| {
        let (group, resource) = ("security.openshift.io", "securitycontextconstraints");
        let rule = rule(group, resource, &["use", "update"]);
        let pointer = "/spec/install/spec/clusterPermissions/0/rules/0/resourceNames";
        rule.csv(pointer, json!(names))
    };
    check(::tests::rows![
        rule("*", "a", &["get"]) => &[(Code::WildcardPermissions, RULE)] as &[_];
        rule("a", "*", &["get"]) => &[(Code::WildcardPermissions, RULE)];
        rule("a", "a", &["*"]) => &[(Code::WildcardPermissions, RULE)];
        rule("*", "*", &["*"]) => &[(Code::WildcardPermissions, RULE)];
        rule("apiextensions.k8s.io", "customresourcedefinitions", &["get", "list"]) => &[];
        rule("apiextensions.k8s.io", "customresourcedefinitions", &["get", "create"]) => &[(Code::CRDPermissions, RULE)];
        rule("apiextensions.k8s.io", "*", &["patch"]) => &[(Code::WildcardPermissions, RULE), (Code::CRDPermissions, RULE)];
        rule("policy", "poddisruptionbudgets", &["update"]) => &[(Code::BudgetPermissions, RULE), (Code::MentionedAPI, RULE)];
        scc(&[]) => &[(Code::SecurityConstraints, RULE)];
        scc(&["restricted-v2"]) => &[(Code::SecurityConstraints, RULE)];
        scc(&["mine"]) => &[];
        rule("security.openshift.io", "securitycontextconstraints", &["use"]) => &[];
        Bundle::good().file("manifests/role.yaml", json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a"},
            "rules": [{"apiGroups": ["a"], "resources": ["b"], "verbs": ["*"]}],
        })) => &[(Code::WildcardPermissions, "manifests/role.yaml (rules[0])")];
    ]);
}

// parity: check-18
#[test]
fn apis() {
    let rule = |group: &str, resource: &str| {
        let rule = json!({"apiGroups": [group], "resources": [resource], "verbs": ["get"]});
        Bundle::good().csv("/spec/install/spec/clusterPermissions/0/rules/0", rule)
    };
    let resource = |kind: &str, version: &str| {
        let resources = json!([{"kind": kind, "name": "", "version": version}]);
        let pointer = "/spec/customresourcedefinitions/owned/0/resources";
        Bundle::good().csv(pointer, resources)
    };
    check(::tests::rows![
        rule("extensions", "ingresses") => &[(Code::RemovedAPI, RULE)] as &[_];
        rule("policy", "podsecuritypolicies") => &[(Code::RemovedAPI, RULE)];
        rule("batch", "cronjobs") => &[(Code::MentionedAPI, RULE)];
        rule("batch", "jobs") => &[];
        rule("autoscaling", "horizontalpodautoscalers") => &[(Code::MentionedAPI, RULE), (Code::MentionedAPI, RULE)];
        resource("CronJob", "v1") => &[];
        resource("CronJob", "v1beta1") => &[(Code::RemovedAPI, RESOURCE)];
        resource("CronJob", "batch/v1beta1") => &[(Code::RemovedAPI, RESOURCE)];
        resource("Ingress", "v1beta1") => &[(Code::RemovedAPI, RESOURCE)];
        resource("Etcd", "v1beta1") => &[];
    ]);
}

// parity: check-20
#[test]
fn accounts() {
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    let binding = |kind: &str, subject: Value| {
        Bundle::good().file(
            "manifests/binding.yaml",
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "a"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [subject],
            }),
        )
    };
    let subject = |name: &str, namespace: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": namespace});
    check(::tests::rows![
        Bundle::good().file("manifests/sa.yaml", account("etcd"))
            => &[(Code::ShippedServiceAccount, "manifests/sa.yaml")] as &[_];
        Bundle::good().file("manifests/sa.yaml", account("other")) => &[];
        binding("ClusterRoleBinding", subject("etcd", "etcd-system")) => &[];
        binding("ClusterRoleBinding", subject("etcd", "elsewhere")) => &[(Code::BindingNamespace, SUBJECT)];
        binding("RoleBinding", subject("etcd", "elsewhere")) => &[(Code::BindingNamespace, SUBJECT)];
        binding("ClusterRoleBinding", subject("etcd", "")) => &[(Code::BindingNamespace, SUBJECT)];
        binding("RoleBinding", json!({"kind": "ServiceAccount", "name": "etcd"})) => &[];
        binding("ClusterRoleBinding", subject("prometheus", "monitoring")) => &[];
        binding("RoleBinding", subject("other", "elsewhere")).file("manifests/sa.yaml", account("other"))
            => &[(Code::BindingNamespace, SUBJECT)];
    ]);
}

// parity: convert-7
#[test]
fn bindings_refer_to_roles_that_exist() {
    const PLACE: &str = "manifests/binding.yaml (roleRef)";
    let rbac = |kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}});
        object
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        object
    };
    let bundle = |kind: &str, role: &str, name: &str| {
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name});
        let subject = json!({"kind": "User", "name": "jane"});
        let more = json!({"roleRef": role_ref, "subjects": [subject]});
        let reader = rbac("Role", "reader", json!({"rules": []}));
        let bundle = Bundle::good().file("manifests/role.yaml", reader);
        bundle.file("manifests/binding.yaml", rbac(kind, "a", more))
    };
    check(::tests::rows![
        bundle("RoleBinding", "Role", "reader") => &[] as &[_];
        bundle("RoleBinding", "Role", "extension-apiserver-authentication-reader") => &[(Code::MissingRole, PLACE)];
        bundle("RoleBinding", "ClusterRole", "view") => &[];
        bundle("RoleBinding", "ClusterRole", "of-the-cluster") => &[];
        bundle("ClusterRoleBinding", "ClusterRole", "system:auth-delegator") => &[];
        bundle("ClusterRoleBinding", "Role", "reader") => &[(Code::MissingRole, PLACE)];
    ]);
    // Another bundle or an admin may have created the Role.
    let content = bundle("RoleBinding", "Role", "writer").content();
    let report = validate(&content, &Options::default());
    let expected = "RoleBinding \"a\" refers to Role \"writer\", which the bundle does not contain; the binding grants \
                    nothing unless the Role exists in the cluster; add the Role to the bundle, or refer to a ClusterRole";
    let is_reported = |finding: &Finding| finding.to_string().ends_with(expected);
    assert_rows!(report.findings.iter().any(is_reported) => true, "{:?}", report.findings);
}

// parity: check-20
#[test]
fn other_objects() {
    let budget = |field: &str, value: Value| {
        let spec = json!({field: value, "selector": {"matchLabels": {"app": "etcd"}}});
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": spec});
        Bundle::good().file("manifests/a.yaml", budget)
    };
    let priority = |default: bool| {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "a"}, "value": 1,
            "globalDefault": default,
        });
        Bundle::good().file("manifests/a.yaml", class)
    };
    let service = |selector: Value| {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"selector": selector}});
        Bundle::good().file("manifests/a.yaml", service)
    };
    check(::tests::rows![
        budget("maxUnavailable", 0.into()) => &[(Code::DisruptionBudget, MAX)] as &[_];
        budget("maxUnavailable", "0%".into()) => &[(Code::DisruptionBudget, MAX)];
        budget("maxUnavailable", 1.into()) => &[];
        budget("minAvailable", "100%".into()) => &[(Code::DisruptionBudget, "manifests/a.yaml (spec.minAvailable)")];
        budget("minAvailable", "50%".into()) => &[];
        priority(true) => &[(Code::GlobalPriority, "manifests/a.yaml (globalDefault)")];
        priority(false) => &[];
        service(json!({"app": "etcd"})) => &[];
        service(json!({})) => &[];
        service(json!({"app": "etcd", "tier": "x"})) => &[(Code::ServiceSelector, "manifests/a.yaml (spec.selector)")];
        service(json!({"tier": "x"})).csv("/spec/install/spec/deployments", json!([])) => &[];
    ]);
}

#[test]
fn services_beyond_the_comparison_limit_are_reported() {
    let selector: Value = (0..1000).map(|n| (format!("l{n}"), json!("a"))).collect();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"selector": selector}});
    let deployment =
        json!({"name": "a", "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    let many = vec![deployment; 1001].into();
    let bundle = Bundle::good().csv("/spec/install/spec/deployments", many);
    let bundle = bundle.file("manifests/a.yaml", service);
    let report = validate(&bundle.content(), &Options::default());
    assert_rows!(report.findings.iter().any(|finding: &Finding| finding.message.contains("too many Services")) => true);
}
