//! `rukpak catalog render-template`, beside the real opm where it can do the same.

use tests::Registry;

use crate::{
    bundle::{Args as _, Place, csv},
    sources::{Desk, says},
};

const COMMAND: &str = "catalog render-template";

/// Two versions in folders, `old` and `new`.
fn versions(place: &Place) {
    for (folder, version) in [("old", "1.0.0"), ("new", "1.1.0")] {
        let mut csv = csv("tide");
        csv["metadata"]["name"] = format!("tide.v{version}").into();
        csv["spec"]["version"] = version.into();
        csv["spec"].as_object_mut().unwrap().remove("replaces");
        place.bundle(folder, &csv);
    }
}

fn lists(old: &str, new: &str) -> String {
    format!("schema: olm.semver\nstable: {{bundles: [{{image: '{new}'}}, {{image: '{old}'}}]}}\n")
}

#[test]
fn templates_of_images_are_rendered_as_by_opm() {
    let desk = Desk::new();
    versions(&desk.place);
    let registry = Registry::plain();
    let images = ["old", "new"].map(|folder| {
        let image = registry.image(&format!("tide:{folder}"));
        desk.ok(&format!("push {folder} {image} --quiet --tls-verify=false"));
        image
    });
    let [old, new] = &images;
    desk.place.write("t.yaml", lists(old, new));
    desk.place.write(
        "basic.yaml",
        format!("schema: olm.template.basic\nentries: [{{schema: olm.bundle, image: '{old}'}}]\n"),
    );
    for words in [
        "t.yaml",
        "semver t.yaml -o yaml",
        "t.yaml --output=mermaid",
        "t.yaml --migrate-level bundle-object-to-csv-metadata",
        "basic basic.yaml",
        "basic.yaml -o mermaid",
    ] {
        let ours = desk.ok(&format!("{COMMAND} --tls-verify=false {words}"));
        let args = format!("alpha render-template --use-http {words}");
        let theirs = tests::opm(&desk.place.path(""), &args.words());
        assert!(theirs.status.success(), "{words:?}");
        assert_eq!(
            ours.out,
            String::from_utf8(theirs.stdout).unwrap(),
            "{words:?}"
        );
    }
    let absent = registry.image("tide:absent");
    desk.place.write("t.yaml", lists(&absent, new));
    let run = desk.fail(&format!("{COMMAND} --tls-verify=false t.yaml"));
    says(&run.err, &["render reference", &absent], &[new.as_str()]);
    assert_eq!(run.out, "");
}

// parity: render-13
#[test]
fn bundles_may_be_folders_and_archives() {
    let place = Place::new();
    versions(&place);
    place.tar("old.tgz", "-czf", ".", "old");
    place.write("t.yaml", lists("old", "new"));
    place.write("archive.yaml", lists("old.tgz", "./new"));
    let template = "--alpha-image-ref-template=quay.io/tide/bundle:v{{.Version}}";
    let run = |words: &str| place.ok(&format!("{COMMAND} {template} {words}"));
    let expected = run("t.yaml");
    assert_eq!(expected.err, "");
    expected.out_has("\"defaultChannel\": \"stable-v1.1\"");
    expected.out_has("\"replaces\": \"tide.v1.0.0\"");
    expected.out_has("\"image\": \"quay.io/tide/bundle:v1.1.0\"");
    assert_eq!(run("archive.yaml").out, expected.out);
    // What is rendered is a catalog.
    place.write("catalog/a.json", &expected.out);
    place.ok("catalog validate catalog");
    // Without images there is no catalog, but there is output.
    let bare = place.ok(&format!("{COMMAND} t.yaml --migrate-level=all"));
    says(&bare.out, &["\"image\": \"\"", "olm.bundle.object"], &[]);
}

#[test]
fn words_and_streams_are_taken_as_by_opm() {
    let place = Place::new();
    let text = "schema: olm.template.basic\nentries: [{schema: olm.package, name: tide, defaultChannel: a}]\n";
    place.write("t.yaml", text);
    place.write("semver", text);
    for words in [
        "t.yaml",
        "basic t.yaml",
        "basic semver",
        "./semver",
        "",
        "-",
        "basic",
        "basic -",
        "-o yaml -",
    ] {
        let ours = place.run_with(&format!("{COMMAND} {words}"), text.as_bytes());
        let mut child = tests::opm_command(&place.path(""))
            .args(format!("alpha render-template {words}").words())
            .env("TMPDIR", place.path(""))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, text.as_bytes()).unwrap_or_default();
        drop(input);
        let theirs = child.wait_with_output().unwrap();
        assert!(theirs.status.success(), "{words:?}");
        assert_eq!(
            ours.exits(0).out,
            String::from_utf8(theirs.stdout).unwrap(),
            "{words:?}"
        );
    }
    for (words, code, parts) in tests::rows![
        "odd t.yaml", 2 => &["invalid template type \"odd\"", "basic, semver, substitutes"][..];
        "a b c", 2 => &["unexpected"];
        "semver t.yaml", 1 => &["unknown template schema \"olm.template.basic\", should be olm.semver"];
        "semver", 1 => &["stdin: unknown template schema"];
        "absent.yaml", 1 => &["failed to read the template absent.yaml"];
        ".", 1 => &[". is a folder"];
        "t.yaml --max-document-size=10", 1 => &["larger than the limit of 10 bytes", "--max-document-size"];
        "t.yaml -o dot", 2 => &["invalid value 'dot'"];
        "- --username=a --password-file=-", 2 => &["can be only one of them"];
    ] {
        let run = place.run_with(&format!("{COMMAND} {words}"), text.as_bytes());
        says(&run.exits(code).err, parts, &[]);
    }
}

#[test]
fn every_bundle_that_cannot_be_rendered_is_told() {
    let place = Place::new();
    versions(&place);
    place.write("catalog/a.yaml", "schema: a\n");
    place.write("broken/manifests/a.yaml", "kind: A\n");
    place.write("broken/metadata/a.yaml", "a: b\n");
    let images = [
        "new",
        "catalog",
        "absent",
        "broken",
        "-",
        "git+ftp://x",
        "old",
    ];
    let bundles = images.map(|it| format!("{{image: '{it}'}}")).join(", ");
    place.write(
        "t.yaml",
        format!("schema: olm.semver\nfast: {{bundles: [{bundles}]}}\n"),
    );
    let run = place.fail(&format!("{COMMAND} t.yaml"));
    run.err_has("5 of 7 bundles cannot be rendered");
    run.err_has("render reference \"catalog\": it is a catalog");
    run.err_has("render reference \"absent\"");
    run.err_has("render reference \"broken\": no csv in bundle");
    run.err_has("render reference \"-\": standard input is no bundle here");
    run.err_has("render reference \"git+ftp://x\"");
    run.err_lacks("\"new\"");
    run.err_lacks("\"old\"");
    assert_eq!(run.out, "");
}

#[test]
fn what_is_left_out_is_told() {
    let place = Place::new();
    versions(&place);
    place.write("new/manifests/two.yaml", "kind: A\n---\nkind: B\n");
    let text = lists("old", "new") + "---\nschema: a\n";
    place.write("t.yaml", text);
    let run = place.ok(&format!("{COMMAND} t.yaml"));
    run.err_has("warning: t.yaml has more than one document");
    run.err_has("warning: new: found more than one document inside manifests/two.yaml");
    let quiet = place.ok(&format!("{COMMAND} -q t.yaml"));
    assert_eq!((quiet.out, quiet.err.as_str()), (run.out, ""));
}
