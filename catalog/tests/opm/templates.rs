//! Catalog templates. opm accepts only bundles from registries, so the tests use a real registry.

use std::collections::BTreeMap;

use catalog::{
    render::Bundle,
    template::{Template, TemplateKind, mermaid},
};
use serde_json::{Value, json};
use tests::Registry;
use unpacker::{
    Access, Content,
    access::{Trust, Verify},
    registry::{BundleImage, push},
};

use crate::*;

/// Tags, names, versions, and further fields of the ClusterServiceVersion.
fn operators() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let looks = |text: &str, icon: Value| json!({"spec": {"description": text, "icon": icon}});
    let svg = json!([{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}]);
    let rebuilt = json!({"metadata": {"annotations": {"olm.substitutesFor": "tide.v1.1.0"}}});
    let plain = "100 tide.v1.0.0 1.0.0, 101 tide.v1.0.1 1.0.1, 1010 tide.v1.0.10 1.0.10, 111 tide.v1.1.1 1.1.1, \
        rc2 tide.v2.0.0-rc.2 2.0.0-rc.2, rc10 tide.v2.0.0-rc.10 2.0.0-rc.10, zero tide.v0.0.0-alpha 0.0.0-alpha, \
        a tide.v3.0.0-a 3.0.0+a, b tide.v3.0.0-b 3.0.0+b, twin tide.v1.0.0 1.0.2, same tide.again 1.0.0, odd tide.odd 1, \
        built tide.v1.1.0-1 1.1.0+0.1, other ebb.v1.0.0 1.0.0";
    let plain = tests::pairs(plain).map(|(tag, bundle)| {
        let (name, version) = bundle.split_once(' ').unwrap();
        (tag, name, version, Value::Null)
    });
    let others = tests::rows![
        "110", "tide.v1.1.0", "1.1.0" => looks("Tides <&> more", svg.clone());
        "150", "tide.v1.5.0", "1.5.0" => looks("", json!([{"base64data": "!"}]));
        "200", "tide.v2.0.0", "2.0.0" => looks("not those of the package", svg);
        "rebuilt", "tide-v1.1.0-0.1", "1.1.0+0.1" => rebuilt;
        "icon-null", "tide.v1.9.0", "1.9.0" => looks("null", json!(null));
        "icon-none", "tide.v1.9.0", "1.9.0" => looks("no icon", json!([]));
        "icon-text", "tide.v1.9.0", "1.9.0" => looks("text", json!("YQ=="));
        "icon-data", "tide.v1.9.0", "1.9.0" => looks("no base64", json!([{"base64data": "!", "mediatype": "a"}]));
        "icon-type", "tide.v1.9.0", "1.9.0" => looks("a number", json!([{"base64data": "YQ==", "mediatype": 7}]));
        "icon-list", "tide.v1.9.0", "1.9.0" => looks("not all are icons", json!([{"base64data": "YQ=="}, 7]));
        "icon-two", "tide.v1.9.0", "1.9.0" => looks(
            "the first of two",
            json!([{"base64data": "YQ\n==", "mediaType": "svg", "more": 1}, {"base64data": "Yg=="}]),
        );
        "icon-empty", "tide.v1.9.0", "1.9.0" => looks("empty", json!([{}]));
    ];
    plain.chain(others).collect()
}

/// A registry with all of these bundles.
struct Fixture {
    registry: Registry,
    contents: BTreeMap<String, Content>,
}

impl Fixture {
    fn new() -> Self {
        let registry = Registry::plain();
        let access = with!(Access, trust: with!(Trust, verify: Verify::Never));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let mut contents = BTreeMap::new();
        for (tag, name, version, more) in operators() {
            let package = if tag == "other" { "ebb" } else { "tide" };
            let content = testing::bundle_files(package, name, version, &more);
            let image = registry.image(&format!("tide:{tag}"));
            let made = BundleImage::new(&content).unwrap();
            let target = image.parse().unwrap();
            runtime.block_on(push(&target, &made, &access)).unwrap();
            contents.insert(image, content);
        }
        Self { registry, contents }
    }

    /// Renders a template with both programs. The first flag can be its kind, and `@TAG` stands for an image.
    fn both(&self, template: &str, flags: &[&str]) -> [Result<String, String>; 2] {
        let text = template.replace('@', &self.registry.image("tide:"));
        let kind = flags.first().and_then(|arg| arg.parse().ok());
        let (first, rest) = flags.split_at(usize::from(kind.is_some()));
        let start = &["alpha", "render-template", "--use-http"][..];
        let args = [start, first, &["t.yaml"], rest].concat();
        let rukpak = self.rukpak_output(&text, kind, rest);
        let rukpak = rukpak.map_err(|error| error.to_string());
        [rukpak, run(directory(&[("t.yaml", &text)]).path(), &args)]
    }

    fn rukpak_output(
        &self,
        text: &str,
        kind: Option<TemplateKind>,
        flags: &[&str],
    ) -> Result<String, Box<dyn std::error::Error>> {
        let value = |flag: &str| {
            let at = flags.iter().position(|arg| *arg == flag);
            at.map(|at| flags[at + 1])
        };
        let level = value("--migrate-level").unwrap_or("none").parse().unwrap();
        let template = Template::read("t.yaml", text.as_bytes(), kind, &Limits::default())?;
        let (mut bundles, mut warnings) = (BTreeMap::new(), Vec::new());
        for image in template.images() {
            let content = self.contents.get(image);
            let content = content.ok_or_else(|| format!("{image} does not exist"))?;
            let name = BundleImageRef::Reference(image);
            let bundle = Bundle::read(content, name, level, &mut warnings);
            bundles.insert(image.to_owned(), bundle.unwrap());
        }
        let rendered = template.render(bundles, &mut warnings)?;
        Ok(match value("-o") {
            Some("mermaid") => mermaid(&rendered, &mut warnings)?,
            Some("yaml") => print(&rendered, Format::Yaml),
            _ => print(&rendered, Format::Json),
        })
    }

    fn same(&self, template: &str, flags: &[&str]) {
        match self.both(template, flags) {
            [Ok(rukpak), Ok(theirs)] => same(&rukpak, &theirs),
            other => panic!("{template}\n{flags:?}\n{other:#?}"),
        }
    }

    /// Asserts that both reject the template, and that our message has these parts, between dots.
    fn rejected(&self, template: &str, flags: &[&str], parts: &str) {
        match self.both(template, flags) {
            [Err(rukpak), Err(theirs)] => assert!(
                parts.split(" · ").all(|part| rukpak.contains(part)),
                "{template}\nours: {rukpak}\nopm: {theirs}"
            ),
            other => panic!("{template}\n{flags:?}\n{other:#?}"),
        }
    }
}

const BASIC: &str = "
Schema: olm.template.basic
ignored: yes
entries:
- {schema: olm.package, name: tide, defaultChannel: stable, icon: {base64data: PHN2Zy8+, mediatype: svg}}
- {schema: olm.channel, package: tide, name: stable, entries: [
    {name: tide.v1.0.0}, {name: tide.v1.0.1, skips: [tide.v1.0.0]},
    {name: tide.v1.1.0, replaces: tide.v1.0.1, skips: [tide.v1.0.0], skipRange: '>=1.0.0 <1.1.0'}]}
- {schema: olm.channel, package: tide, name: beta, entries: [{name: tide.v1.1.0, skipRange: '<1.1.0'}]}
- {schema: olm.bundle, image: '@110'}
- {schema: olm.bundle, name: any, image: '@100'}
- {schema: olm.bundle, image: '@101'}
- {schema: olm.deprecations, package: tide, entries: [
    {reference: {schema: olm.bundle, name: tide.v1.0.0}, message: old},
    {reference: {schema: olm.bundle, name: tide.v1.1.0}, message: odd},
    {reference: {schema: olm.channel, name: beta}, message: none}, {reference: {schema: olm.package}, message: all}]}
- {schema: own, package: tide, z: 1.50, a: <&>}
- {Schema: own.too, list: [b, {c: 1, a: 2}]}
";

const SEMVER: &str = "
Schema: olm.semver
GenerateMajorChannels: true
GenerateMinorChannels: true
Candidate:
  Bundles: [{Image: '@200'}, {Image: '@100'}, {Image: '@rc10'}, {Image: '@rc2'}, {Image: '@150'}, {Image: '@101'}]
Fast:
  Bundles: [{Image: '@150'}, {Image: '@1010'}, {Image: '@101'}, {Image: '@110'}, {Image: '@111'}, {Image: '@100'}]
Stable:
  Bundles: [{Image: '@110'}, {Image: '@1010'}, {Image: '@100'}]
";

fn substitutes(entries: &str, substitutions: &str) -> String {
    let bundles = testing::list(["1.0.0", "1.1.0", "1.2.0"], |version| {
        format!(
            "- {{schema: olm.bundle, package: tide, name: tide.v{version}, image: 'quay.io/tide/tide:v{version}', properties: \
             [{{type: olm.package, value: {{packageName: tide, version: {version}}}}}]}}\n"
        )
    });
    format!(
        "schema: olm.template.substitutes\nentries:\n- {{schema: olm.package, name: tide, defaultChannel: stable}}\n\
         - {{schema: olm.channel, package: tide, name: stable, properties: [{{type: a, value: {{c: 1, b: 2}}}}], entries: \
         [{entries}]}}\n\
         - {{schema: olm.channel, package: tide, name: beta, entries: [{{name: tide.v1.1.0, skips: [tide.v1.0.0]}}]}}\n\
         {bundles}- {{schema: own, package: tide, a: b}}\nsubstitutions: [{substitutions}]\n"
    )
}

const LINE: &str = "{name: tide.v1.0.0, skipRange: '<1.0.0'}, {name: tide.v1.1.0, replaces: tide.v1.0.0, skips: [tide.v0.9.0]}, \
                    {name: tide.v1.2.0, replaces: tide.v1.1.0}";

// parity: render-13
#[test]
fn templates_are_rendered_as_by_opm() {
    let fixture = Fixture::new();
    let thrice = "{name: '@101', base: tide.v1.0.0}, {name: '@111', base: tide.v1.1.0}, {name: '@150', base: tide.v1.2.0}";
    let twice = substitutes(LINE, thrice);
    for template in [BASIC, SEMVER, &twice] {
        fixture.same(template, &[]);
        let migrated = "--migrate-level bundle-object-to-csv-metadata -o yaml";
        for flags in ["-o yaml", "-o mermaid", migrated] {
            fixture.same(template, &flags.split(' ').collect::<Vec<_>>());
        }
    }
    fixture.same(BASIC, &["basic"]);
    fixture.same(SEMVER, &["semver"]);
    fixture.same(&twice, &["substitutes"]);
    let one = "{schema: olm.bundle, image: '@100'}";
    for text in [
        // The same bundle twice; an empty template.
        format!("schema: olm.template.basic\nentries: [{one}, {one}]"),
        "schema: olm.template.basic".to_owned(),
        r#"{"schema": "olm.template.basic", "entries": [{"schema": "olm.bundle", "image": "@100"}]} {"more": 1}"#.to_owned(),
        // No kind of channels, one of both, and the preferred kind.
        SEMVER.replace("Generate", "generate").replace(": true", ": false"),
        SEMVER.replace("GenerateMinorChannels: true\n", ""),
        SEMVER.replace("GenerateMajorChannels: true\n", ""),
        format!("{SEMVER}DefaultChannelTypePreference: major\n"),
        format!("{SEMVER}DefaultChannelTypePreference: minor\n"),
        SEMVER.replace(": true", ": false") + "DefaultChannelTypePreference: minor\n",
        SEMVER.replace("GenerateMinorChannels: true", "DefaultChannelTypePreference: major"),
        // Only candidates, and the lowest possible version.
        "schema: olm.semver\ncandidate: {bundles: [{image: '@zero'}]}".to_owned(),
        "schema: olm.semver\ncandidate: {bundles: [{image: '@zero'}, {image: '@100'}]}\ngenerateMajorChannels: true".to_owned(),
        "schema: olm.semver\nstable: {bundles: [{image: '@a'}]}\nfast: {bundles: [{image: '@b'}]}".to_owned(),
        "schema: olm.semver\nfast: {bundles: [{image: '@150'}, {image: '@100'}]}\ngenerateMajorChannels: true".to_owned(),
        r#"{"schema": "olm.semver", "fast": {"bundles": [{"image": "@200"}, {"image": "@rc2"}, {"image": "@100"}]}}"#.to_owned(),
    ] {
        fixture.same(&text, &[]);
    }
    // The package takes its icon from the head of its default channel: invalid icons, and valid ones.
    for tag in "150 icon-null icon-none icon-text icon-data icon-type icon-list icon-two icon-empty"
        .split(' ')
    {
        let list = format!("schema: olm.semver\nfast: {{bundles: [{{image: '@{tag}'}}]}}");
        fixture.same(&list, &[]);
    }
    for (entries, substitutions) in tests::rows![
        LINE => "";
        LINE => "{name: '@101', base: tide.v1.0.0}";
        LINE => "{name: '@rebuilt', base: tide.v1.1.0}";
        LINE => "{name: '@111', base: tide.v1.1.0}";
        LINE => "{name: '@111', base: tide.v1.1.0}, {name: '@150', base: tide.v1.1.1}";
        "{name: tide.v1.0.0}, {name: tide.v1.1.0}, {name: tide.v1.2.0, skips: [tide.v1.0.0, tide.v1.1.0]}"
            => "{name: '@101', base: tide.v1.0.0}";
        "{name: tide.v1.0.0}, {name: tide.v1.1.0}, {name: tide.v1.2.0, skips: [tide.v1.1.0, tide.v1.0.0]}"
            => "{name: '@101', base: tide.v1.0.0}, {name: '@111', base: tide.v1.1.0}";
    ] {
        fixture.same(&substitutes(entries, substitutions), &[]);
    }
}

// parity: render-13
#[test]
fn invalid_templates_are_rejected_as_by_opm() {
    let fixture = Fixture::new();
    for (template, flags, part) in tests::rows![
        "schema: olm.template.basic", &["semver"][..] => "should be olm.semver";
        "schema: olm.template.basic", &["substitutes"] => "should be olm.template.substitutes";
        "schema: olm.semver", &["basic"] => "should be olm.template.basic";
        "", &[] => "is empty";
        "schema: [", &[] => "error converting YAML to JSON";
        "name: a", &[] => "missing root schema field";
        "schema: olm.package", &[] => "unknown template schema";
        r#"{"schema": "olm.semver", "fast": {"bundles": [{"image": "a", "image": "b"}]}}"#, &[] => "key \"image\" occurs twice";
    ] {
        fixture.rejected(template, flags, part);
    }
    for (entries, part) in tests::rows![
        "a" => "cannot unmarshal";
        "[{a: b}]" => "missing root schema field";
        "[{schema: olm.bundle}]" => "must have an image";
        "[{schema: olm.bundle, image: '@100', package: tide}]" => "unexpected fields";
        "[{schema: olm.bundle, image: '@absent'}]" => "does not exist";
        "{a: b}" => "cannot unmarshal object";
    ] {
        let template = format!("schema: olm.template.basic\nentries: {entries}");
        fixture.rejected(&template, &[], part);
    }
    for (lists, part) in tests::rows![
        "" => "no bundles specified";
        "stable: {bundles: []}" => "no bundles specified";
        "stable: null" => "no bundles specified";
        "stable: {bundles: [{image: a}]}\nStable: {bundles: [{image: b}]}" => "duplicate keys for key \"stable\"";
        "stable: {bundles: [{image: a}]}\nstable: {bundles: [{image: b}]}" => "t.yaml:3: key \"stable\" occurs twice";
        "stable: {bundles: [{image: a, image: b}]}" => "t.yaml:2: key \"image\" occurs twice";
        "stable: {bundles: [{name: a}]}" => "unknown field \"name\"";
        "stable: [{image: a}]" => "cannot unmarshal array";
        "stable: {bundles: {image: a}}" => "cannot unmarshal object";
        "generateMajorChannels: 'true'" => "cannot unmarshal string";
        "fast: {bundles: [{image: ''}]}" => "has no image";
        "slow: {bundles: []}" => "unknown field \"slow\"";
        "fast: {bundles: [{image: '@100'}, {image: '@100'}]}" => "duplicate bundle";
        "fast: {bundles: [{image: '@100'}, {image: '@twin'}]}" => "fast: duplicate bundle name \"tide.v1.0.0\"";
        "fast: {bundles: [{image: '@100'}, {image: '@same'}]}" => "cannot be ordered";
        "fast: {bundles: [{image: '@a'}, {image: '@b'}]}"
            => "fast: bundles \"tide.v3.0.0-a\" and \"tide.v3.0.0-b\" have the versions 3.0.0+a and 3.0.0+b, which cannot be ordered";
        "fast: {bundles: [{image: '@100'}]}\nstable: {bundles: [{image: '@other'}]}"
            => "tide:other\" is of package \"ebb\" and does not belong to this package: \"tide\"";
        "fast: {bundles: [{image: '@odd'}]}" => "tide:odd: bundle \"tide.odd\" has an invalid version";
        "fast: {bundles: [{image: '@100'}, {image: '@twin'}, {image: '@a'}, {image: '@b'}, {image: '@odd'}, {image: '@other'}]}"
            => "5 problems";
        "defaultChannelTypePreference: major\nfast: {bundles: [{image: '@100'}]}" => "set GenerateMajorChannels";
        "generateMajorChannels: true\ndefaultChannelTypePreference: minor\nfast: {bundles: [{image: '@100'}]}"
            => "set GenerateMinorChannels";
        "generateMajorChannels: true\ndefaultChannelTypePreference: Major\nfast: {bundles: [{image: '@100'}]}"
            => "unknown DefaultChannelTypePreference \"Major\"";
        "stable: {bundles: [{image: a}, {image: b}, {}, {image: a}, {image: ''}]}\nfast: {bundles: [null]}\n\
         defaultChannelTypePreference: middle" => "5 problems · fast: bundles[0] has no image · stable: bundles[2] has no \
            image · stable: bundles[4] has no image · stable: duplicate bundle \"a\" · unknown DefaultChannelTypePreference";
    ] {
        fixture.rejected(&format!("schema: olm.semver\n{lists}"), &[], part);
    }
    for (substitutions, part) in tests::rows![
        "{base: tide.v1.0.0}" => "name cannot be empty";
        "{name: '@101'}" => "base cannot be empty";
        "{name: a, base: a}" => "cannot be the same";
        "{name: '@101', base: tide.v7.0.0}" => "base bundle \"tide.v7.0.0\" does not exist in catalog";
        "{name: '@100', base: tide.v1.1.0}" => "base bundle \"tide.v1.1.0\" is not less than";
        // Build metadata alone does not define an order.
        "{name: '@built', base: tide.v1.1.0}" => "base bundle \"tide.v1.1.0\" is not less than";
        "{name: '@a', base: tide.v1.1.0}, {name: '@b', base: tide.v1.1.0}" => "the same substitution base";
        "{name: '@a', base: tide.v1.1.0}, {name: '@a', base: tide.v1.0.0}" => "for different bases";
        "{name: '@110', base: tide.v1.0.0}" => "resulting config is not valid FBC";
        "{name: '@other', base: tide.v1.0.0}" => "error processing substitution";
        "{name: '', base: a}, {name: a}, {name: a, base: a}, {name: b, base: a}, {name: b, base: c}, null" => "7 problems · \
            substitutions[0]: substitution name cannot be empty · substitutions[1]: substitution base cannot be empty · \
            substitutions[2]: substitution name and base cannot be the same · cannot reuse the same substitution base \"a\" · \
            cannot reuse the same substitution \"b\" for different bases (\"a\" and \"c\") · \
            substitutions[5]: substitution name cannot be empty";
    ] {
        fixture.rejected(&substitutes(LINE, substitutions), &[], part);
    }
    // All problems are reported together.
    let basic = "schema: olm.template.basic
entries:
- {schema: olm.bundle, image: x/a, package: tide, properties: [{type: a, value: b}]}
- {schema: olm.bundle, image: x/b, relatedImages: [{image: c}]}
- {schema: olm.bundle}
- {name: a}
-
- [a]
- {schema: a, Schema: b}
- {schema: olm.package, defaultChannel: [a]}
";
    let parts = "8 problems · \"x/a\": package, properties · \"x/b\": relatedImages · must have an image · \
         entries[3]: object '{\"name\":\"a\"}' is missing root schema field · entries[4]: object '' is missing · \
         entries[5]: json: cannot unmarshal array · entries[6]: duplicate keys for key \"schema\" · \
         parse package: json: cannot unmarshal array into Go struct field Package.defaultChannel";
    fixture.rejected(basic, &[], parts);
    let headless = substitutes("{name: tide.v1.0.0, replaces: tide.v1.0.0}", "");
    fixture.rejected(&headless, &[], "entries are not valid FBC");
    let second = "schema: olm.template.substitutes\nentries: [{schema: olm.channel, name: a, package: b}, 7]";
    fixture.rejected(second, &[], "entries[1]");
}
