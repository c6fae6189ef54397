use serde_json::{Value, json};

use super::*;
use crate::path::Path;

fn deployment() -> &'static Struct {
    kind("apps/v1", "Deployment").unwrap().ty
}

fn crd() -> &'static Struct {
    let crd = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    crd.unwrap().ty
}

#[allow(clippy::needless_pass_by_value, reason = "literals are handed over")]
fn container(fields: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [fields]}}}})
}

#[allow(clippy::needless_pass_by_value, reason = "literals are handed over")]
fn schema(fields: Value) -> Value {
    json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": fields}}]}})
}

fn conformed(mut value: Value, ty: impl Into<Type>) -> (Value, Vec<String>) {
    let problems = conform(&mut value, ty);
    (value, problems.iter().map(ToString::to_string).collect())
}

#[test]
fn tables_are_sorted_and_complete() {
    assert!(kinds().is_sorted_by(|a, b| (a.api_version, a.kind) < (b.api_version, b.kind)));
    for kind in kinds() {
        assert_rows!(kind.ty.fields.is_sorted_by(|a, b| a.name < b.name) => true, "{}", kind.kind);
        assert_rows!(kind.ty.at(&["metadata", "annotations"]) => Some(Type::Map(&Type::String)));
    }
    assert!(csv().fields.is_sorted_by(|a, b| a.name < b.name));
}

// parity: convert-12
#[test]
fn kinds_have_a_scope() {
    let scope = |text: &str| {
        let (api_version, name) = text.split_once(' ').unwrap();
        kind(api_version, name).map(|kind| kind.namespaced)
    };
    assert_each!(|kinds, namespaced| kinds.iter().find(|kind| scope(kind) != namespaced) => None;
        &[
            "v1 ConfigMap", "v1 ServiceAccount", "networking.k8s.io/v1 Ingress", "policy/v1 PodDisruptionBudget",
            "rbac.authorization.k8s.io/v1 RoleBinding",
        ][..] => Some(true);
        &[
            "v1 Namespace", "v1 PersistentVolume", "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
            "apiextensions.k8s.io/v1 CustomResourceDefinition", "apiregistration.k8s.io/v1 APIService",
            "networking.k8s.io/v1 IngressClass", "rbac.authorization.k8s.io/v1 ClusterRole",
            "scheduling.k8s.io/v1 PriorityClass", "storage.k8s.io/v1 StorageClass",
        ] => Some(false);
        &["v1 Deployment", "apps/v1beta1 Deployment"] => None;
    );
}

#[test]
fn values_are_converted_as_in_go_without_findings() {
    let fine = schema(json!({"type": "object", "properties": {
        "list": {"items": {"type": "string"}, "type": "array"},
        "tuple": {"items": [{"type": "string"}], "type": "array"}, "free": {"additionalProperties": true},
        "strings": {"additionalProperties": {"type": "string"}},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}], "maximum": 1e9},
        "any": {"default": {"a": [null, {"items": 1}]}, "enum": [1, "2", null], "example": false},
    }}));
    assert_each!(|ty, value, expected| conformed(value, ty) => (expected, vec![]);
        // Fields that Go omits are removed.
        deployment(), container(json!({"env": [{"name": "A", "value": ""}, {"name": "", "value": "b"}]}))
            => container(json!({"env": [{"name": "A"}, {"name": "", "value": "b"}]}));
        deployment(), container(json!({"securityContext": {"privileged": false, "runAsUser": 0}}))
            => container(json!({"securityContext": {"privileged": false, "runAsUser": 0}}));
        deployment(), container(json!({"args": [], "resources": {}, "stdin": false, "ports": null}))
            => container(json!({"resources": {}}));
        deployment(), json!({"spec": {"replicas": 0, "minReadySeconds": 0, "template": {
            "metadata": {"creationTimestamp": "0001-01-01T00:00:00Z", "deletionTimestamp": null, "labels": {}, "annotations": {
                "a": ""
            }},
            "spec": {"hostNetwork": false, "volumes": [{"name": "tmp", "emptyDir": {}}]},
        }}})
            => json!({"spec": {"replicas": 0, "template": {"metadata": {"annotations": {"a": ""}}, "spec": {"volumes": [{
                "name": "tmp", "emptyDir": {},
            }]}}}});
        kind("networking.k8s.io/v1", "NetworkPolicy").unwrap().ty,
            json!({"spec": {"podSelector": {}, "ingress": [{}], "egress": []}})
            => json!({"spec": {"podSelector": {}, "ingress": [{}]}});
        // A null that cannot be omitted becomes a zero value.
        deployment(), json!({"metadata": {"annotations": {"a": null}}, "spec": {"template": {"spec": {"containers": [null]}}}})
            => json!({"metadata": {"annotations": {"a": ""}}, "spec": {"template": {"spec": {"containers": [{}]}}}});
        // Numbers.
        deployment(), container(json!({
            "ports": [{"containerPort": 8080.0}], "livenessProbe": {"httpGet": {"port": 8081}},
            "readinessProbe": {"httpGet": {"port": "http"}},
            "resources": {"limits": {"cpu": 1, "memory": 0.5}, "requests": {"cpu": "1000m", "memory": "1.5Gi"}},
        }))
            => container(json!({
                "ports": [{"containerPort": 8080}], "livenessProbe": {"httpGet": {"port": 8081}},
                "readinessProbe": {"httpGet": {"port": "http"}},
                "resources": {"limits": {"cpu": "1", "memory": "500m"}, "requests": {"cpu": "1", "memory": "1536Mi"}},
            }));
        crd(), fine.clone() => fine;
    );
}

#[test]
fn problems_of_values_name_their_paths_and_remedies() {
    let at = "spec.template.spec.containers[0]";
    let of_crd = "spec.versions[0].schema.openAPIV3Schema.properties";
    let unknown = json!({"name": "manager", "livenessProbe": {"periodSeconds": 5, "securityContext": {"runAsNonRoot": true}},
                         "imagepullpolicy": "Always", "imagePullPolcy": "Always", "nonsense": 1});
    for (ty, value, expected) in ::tests::rows![
        deployment(), container(unknown.clone()) => vec![
            format!("{at}.imagePullPolcy: unknown field; did you mean imagePullPolicy?"),
            format!("{at}.imagepullpolicy: unknown field; did you mean imagePullPolicy?"),
            format!("{at}.livenessProbe.securityContext: unknown field; did you mean {at}.securityContext?"),
            format!("{at}.nonsense: unknown field"),
        ];
        deployment(), json!({"metadata": {"annotations": {"a.b/c": true}, "creationTimestamp": "today"}}) => vec![
            r#"metadata.annotations["a.b/c"]: expected a string, found a boolean (true)"#.to_owned(),
            r#"metadata.creationTimestamp: expected a time such as 2006-01-02T15:04:05Z, found a string ("today")"#.to_owned(),
        ];
        deployment(), json!([]) => vec!["expected a mapping, found a list ([])".to_owned()];
        kind("v1", "Secret").unwrap().ty, json!({"data": {"ok": "aGk=", "bad": "a-b_"}})
            => vec![r#"data.bad: expected a base64 string, found a string ("a-b_")"#.to_owned()];
        crd(), schema(json!({"properties": {
            "a": {"items": {"properties": {"b": {"typ": "string"}}}}, "c": {"additionalProperties": {"nulable": true}},
            "d": {"items": [{"minimum": "1"}], "additionalProperties": "no"}, "e": true,
        }}))
            => vec![
                format!("{of_crd}.a.items.properties.b.typ: unknown field; did you mean type?"),
                format!("{of_crd}.c.additionalProperties.nulable: unknown field; did you mean nullable?"),
                format!("{of_crd}.d.additionalProperties: expected a schema or a boolean, found a string (\"no\")"),
                format!("{of_crd}.d.items[0].minimum: expected a number, found a string (\"1\")"),
                format!("{of_crd}.e: expected a mapping, found a boolean (true)"),
            ];
        csv(), json!({"spec": {"version": "one", "release": ""}}) => vec![
            r#"spec.release: expected a release such as 1 or 2.rc1, found a string ("")"#.to_owned(),
            r#"spec.version: expected a semantic version, found a string ("one")"#.to_owned(),
        ];
        deployment_config(), json!({"nodeselector": {}, "tolerations": [{"key": 1}], "env": []}) => vec![
            "nodeselector: unknown field; did you mean nodeSelector?".to_owned(),
            "tolerations[0].key: expected a string, found an integer (1)".to_owned(),
        ];
    ] {
        assert_rows!(check(&value, ty).iter().map(ToString::to_string).collect::<Vec<_>>() => expected);
        assert_eq!(conformed(value, ty).1, expected);
    }
    let known = json!({"name": "manager", "livenessProbe": {"periodSeconds": 5}});
    assert_rows!(conformed(container(unknown), deployment()).0 => container(known));
}

#[test]
fn wrong_types_are_reported_and_kept() {
    let reported = |problem: &str| vec![format!("spec.template.spec.containers[0].{problem}")];
    assert_each!(|fields, problem| conformed(container(fields.clone()), deployment()) => (container(fields), reported(problem));
        json!({"env": [{"name": "A", "value": true}]}) => "env[0].value: expected a string, found a boolean (true)";
        json!({"env": [{"name": "A", "value": 1}]}) => "env[0].value: expected a string, found an integer (1)";
        json!({"stdin": "false"}) => r#"stdin: expected a boolean, found a string ("false")"#;
        json!({"args": "-v"}) => r#"args: expected a list, found a string ("-v")"#;
        json!({"args": [["-v"]]}) => "args[0]: expected a string, found a list ([…])";
        json!({"resources": [{}]}) => "resources: expected a mapping, found a list ([…])";
        json!({"ports": [{"containerPort": "80"}]}) => r#"ports[0].containerPort: expected an integer, found a string ("80")"#;
        json!({"ports": [{"containerPort": 1.5}]}) => "ports[0].containerPort: expected an integer, found a number (1.5)";
        json!({"ports": [{"containerPort": 4_294_967_296_u64}]})
            => "ports[0].containerPort: expected a 32-bit integer, found an integer (4294967296)";
        json!({"securityContext": {"runAsUser": u64::MAX}})
            => "securityContext.runAsUser: expected a 64-bit integer, found an integer (18446744073709551615)";
        json!({"livenessProbe": {"httpGet": {"port": true}}})
            => "livenessProbe.httpGet.port: expected an integer or a string, found a boolean (true)";
        json!({"resources": {"limits": {"cpu": "half"}}})
            => r#"resources.limits.cpu: expected a quantity such as 500m or 2Gi, found a string ("half")"#;
        json!({"resources": {"limits": {"cpu": {}}}})
            => "resources.limits.cpu: expected a quantity such as 500m or 2Gi, found a mapping ({})";
    );
}

#[test]
fn deep_values_do_not_overflow_the_stack() {
    let deep = (0..512).fold(json!({"type": true}), |inner, _| json!({"items": inner}));
    assert_rows!(conformed(schema(deep), crd()).1[0].ends_with(".items.type: expected a string, found a boolean (true)") => true);
}

#[test]
fn a_cluster_service_version_is_checked_down_to_its_pods() {
    let (value, problems) = conformed(
        json!({"spec": {
            "version": "v1.2.3",
            "install": {"strategy": "deployment", "spec": {"clusterpermissions": [], "deployments": [{
                "name": "a", "spec": {"template": {"spec": {"hostNetwork": 1}}},
            }]}},
            "webhookdefinitions": [{"type": "ValidatingAdmissionWebhook", "targetPort": "https", "timeoutSecond": 1}],
            "customresourcedefinitions": {"owned": [{"specDescriptors": [{"value": {"any": [1]}}]}]}, "maturity": false,
        }}),
        csv(),
    );
    let expected = [
        "spec.install.spec.clusterpermissions: unknown field; did you mean clusterPermissions?",
        "spec.install.spec.deployments[0].spec.template.spec.hostNetwork: expected a boolean, found an integer (1)",
        "spec.maturity: expected a string, found a boolean (false)",
        "spec.webhookdefinitions[0].timeoutSecond: unknown field; did you mean timeoutSeconds?",
    ];
    assert_eq!(problems, expected);
    assert_eq!(value["spec"]["version"], "1.2.3");
    assert_rows!(value["spec"]["webhookdefinitions"] => json!([{"type": "ValidatingAdmissionWebhook", "targetPort": "https"}]));
}

#[test]
fn a_part_of_a_type_can_be_checked_alone() {
    let Some(pod @ Type::Struct(_)) = deployment().at(&["spec", "template", "spec"]) else {
        panic!("no such field");
    };
    let kind = ProblemKind::Mismatch {
        expected: "a string",
        found: "an integer",
        value: "1".into(),
    };
    let mut value = json!({"containers": [{"image": 1}]});
    assert_rows!(conform(&mut value, pod) => [Problem { path: Path::from(["containers"]).index(0).key("image"), kind }]);
    assert_eq!(deployment().at(&["spec", "templates"]), None);
    assert_rows!(deployment().at(&["spec", "template", "metadata", "labels", "*"]) => Some(Type::String));
}

#[test]
fn problems_and_excerpts_are_bounded() {
    let long = "ä".repeat(100_000);
    let (_, problems) = conformed(json!({"spec": {"replicas": long}}), deployment());
    assert!(problems[0].chars().count() < 150, "{}", problems[0]);

    let many = Value::Object((0..5000).map(|i| (format!("f{i}"), json!(1))).collect());
    let (value, problems) = conformed(many, deployment());
    assert_eq!((value, problems.len()), (json!({}), MAX_PROBLEMS));
}
