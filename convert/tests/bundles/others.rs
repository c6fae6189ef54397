//! Namespaces, and objects besides the CSV.

use super::*;

fn omit() -> Options {
    with!(Options, namespace_object: NamespaceObject::Omit)
}

// parity: platform-20
#[test]
fn install_namespace_precedence() {
    let suggestion = "/metadata/annotations/operatorframework.io~1suggested-namespace";
    let suggested = Bundle::good().csv(suggestion, json!("sea"));
    let caller = with!(Options, install_namespace: Some("mine".into()));
    for (bundle, options, namespace) in [
        (&Bundle::good(), &Options::default(), "tide-system"),
        (&suggested, &Options::default(), "sea"),
        (&suggested, &caller, "mine"),
    ] {
        let conversion = bundle.convert_with(options);
        assert_eq!(conversion.report.facts.install_namespace, namespace);
        assert_rows!(object(&conversion, "Namespace", namespace)["metadata"]["annotations"] => json!({KEEP: "true"}));
        for object in objects(&conversion) {
            assert_rows!(["", namespace].contains(&object.namespace()) => true, "{}", object.identity());
        }
    }
    assert_rows!(names_of(&Bundle::good().convert_with(&omit()), "Namespace") => [""; 0]);
}

#[test]
fn the_suggested_template_gives_the_namespace_its_labels() {
    let template = json!({"kind": "Namespace", "metadata": {
        "name": "tide-system", "annotations": {"note": "n", "Tide.Example.com/note": "n"}, "ownerReferences": [{}],
        "labels": {
            "pod-security.kubernetes.io/enforce": "restricted", "monitored": true, "not legal!": "x", "list": [],
            "Tide.Example.com/label": "x",
        },
    }});
    let key = "/metadata/annotations/operatorframework.io~1suggested-namespace-template";
    let by = |template: String| Bundle::good().csv(key, template.into()).convert();
    let expected = json!({"name": "tide-system", "annotations": {"note": "n", "Tide.Example.com/note": "n", KEEP: "true"}, "labels": {
        "pod-security.kubernetes.io/enforce": "restricted", "monitored": "true",
    }});
    assert_rows!(object(&by(template.to_string()), "Namespace", "tide-system")["metadata"] => expected);
    let broken = by("{".to_owned());
    assert_eq!(findings(&broken, Level::Warning).len(), 1);
    assert!(broken.objects.is_some());
}

// parity: rukpak-29, convert-12
#[test]
fn other_objects_follow_the_scope_of_their_kind() {
    for (api, kind, stated, expected) in tests::rows![
        "v1", "ConfigMap", None => "tide-system";
        "v1", "ConfigMap", Some("elsewhere") => "tide-system";
        "batch/v1", "CronJob", None => "tide-system";
        "autoscaling.k8s.io/v1", "VerticalPodAutoscaler", None => "tide-system";
        "monitoring.coreos.com/v1", "ServiceMonitor", None => "tide-system";
        "authorization.openshift.io/v1", "Role", None => "tide-system";
        "authorization.openshift.io/v1", "RoleBinding", Some("elsewhere") => "tide-system";
        "authorization.openshift.io/v1", "ClusterRole", Some("stray") => "";
        "scheduling.k8s.io/v1", "PriorityClass", None => "";
        "scheduling.k8s.io/v1", "PriorityClass", Some("stray") => "";
        "console.openshift.io/v1", "ConsoleLink", None => "";
        "sea.example.com/v1", "Tide", None => "tide-system";
        "unknown.example.com/v1", "Widget", None => "";
        "unknown.example.com/v1", "Widget", Some("its-own") => "tide-system";
    ] {
        let mut metadata = json!({"name": "x"});
        if let Some(stated) = stated {
            metadata["namespace"] = stated.into();
        }
        let conversion =
            extra(json!({"apiVersion": api, "kind": kind, "metadata": metadata})).convert();
        let found = &object(&conversion, kind, "x")["metadata"]["namespace"];
        assert_rows!(found.as_str().unwrap_or_default() => expected, "{kind} in {stated:?}");
        let mut warnings = findings(&conversion, Level::Warning).into_iter();
        assert_rows!(warnings.any(|warning| warning.starts_with("UnknownScope ")) => kind == "Widget", "{kind}");
    }
    // An object without apiVersion has no scope to warn of.
    let conversion = extra(json!({"kind": "Widget", "metadata": {"name": "x"}})).convert();
    assert_rows!(findings(&conversion, Level::Error) => ["Unidentified manifests/x.yaml"]);
    let warnings = findings(&conversion, Level::Warning).concat();
    assert!(!warnings.contains("UnknownScope"), "{warnings}");
}

#[test]
fn server_side_and_unknown_fields_are_dropped() {
    let service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: x\n  uid: u\n  creationTimestamp: null\n\
                   spec:\n  port: 80\nstatus:\n  loadBalancer: {}\n";
    let conversion = extra(service).convert();
    let metadata = json!({"name": "x", "namespace": "tide-system"});
    let expected = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}});
    assert_eq!(*object(&conversion, "Service", "x"), expected);
    assert_rows!(findings(&conversion, Level::Warning) => ["UnknownField manifests/x.yaml spec.port"]);
}

#[test]
fn content_without_csv_is_plain_and_unchanged() {
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "own"}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [map("b")]});
    let text = format!("# comment\n---\n---\n{}\n---\n{list}\n", map("a"));
    let plain = content([("manifests/all.yaml", &*text)]);
    assert_rows!(names(&convert::plain(&plain, &Options::default())) => ["ConfigMap own/a", "ConfigMap own/b"]);
    assert_each!(|text, class| convert::class(&content([("manifests/x.yaml", text)])) => class;
        &*text => Class::Plain;
        "kind: CustomResourceDefinition\nspec: {names: {kind: ClusterServiceVersion}}\n" => Class::Plain;
        "kind: ClusterServiceVersion\n" => Class::Registry;
        "kind: List\nitems:\n- kind: ClusterServiceVersion\n" => Class::Registry;
    );
}

// parity: convert-13
#[test]
fn a_shipped_namespace_is_merged_and_every_namespace_is_kept() {
    let labels = json!({"shipped": "yes"});
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let bundle = Bundle::good()
        .file("manifests/own.yaml", namespace("tide-system"))
        .file("manifests/other.yaml", namespace("other"));
    let conversion = bundle.convert();
    for name in ["tide-system", "other"] {
        let expected =
            json!({"name": name, "labels": {"shipped": "yes"}, "annotations": {KEEP: "true"}});
        assert_eq!(object(&conversion, "Namespace", name)["metadata"], expected);
    }
    assert_rows!(names_of(&bundle.convert_with(&omit()), "Namespace") => ["Namespace other"]);
}

#[test]
fn an_old_target_keeps_old_apis_and_their_scope() {
    let options = with!(Options, kube_version: "1.15".parse().unwrap());
    let kinds = "policy/v1beta1 PodDisruptionBudget, batch/v1beta1 CronJob, extensions/v1beta1 Ingress, \
                 rbac.authorization.k8s.io/v1beta1 Role";
    for (api, kind) in tests::pairs(kinds) {
        let bundle = extra(json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}}));
        let conversion = bundle.convert_with(&options);
        let found = object(&conversion, kind, "x");
        assert_eq!(found["apiVersion"], api);
        assert_eq!(found["metadata"]["namespace"], "tide-system", "{kind}");
    }
}

#[test]
fn lists_of_every_form_are_expanded() {
    assert_each!(|list, expected| names_of(&extra(list).convert(), "ConfigMap").len() => expected;
        "{apiVersion: v1, kind: List}" => 0;
        "{apiVersion: v1, kind: List, items: null}" => 0;
        "{apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: a}}, {metadata: {name: b}}]}" => 2;
    );
}
