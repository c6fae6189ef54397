//! `rukpak catalog render` and `migrate`, beside the real opm where it can do the same.

use std::{fs, os::unix::fs::symlink};

use serde_json::json;
use tests::{Buildah, DATABASE_LABEL, Registry};

use crate::{
    bundle::{Place, Run},
    sources::{Desk, says},
};

const CONFIGS: &str = "operators.operatorframework.io.index.configs.v1";

const CATALOG: &str = "schema: olm.package\nname: tide\ndefaultChannel: stable\n---\n\
    schema: olm.channel\nname: stable\npackage: tide\nentries: [{name: tide}]\n---\n\
    schema: x\nn: 1.50\n";

/// A catalog in `catalog`, and a bundle in `tide`.
fn place() -> Place {
    let place = Place::new();
    place.good("tide");
    place.write("catalog/a.yaml", CATALOG);
    place
}

/// What opm prints.
fn opm(place: &Place, args: &[&str]) -> String {
    let run = tests::opm(&place.path(""), args);
    let run: Run = run.into();
    run.exits(0).out
}

#[test]
fn folders_are_rendered_as_by_opm() {
    let place = place();
    for args in [
        &["catalog"][..],
        &["tide"],
        &["tide", "catalog", "-o", "yaml"],
        &["catalog", "tide", "--migrate-level=none", "--output=json"],
        &[
            "tide",
            "--migrate",
            "--alpha-image-ref-template=x/{{.Package}}:{{.Version}}",
        ],
        &[
            "tide",
            "--migrate-level",
            "all",
            "-oyaml",
            "--alpha-image-ref-template",
            "a",
        ],
    ] {
        let run = place
            .run(&[&["catalog", "render"][..], args].concat())
            .exits(0);
        assert_eq!(
            run.out,
            opm(&place, &[&["render"][..], args].concat()),
            "{args:?}"
        );
        assert_eq!(run.err, "");
    }
}

#[test]
fn archives_and_streams_are_what_they_hold() {
    let place = place();
    place.tar("tide.tgz", "-czf", ".", "tide");
    place.tar("catalog.tar", "-cf", "catalog", ".");
    for (folder, archive) in [("tide", "tide.tgz"), ("catalog", "catalog.tar")] {
        let expected = place.run(&["catalog", "render", folder]).exits(0).out;
        assert_eq!(
            place.run(&["catalog", "render", archive]).exits(0).out,
            expected
        );
        let bytes = fs::read(place.path(archive)).unwrap();
        assert_eq!(
            place
                .run_with(&["catalog", "render", "-"], &bytes)
                .exits(0)
                .out,
            expected
        );
    }
}

#[test]
fn what_is_left_out_is_told() {
    let place = place();
    place.write("tide/manifests/two.yaml", "kind: A\n---\nkind: B\n");
    place.write(
        "tide/metadata/properties.yaml",
        "properties:\n- type: olm.maxOpenShiftVersion\n  value: 4.10\n",
    );
    place.write("catalog/b.yaml", "schema: olm.channel\nname: lost\n");
    let run = place
        .run(&["catalog", "render", "tide", "catalog"])
        .exits(0);
    says(
        &run.err,
        &[
            "warning: tide: found more than one document inside manifests/two.yaml, using only the first one",
            "warning: tide: property olm.maxOpenShiftVersion is the unquoted number 4.10; opm reads it as 4.1; write \"4.10\"",
            "warning: catalog: a blob of the catalog names no package and is left out",
        ],
        &[],
    );
    // The one difference: opm's catalog blocks every cluster.
    let opm = opm(&place, &["render", "tide", "catalog"]);
    assert_eq!(
        run.out,
        opm.replace("\"value\": 4.1\n", "\"value\": \"4.10\"\n")
    );
    assert_ne!(run.out, opm);
    let quiet = place
        .run(&["catalog", "render", "-q", "tide", "catalog"])
        .exits(0);
    assert_eq!((quiet.out, quiet.err.as_str()), (run.out, ""));
}

#[test]
fn a_reference_that_cannot_be_rendered_is_named() {
    let place = place();
    place.write("database.db", b"SQLite format 3\0rest");
    place.write("text", "kind: A");
    place.write(
        "broken/a.yaml",
        "schema: olm.package\ndefaultChannel: [a]\n",
    );
    place.write("bare/manifests/a.yaml", "kind: A\n");
    place.write("bare/metadata/a.yaml", "a: b\n");
    for (reference, parts) in [
        (
            "database.db",
            &[
                "render reference \"database.db\"",
                "failed to read the database database.db",
                "PRAGMA integrity_check",
            ][..],
        ),
        ("text", &["render reference \"text\""]),
        ("nothing/there", &["render reference \"nothing/there\""]),
        (
            "broken",
            &[
                "render reference \"broken\"",
                "a.yaml:1: parse package: json: cannot unmarshal array into Go struct field Package.defaultChannel of type string",
            ],
        ),
        ("bare", &["render reference \"bare\"", "no csv in bundle"]),
    ] {
        let run = place
            .run(&["catalog", "render", "catalog", reference, "--timeout=1"])
            .exits(1);
        says(&run.err, parts, &[]);
        assert_eq!(run.out, "", "{reference}");
    }
    for (args, part) in [
        (
            &["--migrate-level", "most"][..],
            "unknown migration level \"most\"",
        ),
        (
            &["--migrate", "--migrate-level", "all"],
            "cannot be used with",
        ),
        (
            &["--alpha-image-ref-template", "{{.Channel}}"],
            "\".Channel\" is not supported",
        ),
        (&["-o", "xml"], "xml"),
    ] {
        let run = place
            .run(&[&["catalog", "render", "catalog"][..], args].concat())
            .exits(2);
        says(&run.err, &[part], &[]);
    }
    place.run(&["catalog", "render"]).exits(2);
}

#[test]
fn catalogs_are_written_into_a_folder_for_each_package() {
    let place = place();
    place.write(
        "catalog/b.json",
        "{\"schema\": \"olm.package\", \"name\": \"ebb\"}",
    );
    for (format, args) in [
        ("json", &[][..]),
        ("yaml", &["-o", "yaml"]),
        ("json", &["--migrate-level=all"]),
    ] {
        for folder in ["ours", "theirs"] {
            let _ = fs::remove_dir_all(place.path(folder));
        }
        let run = place
            .run(&[&["catalog", "migrate", "catalog", "ours"][..], args].concat())
            .exits(0);
        assert_eq!(
            (run.out.as_str(), run.err.as_str()),
            ("", "catalog written to ours\n")
        );
        opm(
            &place,
            &[&["migrate", "catalog", "theirs"][..], args].concat(),
        );
        for file in ["tide/", "ebb/", ""].map(|it| format!("{it}catalog.{format}")) {
            let read = |folder| place.read(&format!("{folder}/{file}"));
            assert_eq!(read("ours"), read("theirs"), "{file}");
        }
        assert_eq!(place.list("ours").len(), 3);
    }
    let run = place
        .run(&["catalog", "migrate", "catalog", "ours"])
        .exits(1);
    says(&run.err, &["output dir \"ours\" must be empty"], &[]);
    let run = place.run(&["catalog", "migrate", "tide", "new"]).exits(1);
    says(
        &run.err,
        &["cannot render bundle directory \"tide\": not allowed"],
        &[],
    );
    assert!(!place.path("new").exists());
}

#[test]
fn no_package_leaves_the_folder() {
    for name in ["../out", "..", ".", "a/b", "/tmp/out", "a\\\\b"] {
        let place = Place::new();
        place.write(
            "catalog/a.json",
            format!("{{\"schema\": \"olm.package\", \"name\": \"{name}\"}}"),
        );
        let run = place
            .run(&["catalog", "migrate", "catalog", "in/to"])
            .exits(1);
        says(
            &run.err,
            &[
                "invalid package name",
                "must be a single local path element",
            ],
            &[],
        );
        assert_eq!(place.list("."), ["catalog"]);
    }
}

#[test]
fn a_catalog_is_written_whole_or_not_at_all() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("{{\"schema\": \"x\", \"package\": \"b\", \"value\": {open}{close}}}")
    };
    let package = |name: &str| format!("{{\"schema\": \"olm.package\", \"name\": \"{name}\"}}");
    for (blobs, format, words) in [
        (
            nested(300),
            "yaml",
            "a blob of package \"b\" (\"x\") is nested deeper than the 127 levels that are written as YAML; leave it out",
        ),
        (
            nested(1001),
            "json",
            "nested deeper than the 1000 levels that are written as JSON",
        ),
        (
            package("catalog.json") + "{\"schema\": \"mine\"}",
            "json",
            "what belongs to no package is written to a file of that name",
        ),
        (package(&"b".repeat(256)), "json", "at most 255 bytes"),
    ] {
        let place = Place::new();
        place.write("catalog/a.json", package("a"));
        place.write("catalog/b.json", &blobs);
        for _ in 0..2 {
            let args = ["catalog", "migrate", "catalog", "out", "-o", format];
            let run = place.run(&args).exits(1);
            assert!(run.err.contains(words), "{words}: {run:?}");
            assert!(!place.path("out").exists(), "{words}");
        }
        let run = place.run(&["catalog", "render", "catalog", "-o", format]);
        if run.code == Some(1) {
            assert_eq!(run.out, "", "{words}");
            assert!(run.err.contains(words), "{run:?}");
            assert!(!run.err.contains("standard output"), "{run:?}");
        }
    }
    // The other way round there is no such file.
    let place = Place::new();
    let blobs = package("catalog.json") + "{\"schema\": \"mine\"}";
    place.write("catalog/a.json", blobs + &nested(120));
    place
        .run(&["catalog", "migrate", "catalog", "out", "-o", "yaml"])
        .exits(0);
    assert_eq!(place.list("out"), ["b", "catalog.json", "catalog.yaml"]);
    assert_eq!(place.list("out/catalog.json"), ["catalog.yaml"]);
}

#[test]
fn links_in_bundles_are_followed_or_refused() {
    let place = place();
    let expected = place.run(&["catalog", "render", "tide"]).exits(0).out;
    let (map, moved) = (
        place.path("tide/manifests/map.yaml"),
        place.path("tide/map.yaml"),
    );
    fs::rename(map, moved).unwrap();
    symlink("../map.yaml", place.path("tide/manifests/map.yaml")).unwrap();
    let run = place.run(&["catalog", "render", "tide"]).exits(0);
    assert_eq!((run.out, run.err.as_str()), (expected, ""));
    symlink("/etc/hostname", place.path("tide/manifests/link.yaml")).unwrap();
    let run = place.run(&["catalog", "render", "tide"]).exits(1);
    let refused = "entry \"manifests/link.yaml\" is a symbolic link to \"/etc/hostname\", not a regular file; replace";
    says(&run.err, &[refused], &[]);
}

#[test]
fn images_are_rendered_as_by_opm() {
    let desk = Desk::new();
    desk.place.write("catalog/configs/a.yaml", CATALOG);
    desk.place.write("catalog/other/a.yaml", "schema: other\n");
    let registry = Registry::plain();
    let buildah = Buildah::new();
    let publish = |name: &str, labels: &str| {
        let image = registry.image(name);
        let file = format!("FROM scratch\nCOPY catalog /\n{labels}");
        buildah.publish(&file, &desk.place.path(""), &image, &[]);
        image
    };
    let bundle = registry.image("tide:v1");
    desk.push(&bundle, &["--tls-verify=false"], &[]);
    let catalog = publish("catalog:v1", &format!("LABEL {CONFIGS}=/configs\n"));
    let render = |image: &str, more: &[&str]| {
        let args = [
            &["catalog", "render", "--tls-verify=false", image][..],
            more,
        ]
        .concat();
        desk.run(&args)
    };
    for (image, more) in [
        (&catalog, &[][..]),
        (&catalog, &["-o", "yaml"]),
        (&bundle, &[]),
        (&bundle, &["--migrate", "-o", "yaml"]),
    ] {
        let expected = opm(
            &desk.place,
            &[&["render", "--use-http", image][..], more].concat(),
        );
        assert_eq!(
            render(image, more).exits(0).out,
            expected,
            "{image} {more:?}"
        );
    }
    let expected = render(&bundle, &[]).exits(0).out;
    assert_eq!(
        render(&format!("docker://{bundle}"), &[]).exits(0).out,
        expected
    );
    let migrated = desk
        .run(&["catalog", "migrate", "--tls-verify=false", &bundle, "new"])
        .exits(1);
    says(
        &migrated.err,
        &["cannot render bundle image", "not allowed"],
        &[],
    );

    let root = publish("root:v1", &format!("LABEL {CONFIGS}=/\n"));
    let out = render(&root, &[]).exits(0).out;
    says(&out, &["\"schema\": \"other\"", "\"name\": \"tide\""], &[]);
    for (image, part) in [
        (publish("none:v1", ""), "image type could not be determined"),
        (
            publish("other:v1", "LABEL a=b\n"),
            "image type could not be determined, found labels",
        ),
        (
            publish("lost:v1", &format!("LABEL {CONFIGS}=/lost\n")),
            "names the folder \"lost\", which is not there",
        ),
        (
            publish("old:v1", &format!("LABEL {DATABASE_LABEL}=/index.db\n")),
            "names the file \"index.db\", which is not there",
        ),
        (registry.image("absent:v1"), "absent"),
    ] {
        let run = render(&image, &[]).exits(1);
        says(&run.err, &["render reference", part], &[]);
        assert_eq!(run.out, "");
    }
    buildah.push(
        &buildah.build(
            &format!("FROM scratch\nCOPY catalog /\nLABEL {CONFIGS}=/configs\n"),
            &desk.place.path(""),
            &[],
        ),
        &format!("oci:{}", desk.place.path("layout").display()),
        &[],
    );
    let expected = render(&catalog, &[]).exits(0).out;
    assert_eq!(render("oci:layout", &[]).exits(0).out, expected);
}

/// A catalog that has the manifests of its bundles, and a bundle that names its images itself.
#[test]
fn images_are_migrated_as_by_opm() {
    let desk = Desk::new();
    let registry = Registry::plain();
    let template = "--alpha-image-ref-template=quay.io/a/old:v1";
    let whole = desk.run(&["catalog", "render", "tide", template]).exits(0);
    says(&whole.out, &["olm.bundle.object", "quay.io/a/old:v1"], &[]);
    desk.place.write("catalog/configs/a.yaml", CATALOG);
    desk.place.write("catalog/configs/b.json", whole.out);
    let objects = registry.image("objects:v1");
    let file = format!("FROM scratch\nCOPY catalog /\nLABEL {CONFIGS}=/configs\n");
    Buildah::new().publish(&file, &desk.place.path(""), &objects, &[]);
    let mut csv = crate::bundle::csv("tide");
    csv["spec"]["relatedImages"] = json!([
        {"name": "z", "image": "quay.io/z/z@sha256:aa"},
        {"name": "twice", "image": "tide.example.com/tide:1.2.3"},
        {"name": "a", "image": "quay.io/a/a:v1"},
    ]);
    desk.place.bundle("tide", &csv);
    let related = registry.image("tide:v1");
    desk.push(&related, &["--tls-verify=false"], &[]);
    for (image, more, part, not) in [
        (&objects, &[][..], "olm.bundle.object", "olm.csv.metadata"),
        (
            &objects,
            &["--migrate"],
            "olm.csv.metadata",
            "olm.bundle.object",
        ),
        (
            &objects,
            &["--migrate", "-o", "yaml"],
            "type: olm.csv.metadata",
            "olm.bundle.object",
        ),
        (&related, &[], "\"name\": \"twice\"", "olm.csv.metadata"),
        (
            &related,
            &["--migrate", "-o", "yaml"],
            "name: twice",
            "olm.bundle.object",
        ),
    ] {
        let args = ["catalog", "render", "--tls-verify=false", image];
        let ours = desk.run(&[&args[..], more].concat()).exits(0).out;
        let args = ["render", "--use-http", image];
        assert_eq!(ours, opm(&desk.place, &[&args[..], more].concat()));
        says(&ours, &[part], &[not]);
    }
}
