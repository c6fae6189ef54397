//! What a good bundle becomes.

use convert::{Code, Level, Options, overlay::DeploymentConfig};
use manifests::yaml;
use serde_json::{Value, json};

use super::fixture::{ANNOTATIONS, Bundle, CRD, CSV, REMOVED, findings, names, object};

/// These names are in clusters: a change here orphans what was installed.
#[test]
fn objects_come_in_the_order_in_which_they_can_be_applied() {
    assert_eq!(
        names(&Bundle::good().convert()),
        [
            "Namespace tide-system",
            "CustomResourceDefinition tides.sea.example.com",
            "ServiceAccount tide-system/tide",
            "ClusterRole tide.v1.4.0-tide-4au2us5cyf7i3",
            "ClusterRole tide.v1.4.0-tide-h1xcshjx854m2",
            "ClusterRoleBinding tide.v1.4.0-tide-4au2us5cyf7i3",
            "ClusterRoleBinding tide.v1.4.0-tide-h1xcshjx854m2",
            "Deployment tide-system/tide-operator",
        ]
    );
}

// parity: convert-9
#[test]
fn the_same_bundle_gives_the_same_bytes_whatever_its_files_are_called() {
    let text = |bundle: &Bundle| {
        let objects = bundle.convert().objects.unwrap();
        objects
            .iter()
            .map(|object| yaml::to_string(object).unwrap())
            .collect::<String>()
    };
    let good = Bundle::good();
    let renamed = Bundle::good()
        .file(CSV, REMOVED)
        .file(CRD, REMOVED)
        .file("manifests/0.yaml", good.crd.to_string())
        .file("manifests/1.json", good.csv.to_string());
    let list = Bundle::good().file(CSV, REMOVED).file(
        CRD,
        json!({"apiVersion": "v1", "kind": "List", "items": [good.csv, good.crd]}).to_string(),
    );
    let one_file = Bundle::good()
        .file(CRD, REMOVED)
        .file(CSV, format!("---\n{}\n---\n{}\n", good.csv, good.crd));
    for other in [&good, &renamed, &list, &one_file] {
        assert_eq!(text(&good), text(other));
    }
}

// parity: platform-22, convert-4
#[test]
fn a_deployment_gets_what_olm_gives_it() {
    let conversion = Bundle::good().convert();
    assert_eq!(
        *object(&conversion, "Deployment", "tide-operator"),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "tide-operator", "namespace": "tide-system", "labels": {"part": "operator"}},
            "spec": {
                "replicas": 1,
                "revisionHistoryLimit": 1,
                "selector": {"matchLabels": {"app": "tide"}},
                "template": {
                    "metadata": {
                        "labels": {"app": "tide"},
                        "annotations": {
                            "alm-examples": "[]",
                            "support": "own",
                            "olm.targetNamespaces": "",
                        },
                    },
                    "spec": {
                        "serviceAccountName": "tide",
                        "containers": [{
                            "name": "manager",
                            "image": "quay.io/example/tide:v1.4.0",
                            "env": [{"name": "EMPTY"}],
                            "resources": {"requests": {"cpu": "1"}},
                        }],
                    },
                },
            },
        })
    );
}

// parity: convert-4
#[test]
fn pods_that_read_the_operators_namespace_get_it() {
    let env = json!([{"name": "OPERATOR_NAMESPACE",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['olm.operatorNamespace']"}}}]);
    let bundle = Bundle::good().csv(
        "/spec/install/spec/deployments/0/spec/template/spec/containers/0/env",
        env,
    );
    let conversion = bundle.convert();
    let annotations = &object(&conversion, "Deployment", "tide-operator")["spec"]["template"]["metadata"]
        ["annotations"];
    assert_eq!(annotations["olm.operatorNamespace"], "tide-system");
}

// parity: convert-5
#[test]
fn namespaces_of_the_installation_win_over_annotations() {
    let stale = |bundle: Bundle| {
        let annotations = json!({"olm.operatorNamespace": "stale", "olm.targetNamespaces": "stale", "support": "yes"});
        bundle.csv("/metadata/annotations", annotations)
    };
    let env = json!([{"name": "OPERATOR_NAMESPACE",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['olm.operatorNamespace']"}}}]);
    let pod = "/spec/install/spec/deployments/0/spec/template";
    let reader = Bundle::good().csv(&format!("{pod}/spec/containers/0/env"), env);
    let template = Bundle::good().csv(
        &format!("{pod}/metadata/annotations"),
        json!({"olm.operatorNamespace": "own", "olm.targetNamespaces": "own"}),
    );
    for (bundle, expected) in [
        (stale(Bundle::good()), None),
        (stale(reader), Some("tide-system")),
        (stale(template), Some("tide-system")),
    ] {
        let conversion = bundle.convert();
        let deployment = object(&conversion, "Deployment", "tide-operator");
        let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
        assert_eq!(annotations["olm.targetNamespaces"], "");
        assert_eq!(
            annotations
                .get("olm.operatorNamespace")
                .and_then(Value::as_str),
            expected
        );
        assert!(annotations.get("support").is_some(), "{annotations}");
    }
}

// parity: convert-3
#[test]
fn permissions_become_cluster_wide_and_may_look_at_namespaces() {
    let conversion = Bundle::good().convert();
    let rules: Vec<&Value> = conversion
        .objects
        .as_ref()
        .unwrap()
        .iter()
        .filter(|object| object.kind() == "ClusterRole")
        .map(|object| &object.value()["rules"])
        .collect();
    let namespaces =
        json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]});
    let promoted =
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}, namespaces]);
    let native =
        json!([{"apiGroups": ["sea.example.com"], "resources": ["tides"], "verbs": ["*"]}]);
    assert!(
        rules.contains(&&promoted) && rules.contains(&&native) && rules.len() == 2,
        "{rules:?}"
    );
    assert_eq!(
        findings(&conversion, Level::Change)
            .iter()
            .filter(|finding| finding.0 == Code::Permissions)
            .count(),
        1,
        "only the promoted one changed"
    );
}

// parity: convert-11
#[test]
fn identical_permissions_become_one() {
    let entry = Bundle::good().csv["spec"]["install"]["spec"]["clusterPermissions"][0].clone();
    let bundle = Bundle::good().csv(
        "/spec/install/spec/clusterPermissions",
        json!([entry, entry]),
    );
    assert_eq!(names(&bundle.convert()), names(&Bundle::good().convert()));
}

// parity: convert-10
#[test]
fn two_packages_with_the_same_rules_do_not_share_names() {
    let other = Bundle::good().csv("/metadata/name", json!("tide-pro.v1.4.0"));
    let roles = |bundle: &Bundle| {
        names(&bundle.convert())
            .into_iter()
            .filter(|n| n.starts_with("ClusterRole "))
            .collect::<Vec<_>>()
    };
    assert!(
        roles(&Bundle::good())
            .iter()
            .all(|name| !roles(&other).contains(name))
    );
}

// parity: convert-16
#[test]
fn accounts_are_made_for_whoever_uses_one_and_shipped_ones_stay() {
    let shipped = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tide"},
        "imagePullSecrets": [{"name": "pull"}]});
    let bundle = Bundle::good()
        .csv(
            "/spec/install/spec/deployments/0/spec/template/spec/serviceAccountName",
            json!("runner"),
        )
        .csv(
            "/spec/install/spec/clusterPermissions/0/serviceAccountName",
            json!(""),
        )
        .file("manifests/account.yaml", shipped.to_string());
    let conversion = bundle.convert();
    let accounts: Vec<_> = names(&conversion)
        .into_iter()
        .filter(|name| name.starts_with("ServiceAccount"))
        .collect();
    assert_eq!(
        accounts,
        [
            "ServiceAccount tide-system/runner",
            "ServiceAccount tide-system/tide"
        ]
    );
    assert_eq!(
        object(&conversion, "ServiceAccount", "tide")["imagePullSecrets"],
        json!([{"name": "pull"}])
    );
    let subjects: Vec<_> = conversion
        .objects
        .as_ref()
        .unwrap()
        .iter()
        .filter(|object| object.kind() == "ClusterRoleBinding")
        .map(|object| object.value()["subjects"][0]["name"].as_str().unwrap())
        .collect();
    assert!(
        subjects.contains(&"default"),
        "an empty name is the default account: {subjects:?}"
    );
}

// parity: check-5
#[test]
fn the_manifests_folder_is_the_annotated_one() {
    let good = Bundle::good();
    let moved = |annotation: &str| {
        Bundle::good()
            .file(CSV, REMOVED)
            .file(CRD, REMOVED)
            .file("deploy/olm/csv.yaml", good.csv.to_string())
            .file("deploy/olm/crd.yaml", good.crd.to_string())
            .with(|bundle| {
                let text =
                    bundle.files[ANNOTATIONS].replace("manifests.v1: manifests/", annotation);
                bundle.files.insert(ANNOTATIONS.into(), text);
            })
    };
    assert_eq!(
        names(&moved("manifests.v1: deploy/olm/").convert()),
        names(&good.convert())
    );
    assert_eq!(
        names(&moved("manifests.v1: /deploy//olm").convert()),
        names(&good.convert())
    );
    for outside in ["manifests.v1: ../deploy", "manifests.v1: deploy/../../x"] {
        let conversion = moved(outside).convert();
        let errors = findings(&conversion, Level::Error);
        assert!(
            errors
                .iter()
                .any(|finding| finding.0 == Code::BundleAnnotation),
            "{outside}: {errors:?}"
        );
    }
    for useless in ["nowhere/", ".", "/", "./"] {
        let bundle = Bundle::good().with(|bundle| {
            let text = bundle.files[ANNOTATIONS].replace(
                "manifests.v1: manifests/",
                &format!("manifests.v1: {useless}"),
            );
            bundle.files.insert(ANNOTATIONS.into(), text);
        });
        assert_eq!(
            names(&bundle.convert()),
            names(&good.convert()),
            "{useless}"
        );
    }
}

// parity: convert-20
#[test]
fn a_deployment_config_changes_every_deployment() {
    let options = Options {
        deployment_config: Some(
            DeploymentConfig::try_from(json!({"nodeSelector": {"disk": "ssd"}})).unwrap(),
        ),
        ..Options::default()
    };
    let conversion = Bundle::good().convert_with(&options);
    let deployment = object(&conversion, "Deployment", "tide-operator");
    assert_eq!(
        deployment["spec"]["template"]["spec"]["nodeSelector"],
        json!({"disk": "ssd"})
    );
}

// parity: platform-21, convert-18
#[test]
fn an_operator_is_given_its_condition_where_there_are_such_objects() {
    let has = |conversion: &convert::Conversion| {
        let objects = conversion.objects.as_ref().unwrap().iter();
        let kinds = objects.map(manifests::object::Object::kind);
        kinds
            .filter(|kind| ["OperatorCondition", "Role", "RoleBinding"].contains(kind))
            .count()
    };
    let without = Bundle::good().convert();
    assert_eq!(has(&without), 0);
    let options = Options {
        operator_condition: true,
        // The name that is not the operator's would be written to in vain.
        deployment_config: Some(
            DeploymentConfig::try_from(
                json!({"env": [{"name": "OPERATOR_CONDITION_NAME", "value": "other"}]}),
            )
            .unwrap(),
        ),
        ..Options::default()
    };
    let conversion = Bundle::good().convert_with(&options);
    assert_eq!(has(&conversion), 3);
    let condition = object(&conversion, "OperatorCondition", "tide.v1.4.0");
    let namespace = &condition["metadata"]["namespace"];
    assert_eq!(condition["apiVersion"], "operators.coreos.com/v2");
    let of_kind = |kind: &str| {
        let objects = conversion.objects.as_ref().unwrap();
        let found = objects.iter().find(|object| object.kind() == kind);
        found.unwrap().value()
    };
    let (role, binding) = (of_kind("Role"), of_kind("RoleBinding"));
    assert_eq!(role["rules"][0]["resourceNames"], json!(["tide.v1.4.0"]));
    assert_eq!(&role["metadata"]["namespace"], namespace);
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "tide", "namespace": namespace}])
    );
    let deployment = object(&conversion, "Deployment", "tide-operator");
    assert_eq!(
        deployment["spec"]["template"]["spec"]["containers"][0]["env"],
        json!([{"name": "EMPTY"}, {"name": "OPERATOR_CONDITION_NAME", "value": "tide.v1.4.0"}])
    );

    // Nobody would write it.
    let conversion = Bundle::good()
        .csv("/spec/install/spec/deployments", json!([]))
        .convert_with(&options);
    assert_eq!(has(&conversion), 0);
}

#[test]
fn what_an_apiserver_refuses_in_a_deployment_is_told() {
    let template = "/spec/install/spec/deployments/0/spec/template/spec";
    let twice = json!([{"name": "A"}, {"name": "A"}]);
    for (pointer, value, path) in tests::rows![
        format!("{template}/containers"), json!([]) => "template.spec";
        format!("{template}/containers/0/env"), twice.clone() => "template.spec.containers[0].env[1]";
        format!("{template}/volumes"), twice => "template.spec.volumes[1]";
        format!("{template}/initContainers"), json!([{"name": "manager"}]) => "template.spec.containers[0]";
        "/spec/install/spec/deployments/0/spec/selector".into(), json!({}) => "";
        "/spec/install/spec/deployments/0/spec/selector/matchLabels".into(), json!({"other": "x"}) => "selector";
    ] {
        let conversion = Bundle::good().csv(&pointer, value).convert();
        assert!(conversion.objects.is_some());
        let full = format!("spec.install.spec.deployments[0].spec.{path}");
        let expected = (
            Code::WrongShape,
            CSV.to_owned(),
            full.trim_end_matches('.').to_owned(),
        );
        let warnings = findings(&conversion, Level::Warning);
        assert!(
            warnings.contains(&expected),
            "expected {expected:?}, found {warnings:?}"
        );
    }
}

#[test]
fn a_bundle_without_a_deployment_is_converted_with_a_word() {
    let conversion = Bundle::good()
        .csv("/spec/install/spec/deployments", json!([]))
        .convert();
    assert!(conversion.objects.is_some());
    let place = "spec.install.spec.deployments".to_owned();
    assert_eq!(
        findings(&conversion, Level::Warning),
        [(Code::NoDeployment, CSV.to_owned(), place)]
    );
}

/// No renderer reads dependencies, so a mistake there stops nobody from converting.
#[test]
fn bad_dependencies_are_a_warning() {
    for text in ["dependencies: {a: b}", "dependencies: [{value: 1}]"] {
        let conversion = Bundle::good()
            .file("metadata/dependencies.yaml", text)
            .convert();
        assert!(conversion.objects.is_some());
        assert_eq!(
            findings(&conversion, Level::Warning)[0].0,
            Code::Dependency,
            "{text}"
        );
    }
}
