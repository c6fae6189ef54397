//! Bundle folders.

use crate::*;

const CSV: &str = r#"
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: moon.v1.2.3
  annotations:
    olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.20"}, {"type": "x.constraint", "value": {"b": 1.0, "a": ">1"}}]'
    capabilities: "Basic <Install> & more"
  labels: {operatorframework.io/arch.amd64: supported}
spec:
  version: 1.2.3
  displayName: Moon
  description: |
    # Moon
    Looks after moons, and after whatever turns around something that turns around something else, for ever.
  minKubeVersion: 1.28.0
  maturity: stable
  keywords: [moon, "yes"]
  provider: {name: Moon Inc., url: 'https://moon.example'}
  maintainers: [{name: A, email: a@moon.example}]
  links: [{name: Home, url: 'https://moon.example/?a=1&b=2'}]
  installModes:
  - {type: OwnNamespace, supported: false}
  - {type: AllNamespaces, supported: true}
  nativeAPIs: [{group: "", version: v1, kind: Pod}]
  customresourcedefinitions:
    owned:
    - name: moons.moon.example
      version: v1
      kind: Moon
      displayName: Moon
      resources: [{kind: Pod, name: "", version: v1}]
      specDescriptors: [{path: size, displayName: Size, x-descriptors: [urn:a], value: {b: "<x>", a: [1.50]}}]
    required:
    - {name: stars.star.example, version: v1, kind: Star}
  apiservicedefinitions:
    owned: [{name: tides, group: tide.example, version: v1, kind: Tide, deploymentName: moon, containerPort: 443}]
    required: [{name: seas, group: sea.example, version: v2, kind: Sea}]
  relatedImages:
  - {name: z, image: quay.io/moon/z:v1}
  - {name: helper, image: quay.io/moon/a:v1}
  install:
    strategy: deployment
    spec:
      deployments:
      - name: moon
        spec:
          selector: {matchLabels: {a: b}}
          template:
            metadata: {labels: {a: b}}
            spec:
              initContainers: [{name: i, image: quay.io/moon/init:v1}]
              containers: [{name: c, image: quay.io/moon/a:v1}, {name: d, image: quay.io/moon/operator:v1}]
"#;

const CRD: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: moons.moon.example}
spec:
  group: moon.example
  names: {kind: Moon, plural: moons, singular: moon}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: number, maximum: 1.5e3}}}}}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
";

const ANNOTATIONS: &str = "
annotations:
  operators.operatorframework.io.bundle.package.v1: moon
  operators.operatorframework.io.bundle.channels.v1: stable
";

const PROPERTIES: &str = r#"
properties:
- type: olm.gvk
  value: {group: moon.example, version: v1, kind: Moon}
- type: x.large
  value: {n: 9007199254740993, f: 1e21, text: "<&>"}
- type: olm.package.required
  value: {packageName: sun, versionRange: ">=1.0.0 <2.0.0"}
"#;

const DEPENDENCIES: &str = r#"
dependencies:
- {type: olm.gvk, value: {group: star.example, version: v1, kind: Star}}
- {type: olm.package, value: {packageName: star, version: ">1.0.0"}}
- {type: olm.constraint, value: {failureMessage: "no <cel>", cel: {rule: "a && b"}}}
"#;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: \"1 < 2\", o: \"\\u2028\"}\nx: 0x10\ny: 1_000.5\n";

/// A good bundle, with changes.
fn bundle(changes: &[(&str, &str)]) -> Folder {
    let mut files = vec![
        ("manifests/csv.yaml", CSV),
        ("manifests/crd.yaml", CRD),
        ("manifests/map.yaml", MAP),
        ("metadata/annotations.yaml", ANNOTATIONS),
    ];
    for (path, text) in changes {
        files.retain(|(other, _)| other != path);
        if !text.is_empty() {
            files.push((path, text));
        }
    }
    Folder::new(&files)
}

fn check(changes: &[(&str, &str)]) -> bool {
    assert_same(&["."], bundle(changes).path(), None)
}

fn without(text: &str, part: &str) -> String {
    assert!(text.contains(part), "{part}");
    text.replace(part, "")
}

// parity: render-1, render-4
#[test]
fn bundles_are_rendered_as_by_opm() {
    assert!(check(&[]));
    assert!(check(&[
        ("metadata/properties.yaml", PROPERTIES),
        ("metadata/dependencies.yaml", DEPENDENCIES),
    ]));
    // What is there twice is there once.
    let twice = format!("{PROPERTIES}{}", PROPERTIES.replace("properties:\n", ""));
    let annotated = CSV.replace(
        "'[{\"type\"",
        "'[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.20\"}, {\"type\"",
    );
    assert!(check(&[
        ("metadata/properties.yaml", &twice),
        ("manifests/csv.yaml", &annotated),
    ]));
}

// parity: render-1
#[test]
fn images_come_from_the_template() {
    let folder = bundle(&[("metadata/properties.yaml", PROPERTIES)]);
    for template in [
        "quay.io/moon/bundle:v1",
        "quay.io/{{.Package}}/{{ .Name }}:v{{.Version}}",
        "quay.io/moon/operator:v1",
        "quay.io/moon/z:v1",
    ] {
        assert!(assert_same(&["."], folder.path(), Some(template)));
    }
    for template in ["{{.Nothing}}", "{{.Name", "{{ len .Name }}{{.Channel}}"] {
        assert!(template.parse::<Template>().is_err());
        let args = ["render", "--alpha-image-ref-template", template, "."];
        run(folder.path(), &args).unwrap_err();
    }
}

#[test]
fn names_of_files_in_metadata_do_not_matter() {
    let unquoted = "annotations:\n  operators.operatorframework.io.bundle.package.v1: 7\n  \
                    operators.operatorframework.io.bundle.channels.v1: 4.10\n";
    let json = r#"{"Properties": [{"TYPE": "a", "value": {"b": 1.50, "a": "<"}}]}"#;
    check(&[
        ("metadata/annotations.yaml", ""),
        ("metadata/.x", ANNOTATIONS),
    ]);
    check(&[("metadata/annotations.yaml", unquoted)]);
    check(&[
        ("metadata/a.txt", "annotations: {a: b}"),
        ("metadata/z.json", json),
    ]);
    check(&[
        ("metadata/a.yaml", "annotations: [a]\nproperties: 7"),
        ("metadata/b", "["),
    ]);
    check(&[(
        "metadata/p.yaml",
        "properties:\n- type: 7\n- value: {a: y}\n",
    )]);
    check(&[("metadata/p.yaml", "properties:\n- type: [x]\n")]);
    check(&[("metadata/annotations.yaml", "")]);
    check(&[("metadata/annotations.yaml", "annotations: {a: b}")]);
}

// parity: render-5
#[test]
fn of_each_file_the_first_document_counts() {
    let two = format!("{MAP}---\n{}", MAP.replace("name: m", "name: n"));
    let empty_first = format!("# a comment\n---\n{MAP}");
    check(&[("manifests/map.yaml", &two)]);
    check(&[("manifests/map.yaml", &empty_first)]);
    check(&[("manifests/map.yaml", &format!("---\n{MAP}---\n"))]);
    check(&[("manifests/a.yaml", &CSV.replace("1.2.3", "1.0.0"))]);
    check(&[("manifests/.hidden.yaml", "kind: [")]);
    check(&[("manifests/bad.yaml", "kind: [")]);
    check(&[("manifests/empty.yaml", "\n")]);
    check(&[("manifests/kindless.yaml", "a: b")]);
    check(&[(
        "manifests/list.yaml",
        "kind: List\napiVersion: v1\nitems: [{kind: A, apiVersion: v1}]",
    )]);
    check(&[(
        "manifests/j.json",
        r#"{"kind": "A", "n": 2.0, "m": 18446744073709551615} {"kind": "B"}"#,
    )]);
    check(&[("manifests/sub/x.yaml", MAP)]);
    check(&[("manifests/csv.yaml", "")]);
    check(&[
        ("manifests/csv.yaml", ""),
        ("manifests/crd.yaml", ""),
        ("manifests/map.yaml", "a: b"),
    ]);
}

// parity: render-4
#[test]
fn what_the_csv_says_decides() {
    let csv = |from: &str, to: &str| {
        assert!(CSV.contains(from), "{from}");
        CSV.replace(from, to)
    };
    for text in [
        without(CSV, "  version: 1.2.3\n"),
        csv("version: 1.2.3\n", "version: 1.2.3\n  release: 3\n"),
        csv("version: 1.2.3\n", "version: 1.2.3\n  release: 1.5\n"),
        csv("version: 1.2.3\n", "version: 1.2.3\n  release: alpha.1\n"),
        csv("version: 1.2.3\n", "version: 1.2.3\n  release: [1]\n"),
        csv("version: 1.2.3\n", "version: 7\n"),
        csv(
            "'[{\"type\"",
            "'[{\"type\": \"olm.package\", \"value\": {\"packageName\": \"other\", \"version\": \"9.9.9\"}}, {\"type\"",
        ),
        csv("'[{\"type\"", "'[[{\"type\""),
        csv("'[{\"type\"", "'{}[{\"type\""),
        csv("moons.moon.example", "comets.moon.example"),
        csv("moons.moon.example", "moons"),
        csv("stars.star.example", "stars"),
        csv("kind: Moon\n", "kind: Sun\n"),
        csv("strategy: deployment", "strategy: other"),
        csv("image: quay.io/moon/init:v1", "image: 7"),
        csv("image: quay.io/moon/init:v1", "image: \"\""),
        csv(
            "- {name: z, image: quay.io/moon/z:v1}",
            "- {name: z}\n  - {name: y}\n  - null",
        ),
        csv("- {name: z, image: quay.io/moon/z:v1}", "- 7"),
        csv(
            "  labels: {operatorframework.io/arch.amd64: supported}\n",
            "  labels: {a: 7}\n",
        ),
        csv("  name: moon.v1.2.3\n", ""),
        csv("spec:\n", "spec: null\nother:\n"),
        csv("spec:\n", "other:\n"),
        csv("spec:\n", "spec: []\nother:\n"),
        csv("supported: false", "supported: \"no\""),
        csv("minKubeVersion: 1.28.0", "minKubeVersion: 1.28"),
        csv(
            "provider: {name: Moon Inc., url: 'https://moon.example'}",
            "provider: {}",
        ),
        csv("containerPort: 443", "containerPort: 0"),
        csv("version: 1.2.3\n", "version: not a version\n"),
    ] {
        check(&[("manifests/csv.yaml", &text)]);
    }
}

// parity: render-5
#[test]
fn what_definitions_say_decides() {
    let crd = |from: &str, to: &str| {
        assert!(CRD.contains(from), "{from}");
        CRD.replace(from, to)
    };
    for text in [
        crd(
            "apiextensions.k8s.io/v1\n",
            "apiextensions.k8s.io/v1beta1\n",
        ),
        crd(
            "apiextensions.k8s.io/v1\n",
            "apiextensions.k8s.io/v1beta1\n",
        )
        .replace("spec:\n", "spec:\n  version: v1alpha1\n"),
        crd("apiextensions.k8s.io/v1\n", "apiextensions.k8s.io/v2\n"),
        crd("apiextensions.k8s.io/v1\n", "example.com/v1\n"),
        crd(
            "served: true, storage: true",
            "served: \"yes\", storage: true",
        ),
        crd("scope: Namespaced", "scope: 7"),
        crd("group: moon.example", "group: sun.example"),
    ] {
        check(&[("manifests/crd.yaml", &text)]);
    }
}

// parity: render-4
#[test]
fn bundles_of_the_corpus_are_rendered_as_by_opm() {
    let Some(corpus) = tests::corpus() else {
        return;
    };
    let template = Some("quay.io/org/{{.Package}}:v{{.Version}}");
    let mut count = 0;
    for case in corpus.cases() {
        eprintln!("{}", case.bundle);
        let folder = corpus.bundle(case);
        let root = folder.parent().unwrap();
        assert!(folder.join("manifests").is_dir() && folder.join("metadata").is_dir());
        for (level, format) in [
            ("none", Format::Json),
            ("all", Format::Json),
            ("all", Format::Yaml),
        ] {
            assert_same_in(&[case.bundle], root, template, level, format);
        }
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}
