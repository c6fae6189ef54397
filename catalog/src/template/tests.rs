use serde_json::Value;

use super::*;
use crate::{
    render::{BundleImageRef, Format, Level},
    testing::{self, has, list, starts},
};

/// Returns images `x/NAME` with these versions; the name is `tide.vVERSION`.
fn bundles(versions: &[(&str, &str)]) -> BTreeMap<String, Bundle> {
    let made = versions.iter().map(|&(image, version)| {
        let content =
            testing::bundle_files("tide", &format!("tide.v{version}"), version, &Value::Null);
        let mut warnings = Vec::new();
        let from = BundleImageRef::Reference(image);
        let bundle = Bundle::read(&content, from, Level::None, &mut warnings).unwrap();
        assert_eq!(warnings, [""; 0]);
        (image.to_owned(), bundle)
    });
    made.collect()
}

fn read(text: &str) -> Result<Template, Error> {
    Template::read("t.yaml", text.as_bytes(), None, &Limits::default())
}

#[test]
fn schema_determines_the_kind() {
    assert_each!(|text, kind| read(text).ok().map(|template| template.kind()) => kind;
        "schema: olm.template.basic" => Some(TemplateKind::Basic);
        "# words\n---\nSchema: olm.template.basic" => Some(TemplateKind::Basic);
        "{\"SCHEMA\": \"olm.template.substitutes\"}" => Some(TemplateKind::Substitutes);
        "schema: olm.semver\nfast: {bundles: [{image: a}]}" => Some(TemplateKind::Semver);
        "schema: olm.template.semver" => None;
        "schema: 7" => None;
        "[]" => None;
        "7" => None;
        "# nothing" => None;
    );
    let text = b"schema: olm.template.basic";
    for kind in TemplateKind::ALL {
        let read = Template::read("t", text, Some(kind), &Limits::default());
        assert_eq!(read.is_ok(), kind == TemplateKind::Basic, "{kind:?}");
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    assert!("Basic".parse::<TemplateKind>().is_err());
}

#[test]
fn ignored_parts_of_templates_are_warnings() {
    let one = "schema: olm.template.basic\n";
    assert_each!(|text, count| read(&text).unwrap().take_warnings().len() => count;
        one.to_owned() => 0;
        format!("{one}---\n") => 0;
        format!("{one}---\n{one}") => 1;
        format!("{one}---\n[\n") => 1;
        format!("{one}---\na: b\n---\n{one}") => 1;
    );
    // Two images with the same name.
    let text = "schema: olm.semver\nfast: {bundles: [{image: a}]}\nstable: {bundles: [{image: b}]}";
    let mut warnings = Vec::new();
    let all = bundles(&[("a", "1.0.0"), ("b", "1.0.0")]);
    read(text).unwrap().render(all, &mut warnings).unwrap();
    let warning = r#""a" and "b" have the same name "tide.v1.0.0""#;
    has(&warnings[0], warning);
    // A blob that belongs to no package.
    let lost = "schema: olm.template.basic\nentries: [{schema: olm.channel, name: lost}]";
    let part = "has no package and is skipped";
    has(&read(lost).unwrap().take_warnings()[0], part);
}

#[test]
fn basic_templates_name_their_bundles_by_image() {
    let text = "schema: olm.template.basic\nentries:\n- {schema: olm.bundle, image: x/b}\n\
                - {schema: olm.bundle, name: ignored, image: x/a}\n- {schema: olm.bundle, image: x/b}\n";
    let template = read(text).unwrap();
    assert_eq!(template.images(), ["x/b", "x/a"]);
    let rendered = template.render(bundles(&[("x/a", "1.1.0")]), &mut Vec::new());
    assert_rows!(rendered.unwrap_err().to_string() => "bundle \"x/b\" was not rendered");
}

#[test]
fn hostile_templates_are_rejected() {
    let basic =
        |entries: &str| format!("{{\"schema\": \"olm.template.basic\", \"entries\": {entries}");
    assert!(read(&basic(&"[".repeat(200_000))).is_err());
    let aliases = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                   d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                   g: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nschema: olm.template.basic\nentries: []\n";
    assert!(read(aliases).is_err());
    let nine = basic("[1, 2, 3, 4, 5, 6, 7, 8, 9]}");
    assert!(Template::read("t", nine.as_bytes(), None, &with!(Limits, values: 10)).is_err());
    let many = basic(&format!("[{}7]}}", "7,".repeat(50_000)));
    let error = read(&many).unwrap_err().to_string();
    assert!(error.len() < 20_000, "{}", error.len());
    has(error, "and 49901 more");
    let long = format!("schema: {}", "a".repeat(1 << 20));
    assert!(read(&long).unwrap_err().to_string().len() < 1000);
}

#[test]
fn max_openshift_in_templates_keeps_its_spelling() {
    let text = "schema: olm.template.substitutes\nentries:\n- {schema: olm.package, name: tide, defaultChannel: a}\n\
        - {schema: olm.channel, package: tide, name: a, entries: [{name: tide.v1}]}\n\
        - {schema: olm.bundle, package: tide, name: tide.v1, image: x/1, properties: [{type: olm.package, value: \
        {packageName: tide, version: 1.0.0}}, {type: olm.maxOpenShiftVersion, value: 4.10}]}\n";
    let rendered = read(text).unwrap().render(BTreeMap::new(), &mut Vec::new());
    let mut out = Vec::new();
    rendered.unwrap().write(Format::Yaml, &mut out).unwrap();
    has(String::from_utf8(out).unwrap(), "value: \"4.10\"");
}

#[test]
fn graph_with_too_many_edges_is_not_drawn() {
    let start = "schema: olm.template.basic\nentries:\n- {schema: olm.channel, package: tide, name: a, entries: [";
    let drawn = |entries: &str, warnings: &mut Vec<String>| {
        let template = read(&format!("{start}{entries}]}}")).unwrap();
        let rendered = template.render(BTreeMap::new(), warnings).unwrap();
        mermaid(&rendered, warnings)
    };
    let many = list(0..1000, |at| {
        format!("{{name: a{at}, skipRange: '<1.0.0'}}, ")
    });
    let error = drawn(&many, &mut Vec::new()).unwrap_err();
    has(error, "more than 500000 edges");
    let mut warnings = Vec::new();
    let graph = drawn("{name: a, skipRange: x}", &mut warnings);
    has(graph.unwrap(), "tide-a-a[\"a\"]");
    let start = r#"ignoring invalid SkipRange for package/edge "tide"/"a""#;
    starts(&warnings[0], start);
}
