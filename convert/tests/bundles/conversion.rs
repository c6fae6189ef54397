//! What a good bundle becomes.

use super::fixture::{ANNOTATIONS, Bundle, CRD, CSV, REMOVED, findings, object};
use convert::{Class, Code, KEEP, Level, NamespaceObject, Options, overlay::DeploymentConfig};
use manifests::yaml;
use serde_json::{Value, json};

fn names(conversion: &convert::Conversion) -> Vec<String> {
    conversion
        .objects
        .as_ref()
        .unwrap()
        .iter()
        .map(|object| object.identity().to_string())
        .collect()
}

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

#[test]
fn identical_permissions_become_one() {
    let entry = Bundle::good().csv["spec"]["install"]["spec"]["clusterPermissions"][0].clone();
    let bundle = Bundle::good().csv(
        "/spec/install/spec/clusterPermissions",
        json!([entry, entry]),
    );
    assert_eq!(names(&bundle.convert()), names(&Bundle::good().convert()));
}

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

#[test]
fn the_namespace_is_the_callers_else_the_suggested_one_else_the_packages() {
    let suggested = Bundle::good().csv(
        "/metadata/annotations/operatorframework.io~1suggested-namespace",
        json!("sea"),
    );
    let caller = Options {
        install_namespace: Some("mine".into()),
        ..Options::default()
    };
    for (bundle, options, namespace) in [
        (&Bundle::good(), &Options::default(), "tide-system"),
        (&suggested, &Options::default(), "sea"),
        (&suggested, &caller, "mine"),
    ] {
        let conversion = bundle.convert_with(options);
        assert_eq!(conversion.report.facts.install_namespace, namespace);
        let metadata = &object(&conversion, "Namespace", namespace)["metadata"];
        assert_eq!(metadata["annotations"], json!({KEEP: "true"}));
        for object in conversion.objects.as_ref().unwrap() {
            assert!(
                object.namespace().is_empty() || object.namespace() == namespace,
                "{}",
                object.identity()
            );
        }
    }
    let omitted = Bundle::good().convert_with(&Options {
        namespace_object: NamespaceObject::Omit,
        ..Options::default()
    });
    assert!(
        !names(&omitted)
            .iter()
            .any(|name| name.starts_with("Namespace"))
    );
}

#[test]
fn the_suggested_template_gives_the_namespace_its_labels() {
    let template = json!({"kind": "Namespace", "metadata": {
        "name": "tide-system",
        "labels": {"pod-security.kubernetes.io/enforce": "restricted", "monitored": true, "not legal!": "x", "list": []},
        "annotations": {"note": "n"},
        "ownerReferences": [{}],
    }});
    let key = "/metadata/annotations/operatorframework.io~1suggested-namespace-template";
    let conversion = Bundle::good()
        .csv(key, template.to_string().into())
        .convert();
    assert_eq!(
        object(&conversion, "Namespace", "tide-system")["metadata"],
        json!({
            "name": "tide-system",
            "labels": {"pod-security.kubernetes.io/enforce": "restricted", "monitored": "true"},
            "annotations": {"note": "n", KEEP: "true"},
        })
    );
    let broken = Bundle::good().csv(key, json!("{")).convert();
    assert_eq!(findings(&broken, Level::Warning).len(), 1);
    assert!(broken.objects.is_some());
}

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

#[test]
fn other_objects_go_where_their_kind_lives() {
    let make = |api: &str, kind: &str, namespace: &str| {
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        object.to_string()
    };
    for (api, kind, stated, expected) in [
        ("v1", "ConfigMap", "", "tide-system"),
        ("v1", "ConfigMap", "elsewhere", "tide-system"),
        ("batch/v1", "CronJob", "", "tide-system"),
        (
            "autoscaling.k8s.io/v1",
            "VerticalPodAutoscaler",
            "",
            "tide-system",
        ),
        (
            "monitoring.coreos.com/v1",
            "ServiceMonitor",
            "",
            "tide-system",
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", "", ""),
        ("scheduling.k8s.io/v1", "PriorityClass", "stray", ""),
        ("console.openshift.io/v1", "ConsoleLink", "", ""),
        ("sea.example.com/v1", "Tide", "", "tide-system"),
        ("unknown.example.com/v1", "Thing", "", ""),
        ("unknown.example.com/v1", "Thing", "its-own", "tide-system"),
    ] {
        let conversion = Bundle::good()
            .file("manifests/x.yaml", make(api, kind, stated))
            .convert();
        let found = object(&conversion, kind, "x")["metadata"]["namespace"]
            .as_str()
            .unwrap_or_default();
        assert_eq!(found, expected, "{kind} in {stated:?}");
        let unknown = findings(&conversion, Level::Warning)
            .iter()
            .any(|finding| finding.0 == Code::UnknownScope);
        assert_eq!(unknown, kind == "Thing", "{kind}");
    }
}

#[test]
fn kinds_that_olm_refuses_are_installed_with_a_word() {
    let job =
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "x"}}).to_string();
    let conversion = Bundle::good().file("manifests/x.yaml", job).convert();
    let warnings = findings(&conversion, Level::Warning);
    assert_eq!(
        warnings,
        [(
            Code::UnsupportedKind,
            "manifests/x.yaml".to_owned(),
            String::new()
        )]
    );
}

#[test]
fn what_a_cluster_writes_itself_and_what_no_api_knows_goes() {
    let service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: x\n  uid: u\n  creationTimestamp: null\n\
                   spec:\n  port: 80\nstatus:\n  loadBalancer: {}\n";
    let conversion = Bundle::good().file("manifests/x.yaml", service).convert();
    assert_eq!(
        *object(&conversion, "Service", "x"),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "tide-system"}, "spec": {}})
    );
    let warnings = findings(&conversion, Level::Warning);
    assert_eq!(
        warnings,
        [(
            Code::UnknownField,
            "manifests/x.yaml".to_owned(),
            "spec.port".to_owned()
        )]
    );
}

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

#[test]
fn facts_tell_what_others_need() {
    let facts = Bundle::good()
        .csv(
            "/metadata/annotations/olm.skipRange",
            json!(">=1.0.0 <1.4.0"),
        )
        .file(
            "metadata/dependencies.yaml",
            "dependencies:\n- type: olm.package\n  value: {packageName: moon, version: '>=1.0.0'}\n\
             - type: olm.gvk\n  value: {group: sun.example.com, version: v1, kind: Sun}\n",
        )
        .convert()
        .report
        .facts;
    let facts = serde_json::to_value(facts).unwrap();
    assert_eq!(
        facts,
        json!({
            "package": "tide",
            "name": "tide.v1.4.0",
            "version": "1.4.0",
            "channels": ["stable", "fast"],
            "defaultChannel": "stable",
            "replaces": "tide.v1.3.0",
            "skips": ["tide.v1.3.1"],
            "skipRange": ">=1.0.0 <1.4.0",
            "minKubeVersion": "1.25.0",
            "installModes": ["AllNamespaces"],
            "installNamespace": "tide-system",
            "providedApis": [{"group": "sea.example.com", "version": "v1", "kind": "Tide"}],
            "requiredApis": [
                {"group": "sky.example.com", "version": "v1", "kind": "Moon"},
                {"group": "sun.example.com", "version": "v1", "kind": "Sun"},
            ],
            "requiredPackages": {"moon": ">=1.0.0"},
            "images": [
                {"image": "quay.io/example/gauge:v1", "name": "gauge"},
                {"image": "quay.io/example/tide:v1.4.0"},
            ],
            "properties": [],
            "dependencies": [
                {"type": "olm.package", "value": {"packageName": "moon", "version": ">=1.0.0"}},
                {"type": "olm.gvk", "value": {"group": "sun.example.com", "kind": "Sun", "version": "v1"}},
            ],
        })
    );
}

#[test]
fn max_open_shift_version_is_read_from_every_spelling_and_4_10_stays_4_10() {
    let max = |bundle: Bundle| {
        let facts = bundle.convert().report.facts;
        let max = facts.max_open_shift_version.expect("a version");
        (max.raw, max.version.map(|v| v.to_string()), max.problem)
    };
    let fine = |raw: &str, version: &str| (raw.to_owned(), Some(version.to_owned()), None);
    let file = |value: &str| {
        Bundle::good().file(
            "metadata/properties.yaml",
            format!("properties:\n- type: olm.maxOpenShiftVersion\n  value: {value}\n"),
        )
    };
    let annotation = |key: &str, value: &str| {
        Bundle::good().csv(&format!("/metadata/annotations/{key}"), json!(value))
    };
    assert_eq!(max(file("4.10")), fine("4.10", "4.10"));
    assert_eq!(max(file("\"4.10\"")), fine("4.10", "4.10"));
    assert_eq!(max(file("4.1")), fine("4.1", "4.1"));
    let list = r#"[{"type": "olm.maxOpenShiftVersion", "value": 4.10}]"#;
    assert_eq!(
        max(annotation("olm.properties", list)),
        fine("4.10", "4.10")
    );
    let projected = r#"{"properties": [{"type": "olm.maxOpenShiftVersion", "value": "4.20"}]}"#;
    assert_eq!(
        max(annotation("operatorframework.io~1properties", projected)),
        fine("4.20", "4.20")
    );
    assert_eq!(
        max(annotation(
            "operators.coreos.com~1maxOpenShiftVersion",
            "4.8"
        )),
        fine("4.8", "4.8")
    );
    // The property and the annotation differ: the lower one protects the cluster.
    let both = file("\"4.12\"").csv(
        "/metadata/annotations/operators.coreos.com~1maxOpenShiftVersion",
        json!("4.9"),
    );
    assert_eq!(max(both), fine("4.9", "4.9"));
    // The same text twice is one property, two spellings are two.
    let repeated = file("\"4.8\"").csv(
        "/metadata/annotations/olm.properties",
        json!(list.replace("4.10", "\"4.8\"")),
    );
    assert_eq!(max(repeated), fine("4.8", "4.8"));
    let two = max(file("\"4.10\"").csv("/metadata/annotations/olm.properties", json!(list)));
    assert!(two.1.is_none() && two.2.unwrap().contains("more than one"));
    assert!(
        max(file("\"latest\""))
            .2
            .unwrap()
            .contains("failed to parse")
    );
    let unquoted = file("4.10").convert();
    assert_eq!(
        findings(&unquoted, Level::Warning),
        [(
            Code::UnquotedNumber,
            "metadata/properties.yaml".to_owned(),
            "properties[0].value".to_owned()
        )]
    );
}

#[test]
fn properties_of_the_file_join_the_annotation_of_the_pods_in_their_spelling() {
    let bundle = Bundle::good()
        .csv(
            "/metadata/annotations/olm.properties",
            json!(r#"[ {"type":"a", "value": 1.50 } ]"#),
        )
        .file(
            "metadata/properties.yaml",
            "properties:\n- type: b\n  value:\n    version: 4.10\n    range: '<2 & >1'\n",
        );
    let conversion = bundle.convert();
    let annotations = &object(&conversion, "Deployment", "tide-operator")["spec"]["template"]["metadata"]
        ["annotations"];
    assert_eq!(
        annotations["olm.properties"],
        r#"[{"type":"a","value":1.50},{"type":"b","value":{"range":"\u003c2 \u0026 \u003e1","version":4.10}}]"#
    );
}

#[test]
fn plain_content_is_applied_as_it_is() {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "own"}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("b")]});
    let mut files = manifests::content::Builder::new(manifests::content::Limits::default());
    let text = format!("# comment\n---\n---\n{}\n---\n{list}\n", map("a"));
    files
        .add("manifests/all.yaml", 0o644, &mut text.as_bytes())
        .unwrap();
    let content = files.finish();
    assert_eq!(convert::class(&content), Class::Plain);
    assert_eq!(
        names(&convert::plain(&content, &Options::default())),
        ["ConfigMap own/a", "ConfigMap own/b"]
    );
}

#[test]
fn a_shipped_namespace_is_merged_and_every_namespace_is_kept() {
    let namespace = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"shipped": "yes"}}})
            .to_string()
    };
    let bundle = Bundle::good()
        .file("manifests/own.yaml", namespace("tide-system"))
        .file("manifests/other.yaml", namespace("other"));
    let conversion = bundle.convert();
    for name in ["tide-system", "other"] {
        assert_eq!(
            object(&conversion, "Namespace", name)["metadata"],
            json!({"name": name, "labels": {"shipped": "yes"}, "annotations": {KEEP: "true"}})
        );
    }
    let omitted = bundle.convert_with(&Options {
        namespace_object: NamespaceObject::Omit,
        ..Options::default()
    });
    let namespaces = names(&omitted)
        .into_iter()
        .filter(|name| name.starts_with("Namespace"));
    assert_eq!(namespaces.collect::<Vec<_>>(), ["Namespace other"]);
}

#[test]
fn an_old_target_keeps_old_apis_and_their_scope() {
    let options = Options {
        kube_version: "1.15".parse().unwrap(),
        ..Options::default()
    };
    for (api, kind) in [
        ("policy/v1beta1", "PodDisruptionBudget"),
        ("batch/v1beta1", "CronJob"),
        ("extensions/v1beta1", "Ingress"),
        ("rbac.authorization.k8s.io/v1beta1", "Role"),
    ] {
        let object_text =
            json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}}).to_string();
        let conversion = Bundle::good()
            .file("manifests/x.yaml", object_text)
            .convert_with(&options);
        let found = object(&conversion, kind, "x");
        assert_eq!(found["apiVersion"], api);
        assert_eq!(found["metadata"]["namespace"], "tide-system", "{kind}");
    }
}

#[test]
fn a_bundle_that_only_mentions_the_csv_kind_is_plain() {
    let content = |text: &str| {
        let mut files = manifests::content::Builder::new(manifests::content::Limits::default());
        files
            .add("manifests/x.yaml", 0o644, &mut text.as_bytes())
            .unwrap();
        files.finish()
    };
    for (text, class) in [
        (
            "kind: CustomResourceDefinition\nspec: {names: {kind: ClusterServiceVersion}}\n",
            Class::Plain,
        ),
        ("kind: ClusterServiceVersion\n", Class::Registry),
        (
            "kind: List\nitems:\n- kind: ClusterServiceVersion\n",
            Class::Registry,
        ),
    ] {
        assert_eq!(convert::class(&content(text)), class, "{text}");
    }
}

#[test]
fn lists_of_every_form_become_their_items() {
    for (list, expected) in [
        ("{apiVersion: v1, kind: List}", 0),
        ("{apiVersion: v1, kind: List, items: null}", 0),
        (
            "{apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: a}}, {metadata: {name: b}}]}",
            2,
        ),
    ] {
        let conversion = Bundle::good().file("manifests/x.yaml", list).convert();
        let maps = names(&conversion)
            .into_iter()
            .filter(|name| name.starts_with("ConfigMap"))
            .count();
        assert_eq!(maps, expected, "{list}");
    }
}

#[test]
fn what_an_apiserver_refuses_in_a_deployment_is_told() {
    let template = "/spec/install/spec/deployments/0/spec/template/spec";
    let twice = json!([{"name": "A"}, {"name": "A"}]);
    for (pointer, value, path) in [
        (format!("{template}/containers"), json!([]), "template.spec"),
        (
            format!("{template}/containers/0/env"),
            twice.clone(),
            "template.spec.containers[0].env[1]",
        ),
        (
            format!("{template}/volumes"),
            twice,
            "template.spec.volumes[1]",
        ),
        (
            format!("{template}/initContainers"),
            json!([{"name": "manager"}]),
            "template.spec.containers[0]",
        ),
        (
            "/spec/install/spec/deployments/0/spec/selector".into(),
            json!({}),
            "",
        ),
        (
            "/spec/install/spec/deployments/0/spec/selector/matchLabels".into(),
            json!({"other": "x"}),
            "selector",
        ),
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
