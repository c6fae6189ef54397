use std::collections::BTreeMap;

use ::tests::table::assert_outcome;

use super::{
    history::{History, INDEX_IMAGE, INJECTED_BUNDLES, InjectedBundle, InvalidAnnotation, Mode},
    *,
};
use crate::{
    model::Entry,
    testing::{self, channel, content, has, list, package, starts},
};

const PLACE: ChannelRef<'_> = ChannelRef {
    package: "tide",
    channel: "alpha",
};

fn bundle_of(package: &str, version: &str) -> Bundle {
    let name = format!("{package}.v{version}");
    let content = testing::bundle_files(package, &name, version, &Value::Null);
    let image = format!("example.com/{package}:v{version}");
    Bundle::read(&content, &image, Level::None, |_| {}).unwrap()
}

fn bundle(version: &str) -> Bundle {
    bundle_of("tide", version)
}

fn index(blobs: &[Value]) -> Index<'static> {
    let content = content(&[("catalog.json", list(blobs, Value::clone))]);
    let mut render = Render::new(Level::None);
    let read = render.catalog(Source::Content(&content), &Limits::default());
    read.unwrap();
    Index {
        name: "example.com/index:v1",
        rendered: render.finish(),
    }
}

fn blob(package: &str, version: &str) -> Value {
    testing::bundle(package, &format!("{package}.v{version}"), version)
}

fn try_compose<'i>(
    index: impl Into<Option<Index<'i>>>,
    form: ComposeMode,
    bundles: Vec<Bundle>,
) -> Result<ComposedCatalog, Error> {
    compose(index.into(), PLACE, form, bundles, &Limits::default())
}

/// Formats entries as `name<replaces`, in their order.
fn graph(composed: &ComposedCatalog, channel: &str) -> Vec<String> {
    let channel = &composed.catalog.packages["tide"].channels[channel];
    let edge =
        |entry: &Entry| entry.name.clone() + &list(&entry.replaces, |before| format!("<{before}"));
    channel.entries.iter().map(edge).collect()
}

// parity: run-7, run-10, run-11, run-13, sdk-25
#[test]
fn catalog_without_index_has_only_the_bundles() {
    for form in [ComposeMode::Run, ComposeMode::Upgrade] {
        let composed = try_compose(None, form, vec![bundle("0.0.1")]).unwrap();
        assert_eq!(composed.warnings, [""; 0]);
        let documents: Vec<String> = composed.documents().map(Result::unwrap).collect();
        assert_rows!(documents[..2] => [
            "defaultChannel: alpha\nname: tide\nschema: olm.package\n",
            "entries:\n- name: tide.v0.0.1\nname: alpha\npackage: tide\nschema: olm.channel\n",
        ]);
        assert_eq!(documents.len(), 3);
        has(&documents[2], "image: example.com/tide:v0.0.1\n");
    }
    // Several bundles form a chain in their order.
    let bundles = ["0.0.1", "0.0.2", "0.0.10", "0.0.9"].map(bundle).into();
    let expected =
        "tide.v0.0.1 tide.v0.0.2<tide.v0.0.1 tide.v0.0.10<tide.v0.0.2 tide.v0.0.9<tide.v0.0.10";
    assert_rows!(graph(&try_compose(None, ComposeMode::Upgrade, bundles).unwrap(), "alpha").join(" ") => expected);
}

// parity: run-11, run-13, run-20, sdk-12, sdk-24, sdk-25
#[test]
fn content_of_the_index_is_kept() {
    let mut entries = json!([
        {"name": "tide.v0.0.2", "replaces": "tide.v0.0.1", "skipRange": "<0.0.2", "skips": ["tide.v0.0.0"]},
        {"name": "tide.v0.0.1"},
    ]);
    let old = json!([{"reference": {"schema": "olm.channel", "name": "stable"}, "message": "old"}]);
    let blobs = [
        package("tide", "stable"),
        channel("tide", "stable", &json!([{"name": "tide.v0.0.1"}])),
        channel("tide", "alpha", &entries),
        blob("tide", "0.0.1"),
        blob("tide", "0.0.2"),
        json!({"schema": "olm.deprecations", "package": "tide", "entries": old}),
        package("other", "only"),
        channel("other", "only", &json!([{"name": "other.v1.0.0"}])),
        blob("other", "1.0.0"),
        json!({"schema": "example.com/other", "package": "tide", "kept": [1, 2]}),
        json!({"schema": "example.com/other", "kept": true}),
    ];
    let (index, bundles) = (index(&blobs), vec![bundle("0.0.3"), bundle("0.0.4")]);
    let defaults = ["tide", "other", "absent"].map(|package| index.default_channel(package));
    assert_rows!(defaults.each_ref().map(Option::as_deref) => [Some("stable"), Some("only"), None]);
    let composed = try_compose(index, ComposeMode::Upgrade, bundles).unwrap();
    let mut text = Vec::new();
    composed.rendered.write(Format::Json, &mut text).unwrap();
    let documents = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
    let documents: Vec<Value> = documents.map(Result::unwrap).collect();
    for blob in &blobs {
        assert_rows!(documents.contains(blob) => blob["name"] != "alpha", "{blob}");
    }
    assert_eq!(documents.len(), blobs.len() + 2);
    entries.as_array_mut().unwrap().extend([
        json!({"name": "tide.v0.0.3", "replaces": "tide.v0.0.2"}),
        json!({"name": "tide.v0.0.4", "replaces": "tide.v0.0.3"}),
    ]);
    assert_rows!(documents.contains(&channel("tide", "alpha", &entries)) => true, "{documents:#?}");
    assert_rows!(composed.catalog.packages["tide"].default_channel => "stable");
}

/// The tag of an index can be pushed again with the bundles that were injected before.
// parity: sdk-26
#[test]
fn index_may_already_contain_former_bundles() {
    let before = package("tide", "alpha");
    for (entries, of_index, expected) in ::tests::rows![
        // In the same channel, or in another one.
        json!([{"name": "tide.v0.0.1"}, {"name": "tide.v0.0.2", "replaces": "tide.v0.0.1"}]), vec!["0.0.1", "0.0.2"]
            => ["tide.v0.0.1", "tide.v0.0.2<tide.v0.0.1", "tide.v0.0.3<tide.v0.0.2"];
        json!([{"name": "tide.v0.0.1"}]), vec!["0.0.1", "0.0.2"]
            => ["tide.v0.0.1", "tide.v0.0.2<tide.v0.0.1", "tide.v0.0.3<tide.v0.0.2"];
        // The index has newer bundles of its author.
        json!([{"name": "tide.v0.0.2"}, {"name": "tide.v0.1.0", "replaces": "tide.v0.0.2"}]), vec!["0.0.2", "0.1.0"]
            => ["tide.v0.0.2", "tide.v0.1.0<tide.v0.0.2", "tide.v0.0.3<tide.v0.1.0"];
    ] {
        let mut blobs = vec![before.clone(), channel("tide", "alpha", &entries)];
        if entries.as_array().unwrap().len() == 1 {
            blobs.push(channel("tide", "other", &json!([{"name": "tide.v0.0.2"}])));
        }
        blobs.extend(of_index.iter().map(|version| blob("tide", version)));
        let bundles = vec![bundle("0.0.2"), bundle("0.0.3")];
        let composed = try_compose(index(&blobs), ComposeMode::Upgrade, bundles).unwrap();
        assert_eq!(graph(&composed, "alpha"), expected);
        let blobs = composed.rendered.blobs.iter();
        let bundles = blobs.filter(|blob| blob.class == BlobKind::Bundle);
        assert_eq!(bundles.count(), of_index.len() + 1);
        let warning = "the index example.com/index:v1 now contains bundles that were injected before; using those of the \
                       index: tide.v0.0.2";
        assert_eq!(composed.warnings, [warning]);
    }
}

// parity: run-12
#[test]
fn head_is_the_entry_that_no_other_replaces() {
    let entry = |name: &str, replaces: &str, skips: &[&str]| {
        json!({
            "name": format!("tide.v{name}"),
            "replaces": (!replaces.is_empty()).then(|| format!("tide.v{replaces}")),
            "skips": skips.iter().map(|version| format!("tide.v{version}")).collect::<Vec<_>>(),
        })
    };
    for (entries, expected) in ::tests::rows![
        vec![] => Ok(None);
        vec![entry("1", "", &[])] => Ok(Some("tide.v1"));
        vec![entry("2", "1", &[]), entry("1", "", &[])] => Ok(Some("tide.v2"));
        vec![entry("2", "9", &[])] => Ok(Some("tide.v2"));
        // A skipped bundle is never installed, so only one head is left.
        vec![entry("3", "1", &["2"]), entry("2", "1", &[]), entry("1", "", &[])] => Ok(Some("tide.v3"));
        vec![entry("3", "1", &[]), entry("2", "1", &[]), entry("1", "", &[])]
            => Err("*multiple channel heads found in channel \"alpha\" of package \"tide\": tide.v2, tide.v3; *");
        vec![entry("1", "2", &[]), entry("2", "1", &[])] => Err("*no channel head found*");
    ] {
        assert_outcome(channel_head(&entries, PLACE), expected, &entries);
    }
}

// parity: sdk-26
#[test]
fn existing_bundle_or_channel_is_an_error() {
    let blobs = [
        package("tide", "alpha"),
        channel("tide", "alpha", &json!([{"name": "tide.v0.0.1"}])),
        blob("tide", "0.0.1"),
    ];
    for (form, bundles, expected) in ::tests::rows![
        ComposeMode::Run, vec![bundle("0.0.1")] => "bundle \"tide.v0.0.1\" already exists in the index image: example.com/index:v1; ";
        ComposeMode::Run, vec![bundle("0.0.2")] => "channel \"alpha\" already exists in the index image: example.com/index:v1; ";
        ComposeMode::Upgrade, vec![bundle("0.0.2"), bundle("0.0.1")]
            => "bundle \"tide.v0.0.1\" already exists in the Index Image \"example.com/index:v1\"; ";
        ComposeMode::Upgrade, vec![bundle("0.0.2"), bundle("0.0.2")]
            => "bundle \"tide.v0.0.2\" exists twice, as example.com/tide:v0.0.2 and as example.com/tide:v0.0.2; ";
        ComposeMode::Upgrade, vec![bundle_of("other", "0.0.2")]
            => "bundle \"other.v0.0.2\" (example.com/other:v0.0.2) belongs to package \"other\" and not to \"tide\"; ";
        ComposeMode::Upgrade, vec![] => "no bundle to inject";
    ] {
        let error = try_compose(index(&blobs), form, bundles).unwrap_err();
        starts(error, expected);
    }
}

// parity: run-14
#[test]
fn errors_of_other_packages_are_warnings() {
    // Two bundles of one version.
    let mut second = blob("tide", "0.0.2");
    second["name"] = json!("tide.v0.0.2-again");
    let blobs = [
        package("tide", "alpha"),
        channel("tide", "alpha", &json!([{"name": "tide.v0.0.2-again"}])),
        second,
    ];
    let composed = try_compose(index(&blobs), ComposeMode::Upgrade, vec![bundle("0.0.2")]);
    let problem = "duplicate versions found in bundles: [{0.0.2:";
    has(composed.unwrap_err(), problem);
    // The other package has no channel, which is only a warning.
    let other = index(&[package("other", "stable")]);
    let composed = try_compose(other, ComposeMode::Run, vec![bundle("0.0.1")]).unwrap();
    assert_rows!(composed.warnings => ["the index has packages with errors, which some catalog servers reject: other"]);
    let place = with!(ChannelRef, package: "Tide"; ..PLACE);
    let bundles = vec![bundle_of("Tide", "0.0.1")];
    let composed = compose(None, place, ComposeMode::Run, bundles, &Limits::default());
    starts(composed.unwrap_err(), "invalid package name \"Tide\"");
}

// parity: run-8
#[test]
fn history_round_trips() {
    let mut history = with!(History, index: Some("example.com/index:v1".to_owned()));
    history.push("example.com/tide:v1", None).unwrap();
    let second = format!("example.com/tide@sha256:{}", "a".repeat(64));
    history.push(&second, Some(Mode::Semver)).unwrap();
    let written = history.to_annotations();
    starts(
        &written[INJECTED_BUNDLES],
        r#"[{"imageTag":"example.com/tide:v1","mode":"replaces"},{"imageTag":"example.com/tide@sha256:"#,
    );
    assert_eq!(History::read(&written), Ok(history));
    // The name for "no index" denotes an empty index, and implies the other mode.
    let mut none = History::default();
    none.push("example.com/tide:v1", None).unwrap();
    let written = none.to_annotations();
    assert_eq!(written[INDEX_IMAGE], DEFAULT_INDEX);
    assert!(written[INJECTED_BUNDLES].contains("semver"));
    assert_eq!(History::read(&written), Ok(none));
    assert_eq!(History::read(&BTreeMap::new()), Ok(History::default()));
    // A history has at most as many bundles as can be read again.
    let mut full = History::default();
    for number in 0..500 {
        full.push(&format!("a.io/tide:{number}"), None).unwrap();
    }
    let error = full.push("a.io/tide:500", None).unwrap_err();
    starts(error, "the history reached its limit of 500 bundles");
    assert_eq!(History::read(&full.to_annotations()), Ok(full));
}

// parity: run-16
#[test]
fn damaged_history_is_reported_with_a_remedy() {
    let read =
        |key: &str, text: &str| History::read(&BTreeMap::from([(key.to_owned(), text.to_owned())]));
    let one = |mode| {
        vec![InjectedBundle {
            image_tag: "a.io/b".to_owned(),
            mode,
        }]
    };
    assert_each!(|text, expected| read(INJECTED_BUNDLES, text).unwrap().injected => expected;
        r#"[{"imageTag":"a.io/b"}]"# => one(Mode::Semver);
        r#"[{"imageTag":"a.io/b","mode":"replaces","later":1}]"# => one(Mode::Replaces);
        " " => vec![];
        "null" => vec![];
        "[]" => vec![];
    );
    let many = list(0..501, |at| format!(r#",{{"imageTag":"a.io/b:{at}"}}"#));
    let many = format!("[{}]", &many[1..]);
    let enormous = r#"[{"imageTag":"a.io/b","mode":"x"}]"#.replace('x', &"x".repeat(200_000));
    for (key, text, part) in ::tests::rows![
        INJECTED_BUNDLES, "[{" => "not a list of bundles";
        INJECTED_BUNDLES, r#"{"imageTag":"a.io/b"}"# => "not a list of bundles";
        INJECTED_BUNDLES, r#"[{"imageTag":3}]"# => "not a list of bundles";
        INJECTED_BUNDLES, r#"[{"imageTag":"a.io/b","mode":"x"}]"# => "not a list of bundles";
        INJECTED_BUNDLES, r#"[{"imageTag":"A B"}]"# => "A B";
        INJECTED_BUNDLES, r#"[{"imageTag":""}]"# => "is malformed";
        INJECTED_BUNDLES, r#"[{"imageTag":"a.io/b"},{"imageTag":"a.io/b"}]"# => "a.io/b is listed twice";
        INJECTED_BUNDLES, &many => "exceed the limit of 500";
        INJECTED_BUNDLES, &enormous => "not a list of bundles";
        INDEX_IMAGE, "not an image" => "not an image";
    ] {
        let error: InvalidAnnotation = read(key, text).unwrap_err();
        let message = error.to_string();
        starts(&message, &format!("annotation {key} is malformed: "));
        has(&message, part);
        has(&message, "; set it to the ");
        assert!(message.len() < 1000, "{message}");
        // Only a reader of the index knows the meaning of this value.
        assert_rows!(message.contains("remove the annotation") => key == INDEX_IMAGE, "{message}");
    }
}
