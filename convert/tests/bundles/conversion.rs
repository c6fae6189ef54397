//! Conversion of a valid bundle.

use super::*;

// parity: platform-22, convert-3, convert-4
#[test]
fn valid_bundle_is_converted_as_by_olm() {
    let conversion = Bundle::good().convert();
    // In applicable order. Clusters contain these names: a change would orphan installed objects.
    assert_rows!(names(&conversion) => [
        "Namespace tide-system",
        "CustomResourceDefinition tides.sea.example.com",
        "ServiceAccount tide-system/tide",
        "ClusterRole tide.v1.4.0-tide-4au2us5cyf7i3",
        "ClusterRole tide.v1.4.0-tide-h1xcshjx854m2",
        "ClusterRoleBinding tide.v1.4.0-tide-4au2us5cyf7i3",
        "ClusterRoleBinding tide.v1.4.0-tide-h1xcshjx854m2",
        "Deployment tide-system/tide-operator",
    ]);
    // The Deployment has the fields that OLM sets.
    assert_rows!(*object(&conversion, "Deployment", "tide-operator") => json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "tide-operator", "namespace": "tide-system", "labels": {"part": "operator"}},
        "spec": {
            "replicas": 1, "revisionHistoryLimit": 1, "selector": {"matchLabels": {"app": "tide"}},
            "template": {
                "metadata": {"labels": {"app": "tide"}, "annotations": {
                    "alm-examples": "[]", "support": "own", "olm.targetNamespaces": "",
                }},
                "spec": {"serviceAccountName": "tide", "containers": [{
                    "name": "manager", "image": "quay.io/example/tide:v1.4.0", "env": [{"name": "EMPTY"}],
                    "resources": {"requests": {"cpu": "1"}},
                }]},
            },
        },
    }));
    // Permissions become cluster-wide, and then include reading namespaces.
    let roles = objects(&conversion).iter();
    let roles = roles.filter(|object| object.kind() == "ClusterRole");
    let rules: Vec<&Value> = roles.map(|object| &object.value()["rules"]).collect();
    let promoted = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
    ]);
    let native =
        json!([{"apiGroups": ["sea.example.com"], "resources": ["tides"], "verbs": ["*"]}]);
    assert!(rules.len() == 2 && [promoted, native].iter().all(|rule| rules.contains(&rule)));
    let changes = findings(&conversion, Level::Change).into_iter();
    assert_rows!(changes.filter(|change| change.starts_with("Permissions ")).count() => 1, "only the promoted one changed");
}

// parity: convert-9
#[test]
fn output_does_not_depend_on_file_names() {
    let text = |bundle: &Bundle| {
        let conversion = bundle.convert();
        let texts = objects(&conversion).iter().map(yaml::to_string);
        texts.map(Result::unwrap).collect::<String>()
    };
    let [csv, crd] = [CSV, CRD].map(|path| Bundle::good().json(path));
    let removed = || Bundle::good().without(CSV).without(CRD);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [csv, crd]});
    let renamed = removed().file("manifests/0.yaml", &crd);
    for other in [
        renamed.file("manifests/1.json", &csv),
        removed().file(CRD, list),
        removed().file(CSV, format!("---\n{csv}\n---\n{crd}\n")),
    ] {
        assert_eq!(text(&Bundle::good()), text(&other));
    }
}

// parity: convert-4, convert-5
#[test]
fn install_namespaces_precede_annotations() {
    let stale = |bundle: Bundle| {
        let annotations = json!({"olm.operatorNamespace": "stale", "olm.targetNamespaces": "stale", "support": "yes"});
        bundle.csv("/metadata/annotations", annotations)
    };
    let pod = format!("{DEPLOYMENTS}/0/spec/template");
    let with = |field: &str, value| Bundle::good().csv(&format!("{pod}/{field}"), value);
    let env = json!([{"name": "OPERATOR_NAMESPACE",
        "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['olm.operatorNamespace']"}}}]);
    let own = json!({"olm.operatorNamespace": "own", "olm.targetNamespaces": "own"});
    for (bundle, expected) in tests::rows![
        stale(Bundle::good()) => None;
        with("spec/containers/0/env", env.clone()) => Some("tide-system");
        stale(with("spec/containers/0/env", env)) => Some("tide-system");
        stale(with("metadata/annotations", own)) => Some("tide-system");
    ] {
        let conversion = bundle.convert();
        let annotations = &template(&conversion)["metadata"]["annotations"];
        assert_eq!(annotations["olm.targetNamespaces"], "");
        assert_eq!(annotations["olm.operatorNamespace"].as_str(), expected);
        assert!(annotations.get("support").is_some(), "{annotations}");
    }
}

// parity: convert-10, convert-11
#[test]
fn names_of_roles_depend_on_package_and_rules() {
    let good = Bundle::good();
    let pointer = "/spec/install/spec/clusterPermissions";
    let entry = &good.json(CSV)["spec"]["install"]["spec"]["clusterPermissions"][0];
    assert_rows!(names(&good.clone().csv(pointer, json!([entry, entry])).convert()) => names(&good.convert()));
    let other = good.clone().csv("/metadata/name", json!("tide-pro.v1.4.0"));
    let [good, other] = [&good, &other].map(|bundle| names_of(&bundle.convert(), "ClusterRole "));
    assert!(!good.is_empty() && good.iter().all(|name| !other.contains(name)));
}

// parity: convert-16
#[test]
fn used_accounts_are_created_and_shipped_ones_kept() {
    let shipped = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tide"},
        "imagePullSecrets": [{"name": "pull"}]});
    let account = format!("{DEPLOYMENTS}/0/spec/template/spec/serviceAccountName");
    let of_permissions = "/spec/install/spec/clusterPermissions/0/serviceAccountName";
    let bundle = extra(&shipped).csv(&account, json!("runner"));
    let conversion = bundle.csv(of_permissions, json!("")).convert();
    let expected = "ServiceAccount tide-system/runner, ServiceAccount tide-system/tide";
    assert_eq!(names_of(&conversion, "ServiceAccount").join(", "), expected);
    assert_rows!(object(&conversion, "ServiceAccount", "tide")["imagePullSecrets"] => shipped["imagePullSecrets"]);
    let bindings = objects(&conversion).iter();
    let mut bindings = bindings.filter(|object| object.kind() == "ClusterRoleBinding");
    // An empty name denotes the default ServiceAccount.
    assert!(bindings.any(|binding| binding.value()["subjects"][0]["name"] == "default"));
}

// parity: check-5
#[test]
fn manifests_directory_is_the_annotated_one() {
    let good = Bundle::good();
    let moved = Bundle::good()
        .without(CSV)
        .without(CRD)
        .file("deploy/olm/csv.yaml", good.json(CSV))
        .file("deploy/olm/crd.yaml", good.json(CRD));
    let named = |bundle: &Bundle, dir: &str| {
        let annotations = &good.0[ANNOTATIONS];
        let text = annotations.replace("v1: manifests/", &format!("v1: {dir}"));
        bundle.clone().file(ANNOTATIONS, text).convert()
    };
    for (bundle, dirs) in tests::rows![
        &moved => &["deploy/olm/", "/deploy//olm"][..];
        // A value that names no directory has no effect.
        &good => &["nowhere/", ".", "/", "./"];
    ] {
        for dir in dirs {
            assert_rows!(names(&named(bundle, dir)) => names(&good.convert()), "{dir}");
        }
    }
    for outside in ["../deploy", "deploy/../../x"] {
        let errors = findings(&named(&moved, outside), Level::Error);
        assert_rows!(errors.iter().any(|error| error.starts_with("BundleAnnotation ")) => true, "{outside}: {errors:?}");
    }
}

// parity: platform-21, convert-18, convert-20
#[test]
fn operator_condition_and_deployment_config_are_applied() {
    let config = |config: Value| DeploymentConfig::try_from(config).unwrap();
    let of_kind = |conversion: &Conversion, kind: &str| {
        let objects = objects(conversion).iter();
        let mut found = objects.filter(|object| object.kind() == kind);
        let only = found.next().map(|object| object.value().clone());
        assert!(found.next().is_none(), "{kind}");
        only
    };
    let of = |bundle: Bundle, options: &Options| {
        let conversion = bundle.convert_with(options);
        ["OperatorCondition", "Role", "RoleBinding"].map(|kind| of_kind(&conversion, kind))
    };
    assert_eq!(of(Bundle::good(), &Options::default()), [None, None, None]);
    // The deployment config changes every Deployment, but not the name, because no condition of another name exists.
    let env = json!([{"name": "OPERATOR_CONDITION_NAME", "value": "other"}]);
    let env = json!({"env": env, "nodeSelector": {"disk": "ssd"}});
    let options = with!(Options, operator_condition: true, deployment_config: Some(config(env)));
    let [condition, role, binding] = of(Bundle::good(), &options).map(Option::unwrap);
    let namespace = &condition["metadata"]["namespace"];
    assert_eq!(condition["metadata"]["name"], "tide.v1.4.0");
    assert_eq!(condition["apiVersion"], "operators.coreos.com/v2");
    assert_eq!(role["rules"][0]["resourceNames"], json!(["tide.v1.4.0"]));
    assert_eq!(&role["metadata"]["namespace"], namespace);
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert_rows!(binding["subjects"] => json!([{"kind": "ServiceAccount", "name": "tide", "namespace": namespace}]));
    let conversion = Bundle::good().convert_with(&options);
    let spec = &template(&conversion)["spec"];
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd"}));
    assert_rows!(spec["containers"][0]["env"] => json!([{"name": "EMPTY"}, {"name": "OPERATOR_CONDITION_NAME", "value": "tide.v1.4.0"}]));
    // Pods use the deprecated field for their account if the other one is missing.
    let pod = format!("{DEPLOYMENTS}/0/spec/template/spec");
    let deprecated = Bundle::good().remove(CSV, &format!("{pod}/serviceAccountName"));
    let deprecated = deprecated.csv(&format!("{pod}/serviceAccount"), json!("tide"));
    assert_rows!(of(deprecated, &options)[2].as_ref().unwrap()["subjects"][0]["name"] => "tide");
    // No OperatorCondition can have such a name.
    let misnamed = || Bundle::good().csv("/metadata/name", json!("Tide.v1.4.0"));
    assert_rows!(of(misnamed(), &options) => [None, None, None]);
    let conversion = misnamed().convert_with(&options);
    assert_rows!(template(&conversion)["spec"]["containers"][0]["env"] => json!([{"name": "EMPTY"}, {"name": "OPERATOR_CONDITION_NAME", "value": "other"}]));
    // Without a Deployment, no operator would write the condition.
    assert_rows!(of(Bundle::good().csv(DEPLOYMENTS, json!([])), &options) => [None, None, None]);
}

#[test]
fn warnings_name_the_rejecting_tool() {
    let spec = |field: &str| format!("{DEPLOYMENTS}/0/spec/{field}");
    let at = |path: &str| format!("spec.install.spec.deployments[0].spec{path}");
    let api_version = || "/apiVersion".to_owned();
    let twice = json!([{"name": "A"}, {"name": "A"}]);
    let api_server = "; the API server rejects it";
    for (pointer, value, path, message) in tests::rows![
        spec("template/spec/containers"), json!([]), at(".template.spec") => api_server;
        spec("template/spec/containers"), twice.clone(), at(".template.spec.containers[1]")
            => "of another entry; the API server rejects it";
        spec("template/spec/containers/0/env"), twice.clone(), at(".template.spec.containers[0].env[1]")
            => "of another entry; server-side apply rejects it";
        spec("template/spec/volumes"), twice, at(".template.spec.volumes[1]") => api_server;
        spec("template/spec/initContainers"), json!([{"name": "manager"}]), at(".template.spec.containers[0]") => api_server;
        spec("selector"), json!({}), at("") => api_server;
        spec("selector/matchLabels"), json!({"other": "x"}), at(".selector") => api_server;
        api_version(), json!(""), "apiVersion".to_owned() => "has no apiVersion; OLM rejects the bundle";
        api_version(), json!("operators.coreos.com/v1"), "apiVersion".to_owned()
            => "OLM treats it as operators.coreos.com/v1alpha1";
    ] {
        let conversion = Bundle::good().csv(&pointer, value).convert();
        assert!(conversion.objects.is_some(), "{pointer}");
        let warnings = conversion.report.with_level(Level::Warning);
        let places = findings(&conversion, Level::Warning).into_iter();
        let expected = format!("WrongShape {CSV} {path}");
        let is_expected = |(place, warning): (String, &Finding)| {
            place == expected && warning.message.ends_with(message)
        };
        assert!(
            places.zip(warnings).any(is_expected),
            "{expected}: {message}: {:?}",
            conversion.report.findings
        );
    }
}

// parity: check-7
#[test]
fn input_that_other_tools_reject_is_converted_with_warnings() {
    let good = Bundle::good;
    for (bundle, expected) in tests::rows![
        good() => vec![];
        good().csv(DEPLOYMENTS, json!([])) => vec![format!("NoDeployment {CSV} spec.install.spec.deployments")];
        good().csv("/spec/icon", json!("none")).csv("/spec/clusterpermissions", json!([]))
            => vec![format!("UnknownField {CSV} spec.clusterpermissions"), format!("WrongShape {CSV} spec.icon")];
        extra(json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "x"}}))
            => vec!["UnsupportedKind manifests/x.yaml".to_owned()];
    ] {
        let conversion = bundle.convert();
        assert!(conversion.objects.is_some());
        let mut warnings = findings(&conversion, Level::Warning);
        warnings.sort();
        assert_eq!(warnings, expected);
    }
    for (text, warnings) in [("", 0), ("null", 0), ("{}", 1), ("[", 1)] {
        let bundle = good().csv("/metadata/annotations/olm.properties", json!(text));
        let conversion = bundle.convert();
        assert!(conversion.objects.is_some());
        assert_rows!(findings(&conversion, Level::Warning).len() => warnings, "{text:?}");
    }
}
