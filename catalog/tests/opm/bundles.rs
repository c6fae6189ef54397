//! Bundle directories.

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
    Manages moons and their orbits, and the orbits of all bodies that follow a moon on its path around a planet.
  minKubeVersion: 1.28.0
  maturity: stable
  keywords: [moon, "yes"]
  provider: {name: Moon Inc., url: 'https://moon.example'}
  maintainers: [{name: A, email: a@moon.example}]
  links: [{name: Home, url: 'https://moon.example/?a=1&b=2'}]
  installModes: [{type: OwnNamespace, supported: false}, {type: AllNamespaces, supported: true}]
  nativeAPIs: [{group: "", version: v1, kind: Pod}]
  customresourcedefinitions:
    owned:
    - name: moons.moon.example
      version: v1
      kind: Moon
      displayName: Moon
      resources: [{kind: Pod, name: "", version: v1}]
      specDescriptors: [{path: size, displayName: Size, x-descriptors: [urn:a], value: {b: "<x>", a: [1.50]}}]
    required: [{name: stars.star.example, version: v1, kind: Star}]
  apiservicedefinitions:
    owned: [{name: tides, group: tide.example, version: v1, kind: Tide, deploymentName: moon, containerPort: 443}]
    required: [{name: seas, group: sea.example, version: v2, kind: Sea}]
  relatedImages:
  - {name: z, image: quay.io/moon/z:v1}
  - {name: helper, image: quay.io/moon/a:v1}
  install:
    strategy: deployment
    spec: {deployments: [{name: moon, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {
      initContainers: [{name: i, image: quay.io/moon/init:v1}],
      containers: [{name: c, image: quay.io/moon/a:v1}, {name: d, image: quay.io/moon/operator:v1}]}}}}]}
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
- {type: olm.gvk, value: {group: moon.example, version: v1, kind: Moon}}
- {type: x.large, value: {n: 9007199254740993, f: 1e21, text: "<&>"}}
- {type: olm.package.required, value: {packageName: sun, versionRange: ">=1.0.0 <2.0.0"}}
"#;

const DEPENDENCIES: &str = r#"
dependencies:
- {type: olm.gvk, value: {group: star.example, version: v1, kind: Star}}
- {type: olm.package, value: {packageName: star, version: ">1.0.0"}}
- {type: olm.constraint, value: {failureMessage: "no <cel>", cel: {rule: "a && b"}}}
"#;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: \"1 < 2\", o: \"\\u2028\"}\nx: 0x10\ny: 1_000.5\n";

/// Returns a valid bundle with changes. An empty text removes the file.
fn bundle(changes: &[(&str, &str)]) -> TempDir {
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
    directory(&files)
}

fn check(changes: &[(&str, &str)]) -> bool {
    assert_same(&["."], bundle(changes).path(), None)
}

// parity: render-1, render-4
#[test]
fn bundles_are_rendered_as_by_opm() {
    let properties = "metadata/properties.yaml";
    let dependencies = ("metadata/dependencies.yaml", DEPENDENCIES);
    // Repeated entries count once.
    let twice = format!("{PROPERTIES}{}", PROPERTIES.replace("properties:\n", ""));
    let max = "'[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.20\"}, {\"type\"";
    assert!(check(&[]));
    assert!(check(&[(properties, PROPERTIES), dependencies]));
    assert!(check(&[
        (properties, &twice),
        ("manifests/csv.yaml", &CSV.replace("'[{\"type\"", max))
    ]));
}

// parity: render-1
#[test]
fn images_come_from_the_template() {
    let dir = bundle(&[("metadata/properties.yaml", PROPERTIES)]);
    let all = "moon/bundle:v1|{{.Package}}/{{ .Name }}:v{{.Version}}|moon/operator:v1|moon/z:v1";
    for template in all.split('|').map(|path| format!("quay.io/{path}")) {
        assert!(assert_same(&["."], dir.path(), Some(&template)));
    }
    for template in ["{{.Nothing}}", "{{.Name", "{{ len .Name }}{{.Channel}}"] {
        assert!(template.parse::<Template>().is_err());
        let args = ["render", "--alpha-image-ref-template", template, "."];
        run(dir.path(), &args).unwrap_err();
    }
}

#[test]
fn names_of_metadata_files_are_ignored() {
    const NONE: (&str, &str) = ("none", "");
    let package = "annotations:\n  operators.operatorframework.io.bundle.package.v1: 7\n";
    for changes in tests::rows![
        ("annotations.yaml", "") => (".x", ANNOTATIONS);
        ("annotations.yaml", &*format!("{package}  operators.operatorframework.io.bundle.channels.v1: 4.10\n")) => NONE;
        ("a.txt", "annotations: {a: b}") => ("z.json", r#"{"Properties": [{"TYPE": "a", "value": {"b": 1.50, "a": "<"}}]}"#);
        ("a.yaml", "annotations: [a]\nproperties: 7") => ("b", "[");
        ("p.yaml", "properties:\n- type: 7\n- value: {a: y}\n") => NONE;
        ("p.yaml", "properties:\n- type: [x]\n") => NONE;
        ("annotations.yaml", "") => NONE;
        ("annotations.yaml", "annotations: {a: b}") => NONE;
        // JSON with a number instead of a string is read as YAML.
        ("annotations.yaml", r#"{"annotations": {"operators.operatorframework.io.bundle.package.v1": "moon", "operators.operatorframework.io.bundle.channels.v1": 4}}"#)
            => NONE;
        ("p.json", r#"{"properties": [{"type": 7, "value": {"b": 1, "a": "<"}}]}"#) => NONE;
    ] {
        let [one, two] = [changes.0, changes.1].map(|(path, _)| format!("metadata/{path}"));
        check(&[(&one, changes.0.1), (&two, changes.1.1)]);
    }
}

// parity: render-5
#[test]
fn first_document_of_each_file_is_used() {
    for (path, text) in tests::rows![
        "map.yaml" => &*format!("{MAP}---\n{}", MAP.replace("name: m", "name: n"));
        "map.yaml" => &format!("# a comment\n---\n{MAP}");
        "map.yaml" => &format!("---\n{MAP}---\n");
        "a.yaml" => &CSV.replace("1.2.3", "1.0.0");
        ".hidden.yaml" => "kind: [";
        "bad.yaml" => "kind: [";
        "empty.yaml" => "\n";
        "kindless.yaml" => "a: b";
        "list.yaml" => "kind: List\napiVersion: v1\nitems: [{kind: A, apiVersion: v1}]";
        "j.json" => r#"{"kind": "A", "n": 2.0, "m": 18446744073709551615} {"kind": "B"}"#;
        "sub/x.yaml" => MAP;
        "csv.yaml" => "";
    ] {
        check(&[(&format!("manifests/{path}"), text)]);
    }
    let paths = ["csv", "crd", "map"].map(|name| format!("manifests/{name}.yaml"));
    check(&[(&paths[0], ""), (&paths[1], ""), (&paths[2], "a: b")]);
}

// parity: render-4, render-5
#[test]
fn values_of_manifests_are_rendered_as_by_opm() {
    for (text, from, values) in tests::rows![
        CSV, "  version: 1.2.3\n" => &[""][..];
        CSV, "version: 1.2.3\n" => &["version: 7\n", "version: not a version\n"];
        CSV, "version: 1.2.3\n" => &["version: 1.2.3\n  release: 3\n", "version: 1.2.3\n  release: 1.5\n"];
        CSV, "version: 1.2.3\n" => &["version: 1.2.3\n  release: alpha.1\n", "version: 1.2.3\n  release: [1]\n"];
        CSV, "'[{\"type\"" => &[
            "'[{\"type\": \"olm.package\", \"value\": {\"packageName\": \"other\", \"version\": \"9.9.9\"}}, {\"type\"",
            "'[[{\"type\"", "'{}[{\"type\"",
        ];
        CSV, "moons.moon.example" => &["comets.moon.example", "moons"];
        CSV, "stars.star.example" => &["stars"];
        CSV, "kind: Moon\n" => &["kind: Sun\n"];
        CSV, "strategy: deployment" => &["strategy: other"];
        CSV, "image: quay.io/moon/init:v1" => &["image: 7", "image: \"\""];
        CSV, "- {name: z, image: quay.io/moon/z:v1}" => &["- {name: z}\n  - {name: y}\n  - null", "- 7"];
        CSV, "  labels: {operatorframework.io/arch.amd64: supported}\n" => &["  labels: {a: 7}\n"];
        CSV, "  name: moon.v1.2.3\n" => &[""];
        CSV, "spec:\n" => &["spec: null\nother:\n", "other:\n", "spec: []\nother:\n"];
        CSV, "supported: false" => &["supported: \"no\""];
        CSV, "minKubeVersion: 1.28.0" => &["minKubeVersion: 1.28"];
        CSV, "provider: {name: Moon Inc., url: 'https://moon.example'}" => &["provider: {}"];
        CSV, "containerPort: 443" => &["containerPort: 0"];
        &*CRD.replace("k8s.io/v1\n", "k8s.io/v1beta1\n"), "spec:\n" => &["spec:\n", "spec:\n  version: v1alpha1\n"];
        CRD, "apiextensions.k8s.io/v1\n" => &["apiextensions.k8s.io/v2\n", "example.com/v1\n"];
        CRD, "served: true, storage: true" => &["served: \"yes\", storage: true"];
        CRD, "scope: Namespaced" => &["scope: 7"];
        CRD, "group: moon.example" => &["group: sun.example"];
    ] {
        assert!(text.contains(from), "{from}");
        let is_csv = text.contains("kind: ClusterServiceVersion");
        let path = format!("manifests/{}.yaml", if is_csv { "csv" } else { "crd" });
        for to in values {
            check(&[(&path, &text.replace(from, to))]);
        }
    }
}

// parity: render-4
#[test]
fn bundles_of_the_corpus_are_rendered_as_by_opm() {
    let Some(corpus) = tests::corpus() else {
        return;
    };
    let template = Some("quay.io/org/{{.Package}}:v{{.Version}}");
    assert!(corpus.cases().next().is_some(), "the corpus is empty");
    for case in corpus.cases() {
        eprintln!("{}", case.bundle);
        let dir = corpus.bundle(case);
        let root = dir.parent().unwrap();
        assert!(dir.join("manifests").is_dir() && dir.join("metadata").is_dir());
        assert_same_in(&[case.bundle], root, template, "none", Format::Json);
        for format in [Format::Json, Format::Yaml] {
            assert_same_in(&[case.bundle], root, template, "all", format);
        }
    }
}
