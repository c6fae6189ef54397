mod substitutes;

use serde_json::{Value, json};

use super::*;
use crate::{
    render::{Format, Image, Level},
    testing::{content, has, list, starts},
};

/// A bundle of package `tide`, with changes of its ClusterServiceVersion and its package.
fn bundle(
    image: &str,
    name: &str,
    version: &str,
    change: impl FnOnce(&mut Value, &mut String),
) -> Bundle {
    let mut csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name},
        "spec": {"version": version, "install": {"strategy": "deployment"}},
    });
    let mut package = "tide".to_owned();
    change(&mut csv, &mut package);
    let annotations =
        json!({"annotations": {"operators.operatorframework.io.bundle.package.v1": package}});
    let content = content(&[
        ("manifests/csv.yaml", csv.to_string()),
        ("metadata/annotations.yaml", annotations.to_string()),
    ]);
    let mut warnings = Vec::new();
    let image = Image::Reference(image);
    let bundle = Bundle::read(&content, image, Level::None, &mut warnings).unwrap();
    assert_eq!(warnings, [""; 0]);
    bundle
}

/// Images `x/NAME` with these versions; the name is `tide.vVERSION`.
fn bundles(versions: &[(&str, &str)]) -> BTreeMap<String, Bundle> {
    let made = versions.iter().map(|&(image, version)| {
        let bundle = bundle(image, &format!("tide.v{version}"), version, |_, _| {});
        (image.to_owned(), bundle)
    });
    made.collect()
}

fn read(text: &str) -> Result<Template, Error> {
    Template::read("t.yaml", text.as_bytes(), None, &Limits::default())
}

/// The blobs of the catalog, without what bundles say of themselves.
fn rendered(text: &str, bundles: BTreeMap<String, Bundle>) -> Result<Vec<Value>, String> {
    let template = read(text).map_err(|it| it.to_string())?;
    let rendered = template.render(bundles, &mut Vec::new());
    let rendered = rendered.map_err(|it| it.to_string())?;
    let mut out = Vec::new();
    rendered.write(Format::Json, &mut out).unwrap();
    let blobs = serde_json::Deserializer::from_slice(&out).into_iter::<Value>();
    let mut blobs: Vec<Value> = blobs.map(Result::unwrap).collect();
    for blob in blobs.iter_mut().filter_map(Value::as_object_mut) {
        blob.retain(|key, _| !["properties", "relatedImages"].contains(&key.as_str()));
    }
    Ok(blobs)
}

fn names(blobs: &[Value]) -> Vec<String> {
    let name = |blob: &Value| blob["name"].as_str().unwrap_or_default().to_owned();
    blobs.iter().map(name).collect()
}

fn fails(text: &str, versions: &[(&str, &str)], parts: &[&str]) {
    let error = rendered(text, bundles(versions)).unwrap_err();
    for part in parts {
        assert!(error.contains(part), "{text}\n{error}\nlacks {part}");
    }
}

#[test]
fn the_schema_tells_the_kind() {
    for (text, kind) in ::tests::rows![
        "schema: olm.template.basic" => Some(Kind::Basic);
        "# words\n---\nSchema: olm.template.basic" => Some(Kind::Basic);
        "{\"SCHEMA\": \"olm.template.substitutes\"}" => Some(Kind::Substitutes);
        "schema: olm.semver\nfast: {bundles: [{image: a}]}" => Some(Kind::Semver);
        "schema: olm.template.semver" => None;
        "schema: olm.package" => None;
        "name: a" => None;
        "schema: 7" => None;
        "[]" => None;
        "7" => None;
        "" => None;
        "# nothing" => None;
        "schema: [" => None;
    ] {
        assert_eq!(read(text).ok().map(|it| it.kind()), kind, "{text:?}");
    }
    let text = b"schema: olm.template.basic";
    for kind in Kind::ALL {
        let read = Template::read("t", text, Some(kind), &Limits::default());
        assert_eq!(read.is_ok(), kind == Kind::Basic, "{kind:?}");
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    assert!("Basic".parse::<Kind>().is_err());
}

#[test]
fn further_documents_are_told() {
    let one = "schema: olm.template.basic\n";
    for (text, told) in [
        (one.to_owned(), 0),
        (format!("{one}---\n"), 0),
        (format!("{one}---\n{one}"), 1),
        (format!("{one}---\n[\n"), 1),
        (format!("{one}---\na: b\n---\n{one}"), 1),
    ] {
        assert_eq!(read(&text).unwrap().take_warnings().len(), told, "{text:?}");
    }
}

#[test]
fn basic_templates_name_their_bundles_by_image() {
    let text = "
schema: olm.template.basic
unknown: fields are left alone
entries:
- {schema: olm.package, name: tide, defaultChannel: stable}
- {schema: olm.channel, package: tide, name: stable, entries: [{name: tide.v1.0.0}]}
- {schema: olm.bundle, image: x/b}
- {schema: olm.bundle, name: ignored, image: x/a}
- {schema: olm.bundle, image: x/b}
- {schema: own, b: 1, a: [2.50]}
";
    let template = read(text).unwrap();
    assert_eq!(template.images(), ["x/b", "x/a"]);
    let blobs = rendered(text, bundles(&[("x/a", "1.1.0"), ("x/b", "1.0.0")])).unwrap();
    let expected = "tide stable tide.v1.0.0 tide.v1.0.0 tide.v1.1.0 ";
    assert_eq!(names(&blobs).join(" "), expected);
    assert_eq!(blobs[5], json!({"schema": "own", "b": 1, "a": [2.5]}));
    let error = rendered(text, bundles(&[("x/a", "1.1.0")])).unwrap_err();
    assert_eq!(error, "bundle \"x/b\" is not rendered");
    let lost = "schema: olm.template.basic\nentries: [{schema: olm.channel, name: lost}]";
    let mut template = read(lost).unwrap();
    assert!(template.take_warnings()[0].contains("names no package and is left out"));
}

#[test]
fn everything_wrong_with_a_basic_template_is_told() {
    fails(
        "
schema: olm.template.basic
entries:
- {schema: olm.bundle, image: x/a, package: tide, properties: [{type: a, value: b}]}
- {schema: olm.bundle, image: x/b, relatedImages: [{image: c}]}
- {schema: olm.bundle}
- {name: a}
-
- [a]
- {schema: a, Schema: b}
- {schema: olm.package, defaultChannel: [a]}
",
        &[],
        &[
            "8 problems",
            "\"x/a\": package, properties",
            "\"x/b\": relatedImages",
            "must have an image",
            "entries[3]: object '{\"name\":\"a\"}' is missing root schema field",
            "entries[4]: object '' is missing",
            "entries[5]: json: cannot unmarshal array",
            "entries[6]: duplicate keys for key \"schema\"",
            "parse package: json: cannot unmarshal array into Go struct field Package.defaultChannel",
        ],
    );
    let map = "schema: olm.template.basic\nentries: {a: b}";
    fails(map, &[], &["cannot unmarshal object"]);
}

#[test]
fn a_package_takes_its_looks_from_the_head_of_the_default_channel() {
    let text = "
Schema: olm.semver
GenerateMajorChannels: true
Candidate: {Bundles: [{Image: x/3}]}
Stable:
  Bundles:
  - Image: x/2
  - Image: x/1
";
    let looks = |text: &str, icon: Value| {
        let text = text.to_owned();
        move |csv: &mut Value, _: &mut String| {
            csv["spec"]["description"] = json!(text);
            csv["spec"]["icon"] = icon;
        }
    };
    let with = |icon: Value| {
        let svg = json!([{"base64data": "YQ==", "mediatype": "a"}]);
        BTreeMap::from(::tests::rows![
            "x/1".to_owned() => bundle("x/1", "tide.v1.0.0", "1.0.0", looks("old", svg.clone()));
            "x/2".to_owned() => bundle("x/2", "tide.v1.1.0", "1.1.0", looks("Tides", icon));
            "x/3".to_owned() => bundle("x/3", "tide.v2.0.0", "2.0.0", looks("new", svg));
        ])
    };
    for (icon, expected) in ::tests::rows![
        json!(null) => json!(null);
        json!([]) => json!(null);
        json!("YQ==") => json!(null);
        json!([{"base64data": "!", "mediatype": "a"}]) => json!(null);
        json!([{"base64data": "YQ==", "mediatype": 7}]) => json!(null);
        json!([{"base64data": "YQ=="}, 7]) => json!(null);
        json!([{"base64data": "YQ\n==", "mediaType": "svg", "more": 1}, {"base64data": "Yg=="}])
            => json!({"base64data": "YQ==", "mediatype": "svg"});
        json!([{}]) => json!({"base64data": null, "mediatype": ""});
    ] {
        let blobs = rendered(text, with(icon.clone())).unwrap();
        let mut package = json!({"schema": "olm.package", "name": "tide", "defaultChannel": "stable-v1", "description": "Tides"});
        if !expected.is_null() {
            package["icon"] = expected;
        }
        assert_eq!(blobs[0], package, "{icon}");
        let others = "candidate-v2 stable-v1 tide.v1.0.0 tide.v1.1.0 tide.v2.0.0";
        assert_eq!(names(&blobs)[1..].join(" "), others);
    }
}

#[test]
fn everything_wrong_with_lists_of_versions_is_told() {
    for (text, parts) in ::tests::rows![
        "stable: {bundles: []}" => &["no bundles specified"][..];
        "stable: null" => &["no bundles specified"];
        "stable: {bundles: [{image: a}, {image: b}, {}, {image: a}, {image: ''}]}\nfast: {bundles: [null]}\n\
         defaultChannelTypePreference: middle" => &[
             "5 problems", "fast: bundles[0] names no image", "stable: bundles[2] names no image",
             "stable: bundles[4] names no image", "stable: duplicate bundle \"a\"", "unknown DefaultChannelTypePreference",
        ];
        "stable: {bundles: [{image: a}]}\nStable: {bundles: [{image: b}]}" => &["duplicate keys for key \"stable\""];
        "stable: {bundles: [{image: a}]}\nstable: {bundles: [{image: b}]}" => &["t.yaml:3: key \"stable\" is there twice"];
        "stable: {bundles: [{image: a, image: b}]}" => &["t.yaml:2: key \"image\" is there twice"];
        "stabel: {bundles: [{image: a}]}" => &["unknown field \"stabel\""];
        "stable: {bundles: [{name: a}]}" => &["unknown field \"name\""];
        "stable: [{image: a}]" => &["cannot unmarshal array"];
        "stable: {bundles: {image: a}}" => &["cannot unmarshal object"];
        "generateMajorChannels: 'true'" => &["cannot unmarshal string"];
    ] {
        fails(&format!("schema: olm.semver\n{text}"), &[], parts);
    }
    let json = r#"{"schema": "olm.semver", "fast": {"bundles": [{"image": "a", "image": "b"}]}}"#;
    fails(json, &[], &["key \"image\" is there twice"]);
}

#[test]
fn everything_wrong_with_the_bundles_of_a_list_is_told() {
    let text = "schema: olm.semver\nfast: {bundles: [{image: a}, {image: b}, {image: c}, {image: d}, {image: e}]}\n\
                stable: {bundles: [{image: e}]}";
    let mut all = bundles(&[("a", "1.0.0+a"), ("b", "1.0.0+b")]);
    all.insert("c".into(), bundle("c", "tide.v1.0.0+a", "1.1.0", |_, _| {}));
    all.insert("d".into(), bundle("d", "tide.v2", "2", |_, _| {}));
    let other = |_: &mut Value, package: &mut String| *package = "ebb".to_owned();
    all.insert("e".into(), bundle("e", "ebb.v3.0.0", "3.0.0", other));
    let error = rendered(text, all).unwrap_err();
    for part in [
        "4 problems",
        "fast: bundles \"tide.v1.0.0+a\" and \"tide.v1.0.0+b\" have the versions 1.0.0+a and 1.0.0+b",
        "fast: duplicate bundle name \"tide.v1.0.0+a\"",
        "d: bundle \"tide.v2\" has an invalid version",
        "bundle \"e\" is of package \"ebb\" and does not belong to this package: \"tide\"",
    ] {
        assert!(error.contains(part), "{error}\nlacks {part}");
    }
}

#[test]
fn two_images_with_one_name_are_told() {
    let text = "schema: olm.semver\nfast: {bundles: [{image: a}]}\nstable: {bundles: [{image: b}]}";
    let mut warnings = Vec::new();
    let all = bundles(&[("a", "1.0.0"), ("b", "1.0.0")]);
    read(text).unwrap().render(all, &mut warnings).unwrap();
    let named = "\"a\" and \"b\" are both called \"tide.v1.0.0\"";
    has(&warnings[0], named);
}

#[test]
fn hostile_templates_are_refused() {
    let basic =
        |entries: &str| format!("{{\"schema\": \"olm.template.basic\", \"entries\": {entries}");
    assert!(read(&basic(&"[".repeat(200_000))).is_err());
    let aliases = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n\
                   d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
                   g: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nschema: olm.template.basic\nentries: []\n";
    assert!(read(aliases).is_err());
    let limits = with!(Limits, values: 10);
    let nine = basic("[1, 2, 3, 4, 5, 6, 7, 8, 9]}");
    assert!(Template::read("t", nine.as_bytes(), None, &limits).is_err());
    let many = basic(&format!("[{}7]}}", "7,".repeat(50_000)));
    let error = read(&many).unwrap_err().to_string();
    assert!(error.len() < 20_000, "{}", error.len());
    has(error, "and 49901 more");
    let long = format!("schema: {}", "a".repeat(1 << 20));
    assert!(read(&long).unwrap_err().to_string().len() < 1000);
}

#[test]
fn maxima_within_templates_stay_what_was_written() {
    let text = "schema: olm.template.substitutes\nentries:\n\
        - {schema: olm.package, name: tide, defaultChannel: a}\n\
        - {schema: olm.channel, package: tide, name: a, entries: [{name: tide.v1}]}\n\
        - {schema: olm.bundle, package: tide, name: tide.v1, image: x/1, properties: [{type: olm.package, value: \
        {packageName: tide, version: 1.0.0}}, {type: olm.maxOpenShiftVersion, value: 4.10}]}\n";
    let rendered = read(text).unwrap().render(BTreeMap::new(), &mut Vec::new());
    let mut out = Vec::new();
    rendered.unwrap().write(Format::Yaml, &mut out).unwrap();
    has(String::from_utf8(out).unwrap(), "value: \"4.10\"");
}

#[test]
fn a_graph_of_too_many_edges_is_not_drawn() {
    let start = "schema: olm.template.basic\nentries:\n- {schema: olm.channel, package: tide, name: a, entries: [";
    let drawn = |entries: &str, warnings: &mut Vec<String>| {
        let template = read(&format!("{start}{entries}]}}")).unwrap();
        mermaid(
            &template.render(BTreeMap::new(), warnings).unwrap(),
            warnings,
        )
    };
    let many = list(0..1000, |at| {
        format!("{{name: a{at}, skipRange: '<1.0.0'}}, ")
    });
    let part = "more than 500000 edges";
    has(drawn(&many, &mut Vec::new()).unwrap_err(), part);
    let mut warnings = Vec::new();
    let error = drawn("{name: a, skipRange: x}", &mut warnings).unwrap();
    has(error, "tide-a-a[\"a\"]");
    let told_part = "ignoring invalid SkipRange for package/edge \"tide\"/\"a\"";
    starts(&warnings[0], told_part);
}
