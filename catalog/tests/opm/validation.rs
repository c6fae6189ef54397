//! Comparison with `opm validate`: both accept the input, or both reject it for the same reason.
//!
//! The rows are the acceptance list of loading, conversion and validation, each with a unique name. opm reports one
//! finding or a tree of findings, and so does [`Catalog::as_opm`]. The comparison is exact, except for the text that
//! [`Reason`] removes.

mod conversion;
mod properties;
mod trees;

use catalog::{Catalog, load};
use serde_json::{Value, json};
use tests::table::matches;

use crate::{
    testing::{bundle, chained, channel, lines, object},
    *,
};

type Files<'a> = &'a [(&'a str, &'a str)];

/// Returns opm's message; `None` if opm accepts the input.
fn theirs(dir: &Path) -> Option<String> {
    let output = tests::opm(dir, &["validate", ".", "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = report["error"]["message"].as_str().map(str::to_owned);
    assert_eq!(report["passed"] == true, message.is_none());
    message
}

/// Asserts that both accept the files, or reject them for the same reason. Returns our findings as `line: message`.
#[track_caller]
fn same(row: &str, files: Files<'_>) -> String {
    let dir = directory(files);
    let catalog: Catalog = load(Source::Directory(dir.path()), &Limits::default()).unwrap();
    let (rukpak, theirs) = (catalog.as_opm(), theirs(dir.path()));
    let same = match (&rukpak, &theirs) {
        (Some(rukpak), Some(theirs)) => {
            Reason::from_message(rukpak).is(&Reason::from_message(theirs))
        }
        (rukpak, theirs) => rukpak.is_none() && theirs.is_none(),
    };
    assert!(same, "{row}\n  ours: {rukpak:?}\n  opm:  {theirs:?}");
    messages(&catalog)
}

/// Asserts that both render a file to the same output, or reject it for the same reason.
#[track_caller]
fn same_rendered(text: &str) {
    let dir = directory(&[("catalog", text)]);
    assert_same_in(&["."], dir.path(), None, "none", Format::Json);
}

fn messages(catalog: &Catalog) -> String {
    let findings = catalog.findings.iter();
    let found = findings.map(|found| format!("{}: {}", found.line.unwrap(), found.message));
    found.collect::<Vec<_>>().join("\n")
}

/// Compares rows of one file with opm, and our findings with a pattern. The name of a row continues that of its list.
#[track_caller]
fn check(list: &str, rows: &[(&str, String, &str)]) {
    for (row, text, expected) in rows {
        let row = format!("{list} {row}");
        let found = same(&row, &[("catalog", text)]);
        let is_expected = matches(expected, &found);
        assert!(is_expected, "{row}:\n{found}\nnot\n{expected}");
    }
}

/// Two bundles in one channel.
fn sound() -> Vec<Value> {
    let bundles =
        ["0.1.0", "0.2.0"].map(|version| bundle("foo", &format!("foo.v{version}"), version));
    chained("foo", "alpha", &bundles)
}

fn changed(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut documents = sound();
    change(&mut documents);
    lines(&documents)
}

/// Returns the valid package with one more property in its last bundle.
fn with(property: Value) -> String {
    changed(|c| c[3]["properties"].as_array_mut().unwrap().push(property))
}

fn property(type_: &str, value: &Value) -> String {
    with(json!({"type": type_, "value": value}))
}

// parity: load-1, load-5, load-6, load-7
#[test]
fn loading() {
    let sound_ = lines(&sound());
    let rows: &[(&str, &str)] = &tests::rows![
        "1 neither YAML nor JSON" => "\u{1}";
        "1 text" => "# Read me: [";
        "1 a JSON list" => "[]";
        "1 a list behind an object" => "{\"schema\":\"x\"} [1]";
        "1 a number" => "7";
        "1 a text" => "\"x\"";
        "1 a scalar" => "x";
        "1 no schema" => "{\"name\": \"x\"}";
        "1 an empty schema" => "{\"schema\": \"\"}";
        "1 broken JSON" => "{\"schema\": \"x\"}\n{\"schema\": \"y\"}\n{\"schema\": tru}";
        "1 JSON that ends" => "{\"schema\": \"x\"}\n{\"schema\": \"y\"}\n{\"schema\": ";
        "1 broken JSON alone" => "{\"schema\" \"x\"}";
        "1 JSON that has only begun" => "{";
        "1 a package's name" => "schema: olm.package\nname: 7";
        "1 an icon that is a text" => "schema: olm.package\nname: a\nicon: x";
        "1 an icon of a number" => "schema: olm.package\nname: a\nicon: {base64data: 7}";
        "1 a description of a list" => "schema: olm.package\nname: a\ndescription: []";
        "1 properties of a text" => "schema: olm.package\nname: a\nproperties: x";
        "1 a property of a number" => "schema: olm.package\nname: a\nproperties: [7]";
        "1 a property's type" => "schema: olm.package\nname: a\nproperties: [{type: 7}]";
        "1 two at once: the first by name" => "schema: olm.package\nname: a\ndescription: 7\ndefaultChannel: true";
        "1 skips of a text" => "schema: olm.channel\nname: a\nentries: [{skips: x}]";
        "1 a channel's property" => "schema: olm.channel\nname: a\nproperties: [{type: []}]";
        "1 a bundle's package" => "schema: olm.bundle\npackage: 7";
        "1 a bundle's image" => "schema: olm.bundle\nname: a\nimage: []";
        "1 a related image" => "schema: olm.bundle\nname: a\nrelatedImages: [7]";
        "1 a related image's image" => "schema: olm.bundle\nname: a\nrelatedImages: [{image: 1.50}]";
        "1 a reference of a text" => "schema: olm.deprecations\nentries: [{reference: x}]";
        "1 a reference's name" => "schema: olm.deprecations\nentries: [{reference: {name: true}}]";
        "1 a message of a number" => "schema: olm.deprecations\nentries: [{message: 1}]";
        "1 an unknown schema" => "schema: x\nanything: [1]";
        "4 several objects in one file" => &sound_;
        "4 comments behind separators" => "---\nschema: x\n--- # one\nschema: z # two\n---\n";
        "4 text behind a separator" => "schema: x\n--- y\nschema: y";
        "4 nothing but comments" => "# nothing";
        "4 broken YAML" => "schema: x\nname: [\n";
        "5 keys of any case" => "{\"SCHEMA\": \"x\", \"Name\": \"y\", \"pacKage\": \"z\"}";
        "5 keys that fold to one" => "{\"Schema\": \"x\", \"schema\": \"x\"}";
        "5 other keys that fold to one" => "schema: other\nname: x\nschema2: 1\nSchema2: 2";
        "5 a schema of a number" => "schema: 7";
        "5 a schema of a list" => "{\"schema\": [\"a\"]}";
    ];
    for (row, text) in rows {
        same(&format!("E.1 row {row}"), &[("catalog", text)]);
        same_rendered(text);
    }
    let of = |schema: &str, rest: &str| format!("schema: olm.{schema}\nname: a\n{rest}");
    let rows = tests::rows![
        "a package of another type", of("package", "defaultChannel: [x]")
            => "1: parse package: json: cannot unmarshal array into Go struct field Package.defaultChannel of type string";
        "a lost package", changed(|c| c[0]["defaultChannel"] = json!(["a"]))
            => "1: parse package: json: cannot unmarshal array into Go struct field Package.defaultChannel of type string\n\
                2: unknown package \"foo\" for channel \"alpha\"\n3: unknown package \"foo\" for bundle \"foo.v0.1.0\"\n\
                4: unknown package \"foo\" for bundle \"foo.v0.2.0\"";
        "an icon without base64", of("package", "icon: {base64data: 'YQ=?'}")
            => "1: parse package: illegal base64 data at input byte 2";
        "entries of a map", of("channel", "entries: {}")
            => "1: parse channel: json: cannot unmarshal object into Go struct field Channel.entries of type []declcfg.ChannelEntry";
        "an entry of a text", of("channel", "entries: [x]")
            => "1: parse channel: json: cannot unmarshal string into Go struct field Channel.entries of type declcfg.ChannelEntry";
        "an entry's name", of("channel", "entries: [{name: {}}]")
            => "1: parse channel: json: cannot unmarshal object into Go struct field ChannelEntry.entries.name of type string";
        "a skip of a number", of("channel", "entries: [{skips: [7]}]")
            => "1: parse channel: json: cannot unmarshal number into Go struct field ChannelEntry.entries.skips of type string";
        "a reference of a list", of("deprecations", "entries: [{reference: []}]")
            => "1: parse deprecation: json: cannot unmarshal array into Go struct field DeprecationEntry.entries.reference of \
                type declcfg.PackageScopedReference";
    ];
    check("E.1 row 1", &rows);
    for (_, text, _) in &rows {
        same_rendered(text);
    }
    let objects: &[(&str, Value)] = &tests::rows![
        "6 YAML becomes JSON" => object("kind: ConfigMap\ndata: {a: b}\n");
        "6 a ClusterServiceVersion" => object("kind: ClusterServiceVersion\nspec: {minKubeVersion: 1.28.0}\n");
        "6 a version that is a number" => object("kind: ClusterServiceVersion\nspec: {minKubeVersion: 1.28}\n");
        "6 garbage that begins like JSON" => object("{");
        "6 garbage" => object("a: [");
        "6 no object" => object("[]");
        "6 nothing" => object("");
        // Rows for base64 are in `go_json::tests`.
        "6 no base64" => json!({"type": "olm.bundle.object", "value": {"data": "?"}});
        "6 data of a number" => json!({"type": "olm.bundle.object", "value": {"data": 7}});
        "6 a value of a number" => json!({"type": "olm.bundle.object", "value": 7});
        "6 a value of null" => json!({"type": "olm.bundle.object", "value": null});
        "6 no value" => json!({"type": "olm.bundle.object"});
    ];
    for (row, property) in objects {
        let text = with(property.clone());
        same(&format!("E.1 row {row}"), &[("catalog", &text)]);
    }
}

// parity: load-3, load-4
#[test]
fn files() {
    let sound = lines(&sound());
    let sound = sound.as_str();
    let rows: &[(&str, Files<'_>, &str)] = &tests::rows![
        "1 the second of two files", &[("a", sound), ("b", "{")] => "1: unexpected end of JSON input*";
        "2 an empty directory", &[(".indexignore", "")] => "";
        "3 only YAML and JSON",
            &[("catalog.json", sound), ("README.md", "# ["), ("x/y.txt", "["), (".indexignore", "*\n!*.yaml\n!*.json\n")] => "";
        "3 names by pattern",
            &[("a", sound), ("x.clusterserviceversion.yaml", "kind: A"), (".indexignore", "*.clusterserviceversion.yaml")] => "";
        "3 indented lines", &[("a", sound), ("b.md", "["), (".indexignore", "  # *\n\t*.md\n")] => "";
        "3 one directory's own", &[("a", sound), ("x/b.md", "["), ("x/.indexignore", "*.md")] => "";
        "3 not above that directory", &[("a", sound), ("b.md", "["), ("x/.indexignore", "*.md")] => "*YAML to JSON*";
        "3 the list itself", &[("a", sound), (".indexignore", "# [\n!.indexignore")] => "";
        "3 a directory", &[("a", sound), ("x/b.md", "["), (".indexignore", "x/")] => "";
        "3 a file in a directory", &[("a", sound), ("x/b.md", "["), ("x/c", "schema: x"), (".indexignore", "x/\n!x/c")] => "";
        "4 one package in two files", &[("a", sound), ("b", "schema: x\npackage: foo")] => "";
    ];
    for (row, files, expected) in rows {
        let found = same(&format!("E.1 row {row}"), files);
        assert!(matches(expected, &found), "{row}: {found}");
    }
}
