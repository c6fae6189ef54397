//! Links and special files of a bundle: refused in its directories, counted elsewhere.

use convert::{Class, Code, Options};
use manifests::content::{Builder, Irregular, Kind, Limits};

use super::fixture::ANNOTATIONS;

#[test]
fn irregular_entries_are_refused_or_counted() {
    const MAP: &str = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
    let named = |folder: &str| {
        format!("annotations: {{operators.operatorframework.io.bundle.manifests.v1: {folder}}}")
    };
    for (class, annotations, link, refused) in [
        (Class::Plain, None, "manifests/b.yaml", true),
        (Class::Plain, None, "docs/b.yaml", false),
        (Class::Registry, None, "manifests/b.yaml", true),
        (Class::Registry, None, "metadata/properties.yaml", true),
        (Class::Registry, None, "tests/b.yaml", false),
        (
            Class::Registry,
            Some(named("deploy/")),
            "deploy/b.yaml",
            true,
        ),
        (
            Class::Registry,
            Some(named("deploy/")),
            "manifests/b.yaml",
            false,
        ),
    ] {
        let mut files = Builder::new(Limits::default());
        let annotations = annotations.unwrap_or_default();
        for (path, text) in [
            ("manifests/a.yaml", MAP),
            ("deploy/a.yaml", MAP),
            (ANNOTATIONS, &annotations),
        ] {
            files.add(path, 0o644, &mut text.as_bytes()).unwrap();
        }
        let entry = Irregular::link(Kind::Symlink, "../x");
        files.record(link, entry).unwrap();
        let options = Options {
            class: Some(class),
            ..Options::default()
        };
        let conversion = convert::plain(&files.finish(), &options);
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
    for (named, converted) in [
        ("deploy", "deploy"),
        ("/deploy//", "deploy"),
        (" ./deploy/ ", "deploy"),
        ("../deploy", "manifests"),
        (".", "manifests"),
        ("nowhere", "manifests"),
        ("", "manifests"),
    ] {
        let text = format!(
            "annotations: {{operators.operatorframework.io.bundle.manifests.v1: \"{named}\"}}"
        );
        let mut files = Builder::new(Limits::default());
        files.add(ANNOTATIONS, 0o644, &mut text.as_bytes()).unwrap();
        for folder in ["manifests", "deploy"] {
            let broken = format!("{folder}/broken.yaml");
            files.add(&broken, 0o644, &mut "a: [".as_bytes()).unwrap();
            let entry = Irregular::new(Kind::Special);
            files.record(&format!("{folder}/fifo"), entry).unwrap();
        }
        let report = convert::plain(&files.finish(), &Options::default()).report;
        let places = |code| -> Vec<_> {
            let found = report.refusals().filter(|finding| finding.code == code);
            found
                .filter_map(|finding| Some(finding.place.as_ref()?.file.clone()))
                .collect()
        };
        assert_eq!(
            places(Code::Unreadable),
            [format!("{converted}/broken.yaml")],
            "{named:?}"
        );
        assert_eq!(
            places(Code::EntryRefused),
            [format!("{converted}/fifo")],
            "{named:?}"
        );
    }
}
