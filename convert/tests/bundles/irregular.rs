//! Links and special files of a bundle: refused in its directories, counted elsewhere.

use std::collections::BTreeSet;

use convert::{Class, Code, Options};
use manifests::content::{Builder, Content, Irregular, Kind, Limits};
use serde_json::json;

use super::fixture::{ANNOTATIONS, Bundle, CRD, CSV};

fn of(class: Class) -> Options {
    Options {
        class: Some(class),
        ..Options::default()
    }
}

fn with_irregular(files: &[(&str, &str)], irregular: &[(&str, Irregular)]) -> Content {
    let mut builder = Builder::new(Limits::default());
    for (path, text) in files {
        builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    for (path, entry) in irregular {
        builder.record(path, entry.clone()).unwrap();
    }
    builder.finish()
}

// parity: rukpak-19
#[test]
fn irregular_entries_are_refused_or_counted() {
    const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    let named = |folder: &str| {
        format!("annotations: {{operators.operatorframework.io.bundle.manifests.v1: {folder}}}")
    };
    for (class, annotations, link, refused) in tests::rows![
        Class::Plain, None, "manifests/b.yaml" => true;
        Class::Plain, None, "docs/b.yaml" => false;
        Class::Registry, None, "manifests/b.yaml" => true;
        Class::Registry, None, "metadata/properties.yaml" => true;
        Class::Registry, None, "tests/b.yaml" => false;
        Class::Registry, Some(named("deploy/")), "deploy/b.yaml" => true;
        Class::Registry, Some(named("deploy/")), "manifests/b.yaml" => false;
    ] {
        let annotations = annotations.unwrap_or_default();
        let files = [
            ("manifests/a.yaml", MAP),
            ("deploy/a.yaml", MAP),
            (ANNOTATIONS, &annotations),
        ];
        let entry = Irregular::link(Kind::Symlink, "../x");
        let conversion = convert::plain(&with_irregular(&files, &[(link, entry)]), &of(class));
        let found = conversion.report.refusals();
        let found: Vec<_> = found
            .filter(|finding| finding.code == Code::EntryRefused)
            .map(ToString::to_string)
            .collect();
        let skipped = conversion.report.skipped;
        if refused {
            let expected = format!(
                "{link}: is a symbolic link to \"../x\", not a regular file; replace the link with a copy of the file"
            );
            assert_eq!((found, skipped.total()), (vec![expected], 0));
            assert_eq!(conversion.objects, None);
        } else {
            assert_eq!((found.len(), skipped.paths), (0, vec![link.to_owned()]));
        }
    }
}

#[test]
fn the_directory_that_is_converted_needs_regular_files() {
    let deploy = ["deploy", "/deploy//", " ./deploy/ "].map(|named| (named, "deploy"));
    let manifests = ["../deploy", ".", "nowhere", ""].map(|named| (named, "manifests"));
    for (named, converted) in deploy.into_iter().chain(manifests) {
        let text = format!(
            "annotations: {{operators.operatorframework.io.bundle.manifests.v1: \"{named}\"}}"
        );
        let [one, two] = ["manifests", "deploy"].map(|folder| format!("{folder}/broken.yaml"));
        let files = [(&*one, "a: ["), (&*two, "a: ["), (ANNOTATIONS, &text)];
        let fifo = |path| (path, Irregular::new(Kind::Special));
        let content = with_irregular(&files, &[fifo("manifests/fifo"), fifo("deploy/fifo")]);
        let report = convert::plain(&content, &Options::default()).report;
        let places = |code| -> Vec<_> {
            let found = report.refusals().filter(|finding| finding.code == code);
            found
                .filter_map(|finding| Some(finding.place.as_ref()?.file.clone()))
                .collect()
        };
        let expected = [format!("{converted}/broken.yaml")];
        assert_eq!(places(Code::Unreadable), expected, "{named:?}");
        let expected = [format!("{converted}/fifo")];
        assert_eq!(places(Code::EntryRefused), expected, "{named:?}");
    }
}

#[test]
fn files_behind_links_are_not_reported_as_missing() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "rains.sea.example.com"},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {
            "service": {"name": "rain", "namespace": "rain"},
        }}}},
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "tide"}, "roleRef": {"kind": "Role", "name": "tide"},
    });
    let good = Bundle::good()
        .file("manifests/a.yaml", binding.to_string())
        .file("manifests/b.yaml", definition.to_string())
        .content();
    let (crd, role) = (Code::CRDConversion, Code::MissingRole);
    let codes = [Code::CSVCount, Code::Missing, Code::MissingCRD, crd, role];
    for (removed, class, absent) in tests::rows![
        &[CRD][..], Class::Registry => &[Code::MissingCRD, crd, role][..];
        &[CSV], Class::Registry => &[Code::CSVCount, crd, role];
        &["manifests"], Class::Registry => &[Code::CSVCount];
        &["manifests"], Class::Plain => &[Code::Missing];
        &["manifests", "metadata"], Class::Plain => &[Code::Missing];
        &["metadata"], Class::Registry => &[Code::Missing, crd, role];
    ] {
        for is_linked in [false, true] {
            let mut files = Builder::new(Limits::default());
            let is_removed = |path: &str| removed.iter().any(|removed| path.starts_with(removed));
            for (path, file) in good.files().filter(|(path, _)| !is_removed(path)) {
                files
                    .add(path, file.mode, &mut file.bytes.as_ref())
                    .unwrap();
            }
            for link in removed.iter().filter(|_| is_linked) {
                files.record(link, Irregular::new(Kind::Symlink)).unwrap();
            }
            let report = convert::validate(&files.finish(), &of(class));
            let found = report.findings.iter().map(|finding| finding.code);
            let found: BTreeSet<_> = found.filter(|code| codes.contains(code)).collect();
            let expected = if is_linked { &[] } else { absent };
            let expected = expected.iter().copied().collect();
            assert_eq!(found, expected, "{removed:?} {is_linked}");
            let refused = report.refusals();
            let refused = refused.filter(|finding| finding.code == Code::EntryRefused);
            let links = if is_linked { removed.len() } else { 0 };
            assert_eq!(refused.count(), links, "{removed:?}");
        }
    }
}
