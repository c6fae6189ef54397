//! Where namespaces and the objects beside the CSV go.

use convert::{Class, Code, KEEP, Level, NamespaceObject, Options};
use serde_json::json;

use super::fixture::{Bundle, findings, names, object};

// parity: platform-20
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

// parity: rukpak-29, convert-12
#[test]
fn other_objects_go_where_their_kind_lives() {
    let make = |api: &str, kind: &str, namespace: &str| {
        let mut object = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        object.to_string()
    };
    for (api, kind, stated, expected) in tests::rows![
        "v1", "ConfigMap", "" => "tide-system";
        "v1", "ConfigMap", "elsewhere" => "tide-system";
        "batch/v1", "CronJob", "" => "tide-system";
        "autoscaling.k8s.io/v1", "VerticalPodAutoscaler", "" => "tide-system";
        "monitoring.coreos.com/v1", "ServiceMonitor", "" => "tide-system";
        "authorization.openshift.io/v1", "Role", "" => "tide-system";
        "authorization.openshift.io/v1", "RoleBinding", "elsewhere" => "tide-system";
        "authorization.openshift.io/v1", "ClusterRole", "stray" => "";
        "scheduling.k8s.io/v1", "PriorityClass", "" => "";
        "scheduling.k8s.io/v1", "PriorityClass", "stray" => "";
        "console.openshift.io/v1", "ConsoleLink", "" => "";
        "sea.example.com/v1", "Tide", "" => "tide-system";
        "unknown.example.com/v1", "Thing", "" => "";
        "unknown.example.com/v1", "Thing", "its-own" => "tide-system";
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
fn objects_without_api_version_have_no_scope_to_warn_of() {
    let object = json!({"kind": "Thing", "metadata": {"name": "x"}}).to_string();
    let conversion = Bundle::good().file("manifests/x.yaml", object).convert();
    let codes = |level| -> Vec<Code> {
        let findings = findings(&conversion, level).into_iter();
        findings.map(|finding| finding.0).collect()
    };
    assert_eq!(codes(Level::Error), [Code::Unidentified]);
    assert!(!codes(Level::Warning).contains(&Code::UnknownScope));
}

#[test]
fn warnings_say_who_rejects_what() {
    let containers = "/spec/install/spec/deployments/0/spec/template/spec/containers";
    let twice = json!([{"name": "A"}, {"name": "A"}]);
    for (bundle, expected) in tests::rows![
        Bundle::good().csv(&format!("{containers}/0/env"), twice) => "of another entry; server-side apply refuses it";
        Bundle::good().csv(containers, json!([{"name": "a"}, {"name": "a"}])) => "of another entry; the apiserver refuses it";
        Bundle::good().csv("/apiVersion", json!("")) => "has no apiVersion; OLM rejects the bundle";
        Bundle::good().csv("/apiVersion", json!("operators.coreos.com/v1")) => "OLM takes it for operators.coreos.com/v1alpha1";
    ] {
        let conversion = bundle.convert();
        let mut warnings = conversion.report.of(Level::Warning);
        assert!(
            warnings.any(|warning| warning.message.ends_with(expected)),
            "{expected}: {:?}",
            conversion.report.findings
        );
    }
}

// parity: check-7
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

// parity: convert-13
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
    for (text, class) in tests::rows![
        "kind: CustomResourceDefinition\nspec: {names: {kind: ClusterServiceVersion}}\n" => Class::Plain;
        "kind: ClusterServiceVersion\n" => Class::Registry;
        "kind: List\nitems:\n- kind: ClusterServiceVersion\n" => Class::Registry;
    ] {
        assert_eq!(convert::class(&content(text)), class, "{text}");
    }
}

#[test]
fn lists_of_every_form_become_their_items() {
    for (list, expected) in tests::rows![
        "{apiVersion: v1, kind: List}" => 0;
        "{apiVersion: v1, kind: List, items: null}" => 0;
        "{apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: a}}, {metadata: {name: b}}]}" => 2;
    ] {
        let conversion = Bundle::good().file("manifests/x.yaml", list).convert();
        let maps = names(&conversion)
            .into_iter()
            .filter(|name| name.starts_with("ConfigMap"))
            .count();
        assert_eq!(maps, expected, "{list}");
    }
}
