//! Links and special files of a bundle: rejected in its directories, counted elsewhere.

use super::*;

fn options_of_class(class: Class) -> Options {
    with!(Options, class: Some(class))
}

fn with<'a>(bundle: &Bundle, irregular: impl IntoIterator<Item = (&'a str, Irregular)>) -> Content {
    let mut builder = Builder::new(Limits::default());
    for (path, text) in &bundle.0 {
        builder.add(path, 0o644, &mut text.as_bytes()).unwrap();
    }
    for (path, entry) in irregular {
        builder.record(path, entry).unwrap();
    }
    builder.finish()
}

// parity: rukpak-19
#[test]
fn irregular_entries_are_refused_or_counted() {
    let map = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    let bundle = Bundle::default().file("manifests/a.yaml", map);
    // `manifests::content::irregular` has the directories.
    for (class, link, refused) in tests::rows![
        Class::Plain, "manifests/b.yaml" => true;
        Class::Plain, "docs/b.yaml" => false;
        Class::Registry, "manifests/b.yaml" => true;
        Class::Registry, "tests/b.yaml" => false;
    ] {
        let entry = Irregular::link(Kind::Symlink, "../x");
        let conversion = convert::plain(&with(&bundle, [(link, entry)]), &options_of_class(class));
        let found = conversion.report.refusals();
        let found = found.filter(|finding| finding.code == Code::EntryRefused);
        let found: Vec<_> = found.map(ToString::to_string).collect();
        let skipped = conversion.report.skipped;
        if refused {
            let problem = "is a symbolic link to \"../x\", not a regular file; replace the link with a copy of the file";
            assert_rows!((found, skipped.total()) => (vec![format!("{link}: {problem}")], 0));
            assert_eq!(conversion.objects, None);
        } else {
            assert_eq!((found.len(), skipped.paths), (0, vec![link.to_owned()]));
        }
    }
}

#[test]
fn the_directory_that_is_converted_needs_regular_files() {
    let deploy = ["deploy", "/deploy//", " ./deploy/ "].map(|named| (named, "deploy"));
    let manifests = ["../deploy", ".", "./", "/", "nowhere", ""].map(|named| (named, "manifests"));
    for (named, converted) in deploy.into_iter().chain(manifests) {
        let key = "operators.operatorframework.io.bundle.manifests.v1";
        let text = format!("annotations: {{{key}: \"{named}\"}}");
        let bundle = Bundle::default()
            .file("manifests/broken.yaml", "a: [")
            .file("deploy/broken.yaml", "a: [")
            .file(ANNOTATIONS, text);
        let fifos =
            ["manifests/fifo", "deploy/fifo"].map(|path| (path, Irregular::new(Kind::Special)));
        let report = convert::plain(&with(&bundle, fifos), &Options::default()).report;
        let places = |code| -> Vec<_> {
            let found = report.refusals().filter(|finding| finding.code == code);
            let places = found.flat_map(|finding| &finding.location);
            places.map(|place| place.file.clone()).collect()
        };
        assert_rows!(places(Code::Unreadable) => [format!("{converted}/broken.yaml")], "{named:?}");
        assert_rows!(places(Code::EntryRefused) => [format!("{converted}/fifo")], "{named:?}");
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
        .file("manifests/a.yaml", binding)
        .file("manifests/b.yaml", definition);
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
            let mut left = good.clone();
            left.0
                .retain(|path, _| !removed.iter().any(|removed| path.starts_with(removed)));
            let links = removed.iter().filter(|_| is_linked);
            let links = links.map(|link| (*link, Irregular::new(Kind::Symlink)));
            let report = convert::validate(&with(&left, links), &options_of_class(class));
            let found = report.findings.iter().map(|finding| finding.code);
            let found: BTreeSet<_> = found.filter(|code| codes.contains(code)).collect();
            assert_rows!(found => if is_linked { &[] } else { absent }.iter().copied().collect(), "{removed:?} {is_linked}");
            let refused = report.refusals();
            let refused = refused.filter(|finding| finding.code == Code::EntryRefused);
            assert_rows!(refused.count() => if is_linked { removed.len() } else { 0 }, "{removed:?}");
        }
    }
}
