//! `rukpak catalogsource`.

use serde_json::{Value, json};

use crate::{bundle::Place, sources::says};

const SOURCES: &str = "\
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: mine, namespace: olm}
spec:
  sourceType: grpc
  image: quay.io/kube-release-v{kube_major_version}/catalog:v{kube_major_version}.{kube_minor_version}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: new
spec:
  catalogImageSource:
    catalogImage: quay.io/{platform_architecture}/c:{ocp_update_channels}-{olm_major_version}
---
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata:
  name: written
  annotations: {core.rukpak.io/catalog-image-template: \"quay.io/a/c:{ocp_update_channels}\"}
spec: {sourceType: grpc, image: quay.io/a/c:any}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
spec: {image: \"{kube_minor_version}\"}
";

// parity: switch-20
#[test]
fn templates_become_images() {
    let place = Place::new();
    place.write("a.yaml", SOURCES);
    let of =
        |more: &[&str]| place.run(&[&["catalogsource", "resolve", "-f", "a.yaml"], more].concat());
    let all = [
        "--kube-version=1.20.1",
        "--ocp-channel=fast-4.8",
        "--architecture=amd64",
        "--olm-version=0.18.1",
    ];
    let run = of(&all).exits(0);
    assert_eq!(run.err, "");
    assert_eq!(
        run.out.lines().collect::<Vec<_>>(),
        [
            "NAME      FIELD                                             IMAGE",
            "olm/mine  spec.image                                        quay.io/kube-release-v1/catalog:v1.20",
            "new       spec.catalogImageSource.catalogImage              quay.io/x86_64/c:fast-0",
            "written   annotation core.rukpak.io/catalog-image-template  quay.io/a/c:fast",
        ]
    );
    let run = of(&[&all[..], &["-o", "json"]].concat()).exits(0);
    let read: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        read[0],
        json!({
            "namespace": "olm",
            "name": "mine",
            "field": "spec.image",
            "template": "quay.io/kube-release-v{kube_major_version}/catalog:v{kube_major_version}.{kube_minor_version}",
            "image": "quay.io/kube-release-v1/catalog:v1.20",
        })
    );
}

// parity: switch-13
#[test]
fn what_cannot_be_resolved_is_named_and_nothing_half_made_is_shown() {
    let place = Place::new();
    let source = |image: &str| {
        json!({
            "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "a"},
            "spec": {"sourceType": "grpc", "image": image}
        })
        .to_string()
    };
    for (image, part) in tests::rows![
        "a/c:v{ocp_major_version}"
            => "spec.image of CatalogSource a: Cannot construct catalog image reference, variable \"ocp_major_version\" couldn't be resolved";
        "a/c:{foobar}" => "reference, variable \"foobar\" couldn't be resolved\n";
        "a/c:{kube_minor_version" => "has a brace without its other half";
        "a/C:v1" => "image reference";
    ] {
        let input = source(image);
        let args = "catalogsource resolve -f - --kube-version=v1.30";
        let run = place.run_with(&args, input.as_bytes()).exits(1);
        says(&run.err, &[part], &[]);
        says(&run.out, &["spec.image"], &["a/c", "a/C"]);
    }
    let run = place
        .run_with(&["catsrc", "resolve", "-f", "-"], b"kind: A\n")
        .exits(0);
    says(&run.err, &["there is no CatalogSource"], &[]);
    for (input, part) in [
        (&b"a: [b"[..], "failed to read -"),
        (b"\xff", "failed to read -"),
    ] {
        let run = place
            .run_with(&["catsrc", "resolve", "-f", "-"], input)
            .exits(1);
        says(&run.err, &[part], &[]);
    }
    let run = place.fail("catsrc resolve -f none.yaml");
    says(&run.err, &["failed to read none.yaml"], &[]);
    place.run("catsrc resolve").exits(2);
}

const OLD: &str = "\
# Lost.
apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: both, namespace: olm}
spec:
  sourceType: grpc
  image: quay.io/a/c:v1
  address: a.svc:50051
  displayName: Both
  grpcPodConfig: {priorityClassName: \"\", extractContent: {catalogDir: /configs}}
  updateStrategy: {registryPoll: {interval: 30m}}
---
apiVersion: v1
kind: List
items:
- apiVersion: operators.coreos.com/v1alpha1
  kind: CatalogSource
  metadata: {name: served}
  spec: {sourceType: grpc, address: \"a.svc:50051\", image: \"\", updateStrategy: {}, grpcPodConfig: {memoryTarget: 1Mi}}
- apiVersion: operators.coreos.com/v1alpha1
  kind: CatalogSource
  metadata: {name: mapped}
  spec: {sourceType: internal, configMap: m, secrets: [s]}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: other}, data: {sourceType: grpc}}
---
# Nothing.
";

/// The design document's purpose, for manifests that exist: what is ignored goes, and is told.
// parity: source-14
#[test]
fn manifests_are_rewritten_and_it_is_told_what_was_never_read() {
    let place = Place::new();
    place.write("old.yaml", OLD);
    let run = place.ok("catalogsource convert -f old.yaml -o json");
    let spec = |at: &str, run: &crate::bundle::Run| {
        let all: Value = serde_json::from_str(&run.out).unwrap();
        all.pointer(at).unwrap()["spec"].clone()
    };
    assert_eq!(
        spec("/items/0", &run),
        json!({
            "displayName": "Both",
            "catalogImageSource": {
                "catalogImage": "quay.io/a/c:v1",
                "podSpecOverrides": {"priorityClassName": "", "extractContent": {"catalogDir": "/configs"}},
            },
            "updateStrategy": {"registryPoll": {"interval": "30m"}},
        })
    );
    assert_eq!(
        spec("/items/1/items/0", &run),
        json!({"catalogServiceSource": {"address": "a.svc:50051"}})
    );
    assert_eq!(
        spec("/items/1/items/1", &run),
        json!({"configMapSource": {"configMap": "m"}})
    );
    assert_eq!(
        run.err.lines().collect::<Vec<_>>(),
        [
            "warning: CatalogSource olm/both: spec.address \"a.svc:50051\" dropped: not read beside image",
            "warning: CatalogSource served: spec.grpcPodConfig {\"memoryTarget\":\"1Mi\"} dropped: only an image is served by a pod of its own",
            "warning: CatalogSource served: spec.updateStrategy {} dropped: only an image is looked for in a registry",
            "warning: CatalogSource mapped: spec.secrets [\"s\"] dropped: only an image is pulled with them",
        ]
    );
    let yaml = place.ok("catsrc convert -f old.yaml");
    yaml.out_has("\n---\napiVersion: v1\nitems:\n");
    yaml.out_has("kind: ConfigMap");
    yaml.out_has("catalogImage: quay.io/a/c:v1");
    yaml.out_lacks("Lost");
    yaml.out_lacks("Nothing");
    yaml.out_lacks("sourceType: internal");
    // And back: all that was read is there again, by its first name.
    let args = "catsrc convert -f - --to legacy -o json";
    let back = place.run_with(&args, yaml.out.as_bytes()).exits(0);
    assert_eq!(back.err, "");
    assert_eq!(
        spec("/items/0", &back),
        json!({
            "displayName": "Both", "sourceType": "grpc", "image": "quay.io/a/c:v1",
            "grpcPodConfig": {"priorityClassName": "", "extractContent": {"catalogDir": "/configs"}},
            "updateStrategy": {"registryPoll": {"interval": "30m"}},
        })
    );
    assert_eq!(
        spec("/items/1/items/1", &back),
        json!({"sourceType": "configmap", "configMap": "m"})
    );
    // Who is there already stays.
    let again = place
        .run_with(&["catsrc", "convert", "-f", "-"], yaml.out.as_bytes())
        .exits(0);
    assert_eq!((again.out, again.err.as_str()), (yaml.out, ""));
}

// parity: source-19
#[test]
fn what_says_no_place_is_written_as_it_was_and_told() {
    let place = Place::new();
    let source = |spec: &Value| json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": "a"}, "spec": spec});
    for (spec, to, said) in tests::rows![
        json!({"sourceType": "foo", "image": "a"}), "new"
            => "error: CatalogSource a: unknown sourcetype: foo: must be grpc or configmap; it is written as it was";
        json!({"sourceType": "grpc"}), "new" => "image and address unset: at least one must be set for sourcetype: grpc";
        json!({}), "legacy" => "no source: set spec.catalogImageSource";
        json!({"sourceType": "grpc", "image": 5}), "new" => "spec cannot be read: invalid type";
        json!(null), "new" => "spec cannot be read: invalid type";
        json!({"sourceType": "grpc", "image": "a", "configMapSource": {"configMap": "m"}}), "new"
            => "more than one source: keep one of spec.configMapSource, spec.sourceType, spec.image";
        json!({"catalogImageSource": {"catalogImage": "a", "later": 1}}), "legacy"
            => "spec.catalogImageSource has fields that the old form has no place for";
    ] {
        let args = ["catsrc", "convert", "-f", "-", "-o", "json", "--to", to];
        let input = source(&spec);
        let run = place.run_with(&args, input.to_string().as_bytes()).exits(1);
        says(&run.err, &[said], &[]);
        assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap(), input);
    }
    // What the apiserver shows as v1 is what it stores.
    let mut shown = source(&json!({"catalogImageSource": {"catalogImage": "a"}}));
    shown["apiVersion"] = "operators.coreos.com/v1".into();
    let args = "catsrc convert -f - -o json --to legacy";
    let run = place.run_with(&args, shown.to_string().as_bytes()).exits(0);
    let stored: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(stored, source(&json!({"sourceType": "grpc", "image": "a"})));
    let run = place
        .run_with(&["catsrc", "convert", "-f", "-"], b"kind: A\n")
        .exits(0);
    assert_eq!(run.out, "kind: A\n");
    says(&run.err, &["there is no CatalogSource"], &[]);
    let run = place
        .run_with(&["catsrc", "convert", "-f", "-"], b"a: [b")
        .exits(1);
    says(&run.err, &["failed to read -"], &[]);
    assert_eq!(run.out, "");
}
