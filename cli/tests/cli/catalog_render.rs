//! `rukpak catalog render` and `migrate`, beside the real opm where it can do the same.

use std::fs;

use tests::{Buildah, DATABASE_LABEL, Registry};

use crate::{
    bundle::Place,
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

#[test]
fn archives_and_streams_are_what_they_hold() {
    let place = place();
    place.tar("tide.tgz", "-czf", ".", "tide");
    place.tar("catalog.tar", "-cf", "catalog", ".");
    for (folder, archive) in [("tide", "tide.tgz"), ("catalog", "catalog.tar")] {
        let expected = place.ok(&format!("catalog render {folder}")).out;
        assert_eq!(place.ok(&format!("catalog render {archive}")).out, expected);
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

// parity: render-5
#[test]
fn what_is_left_out_is_told() {
    let place = place();
    place.write("tide/manifests/two.yaml", "kind: A\n---\nkind: B\n");
    place.write(
        "tide/metadata/properties.yaml",
        "properties:\n- type: olm.maxOpenShiftVersion\n  value: 4.10\n",
    );
    place.write("catalog/b.yaml", "schema: olm.channel\nname: lost\n");
    let run = place.ok("catalog render tide catalog");
    run.err_has("warning: tide: found more than one document inside manifests/two.yaml, using only the first one");
    run.err_has("warning: tide: property olm.maxOpenShiftVersion is the unquoted number 4.10; other programs read it as 4.1; write \"4.10\"");
    run.err_has("warning: catalog: a blob of the catalog names no package and is left out");
    // The one difference: opm's catalog blocks every cluster.
    let opm = place.opm(&["render", "tide", "catalog"]);
    assert_eq!(
        run.out,
        opm.replace("\"value\": 4.1\n", "\"value\": \"4.10\"\n")
    );
    assert_ne!(run.out, opm);
    let quiet = place.ok("catalog render -q tide catalog");
    assert_eq!((quiet.out, quiet.err.as_str()), (run.out, ""));
}

// parity: render-3
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
    for (reference, parts) in tests::rows![
        "database.db"
            => &["render reference \"database.db\"", "failed to read the database database.db", "PRAGMA integrity_check"][..];
        "text" => &["render reference \"text\""];
        "nothing/there" => &["render reference \"nothing/there\""];
        "broken" => &[
            "render reference \"broken\"",
            "a.yaml:1: parse package: json: cannot unmarshal array into Go struct field Package.defaultChannel of type string",
        ];
        "bare" => &["render reference \"bare\"", "no csv in bundle"];
    ] {
        let run = place.fail(&format!("catalog render catalog {reference} --timeout=1"));
        says(&run.err, parts, &[]);
        assert_eq!(run.out, "", "{reference}");
    }
    for (args, part) in tests::rows![
        &["--migrate-level", "most"][..] => "unknown migration level \"most\"";
        &["--migrate", "--migrate-level", "all"] => "cannot be used with";
        &["--alpha-image-ref-template", "{{.Channel}}"] => "\".Channel\" is not supported";
        &["-o", "xml"] => "xml";
    ] {
        let run = place
            .run(&[&["catalog", "render", "catalog"][..], args].concat())
            .exits(2);
        says(&run.err, &[part], &[]);
    }
    place.run("catalog render").exits(2);
}

// parity: render-10
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
        let run = place.ok(&[&["catalog", "migrate", "catalog", "ours"][..], args].concat());
        assert_eq!(
            (run.out.as_str(), run.err.as_str()),
            ("", "catalog written to ours\n")
        );
        place.opm(&[&["migrate", "catalog", "theirs"][..], args].concat());
        for file in ["tide/", "ebb/", ""].map(|it| format!("{it}catalog.{format}")) {
            let read = |folder| place.read(&format!("{folder}/{file}"));
            assert_eq!(read("ours"), read("theirs"), "{file}");
        }
        assert_eq!(place.list("ours").len(), 3);
    }
    let run = place.fail("catalog migrate catalog ours");
    says(&run.err, &["output dir \"ours\" must be empty"], &[]);
    let run = place.fail("catalog migrate tide new");
    run.err_has("cannot render bundle directory \"tide\": not allowed");
    assert!(!place.path("new").exists());
}

// parity: render-11
#[test]
fn no_package_leaves_the_folder() {
    for name in ["../out", "..", ".", "a/b", "/tmp/out", "a\\\\b"] {
        let place = Place::new();
        place.write(
            "catalog/a.json",
            format!("{{\"schema\": \"olm.package\", \"name\": \"{name}\"}}"),
        );
        let run = place.fail("catalog migrate catalog in/to");
        run.err_has("invalid package name");
        run.err_has("must be a single local path element");
        assert_eq!(place.list("."), ["catalog"]);
    }
}

// parity: render-8, render-10
#[test]
fn a_catalog_is_written_whole_or_not_at_all() {
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!("{{\"schema\": \"x\", \"package\": \"b\", \"value\": {open}{close}}}")
    };
    let package = |name: &str| format!("{{\"schema\": \"olm.package\", \"name\": \"{name}\"}}");
    for (blobs, format, words) in tests::rows![
        nested(300), "yaml"
            => "a blob of package \"b\" (\"x\") is nested deeper than the 127 levels that are written as YAML; leave it out";
        nested(1001), "json" => "nested deeper than the 1000 levels that are written as JSON";
        package("catalog.json") + "{\"schema\": \"mine\"}", "json"
            => "what belongs to no package is written to a file of that name";
        package(&"b".repeat(256)), "json" => "at most 255 bytes";
    ] {
        let place = Place::new();
        place.write("catalog/a.json", package("a"));
        place.write("catalog/b.json", &blobs);
        for _ in 0..2 {
            let args = ["catalog", "migrate", "catalog", "out", "-o", format];
            let run = place.fail(&args);
            run.err_has(words);
            assert!(!place.path("out").exists(), "{words}");
        }
        let run = place.run(&format!("catalog render catalog -o {format}"));
        if run.code == Some(1) {
            assert_eq!(run.out, "", "{words}");
            run.err_has(words);
            run.err_lacks("standard output");
        }
    }
    // The other way round there is no such file.
    let place = Place::new();
    let blobs = package("catalog.json") + "{\"schema\": \"mine\"}";
    place.write("catalog/a.json", blobs + &nested(120));
    place.ok("catalog migrate catalog out -o yaml");
    assert_eq!(place.list("out"), ["b", "catalog.json", "catalog.yaml"]);
    assert_eq!(place.list("out/catalog.json"), ["catalog.yaml"]);
}

// parity: render-1, render-9
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
        (&bundle, &["--migrate-level=all"]),
    ] {
        let expected = desk
            .place
            .opm(&[&["render", "--use-http", image][..], more].concat());
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
    let migrated = desk.fail(&format!("catalog migrate --tls-verify=false {bundle} new"));
    migrated.err_has("cannot render bundle image");
    migrated.err_has("not allowed");

    let root = publish("root:v1", &format!("LABEL {CONFIGS}=/\n"));
    let out = render(&root, &[]).exits(0).out;
    says(&out, &["\"schema\": \"other\"", "\"name\": \"tide\""], &[]);
    for (image, part) in tests::rows![
        publish("none:v1", "") => "image type could not be determined";
        publish("other:v1", "LABEL a=b\n") => "image type could not be determined, found labels";
        publish("lost:v1", &format!("LABEL {CONFIGS}=/lost\n")) => "names the folder \"lost\", which is not there";
        publish("old:v1", &format!("LABEL {DATABASE_LABEL}=/index.db\n")) => "names the file \"index.db\", which is not there";
        registry.image("absent:v1") => "absent";
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
