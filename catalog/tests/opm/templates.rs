//! Templates of catalogs. opm takes bundles of registries alone, so there is a real one.

use std::collections::BTreeMap;

use catalog::{
    render::Bundle,
    template::{Kind, Template, mermaid},
};
use serde_json::{Value, json};
use tests::Registry;
use unpacker::{
    Access, Content,
    access::{Trust, Verify},
    registry::{BundleImage, push},
};

use crate::*;

/// Tags, names, versions, and what else there is in a ClusterServiceVersion.
fn operators() -> Vec<(&'static str, &'static str, &'static str, Value)> {
    let icon = json!([{"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"}]);
    let looks = json!({"spec": {"description": "Tides <&> more", "icon": icon}});
    let rebuilt = json!({"metadata": {"annotations": {"olm.substitutesFor": "tide.v1.1.0"}}});
    let none = Value::Null;
    let odd = json!({"spec": {"icon": "odd", "description": "odd icon"}});
    let empty = json!({"spec": {"icon": [{"base64data": "!"}], "description": ""}});
    tests::rows![
        "100", "tide.v1.0.0", "1.0.0" => none.clone();
        "101", "tide.v1.0.1", "1.0.1" => none.clone();
        "1010", "tide.v1.0.10", "1.0.10" => none.clone();
        "icon", "tide.v1.9.0", "1.9.0" => odd;
        "110", "tide.v1.1.0", "1.1.0" => looks.clone();
        "111", "tide.v1.1.1", "1.1.1" => none.clone();
        "150", "tide.v1.5.0", "1.5.0" => empty;
        "200", "tide.v2.0.0", "2.0.0" => looks;
        "rc2", "tide.v2.0.0-rc.2", "2.0.0-rc.2" => none.clone();
        "rc10", "tide.v2.0.0-rc.10", "2.0.0-rc.10" => none.clone();
        "zero", "tide.v0.0.0-alpha", "0.0.0-alpha" => none.clone();
        "a", "tide.v3.0.0-a", "3.0.0+a" => none.clone();
        "b", "tide.v3.0.0-b", "3.0.0+b" => none.clone();
        "twin", "tide.v1.0.0", "1.0.2" => none.clone();
        "same", "tide.again", "1.0.0" => none.clone();
        "odd", "tide.odd", "1" => none.clone();
        "rebuilt", "tide-v1.1.0-0.1", "1.1.0+0.1" => rebuilt;
        "other", "ebb.v1.0.0", "1.0.0" => none;
    ]
    .into()
}

/// A registry with all of them.
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
            let mut csv = json!({
                "apiVersion": "operators.coreos.com/v1alpha1",
                "kind": "ClusterServiceVersion",
                "metadata": {"name": name},
                "spec": {"version": version, "install": {"strategy": "deployment"}, "displayName": name},
            });
            for part in ["metadata", "spec"] {
                let more = more[part].as_object().cloned().unwrap_or_default();
                csv[part].as_object_mut().unwrap().extend(more);
            }
            let package = if tag == "other" { "ebb" } else { "tide" };
            let prefix = "operators.operatorframework.io.bundle";
            let annotations = json!({"annotations": {
                format!("{prefix}.package.v1"): package,
                format!("{prefix}.mediatype.v1"): "registry+v1",
                format!("{prefix}.manifests.v1"): "manifests/",
                format!("{prefix}.metadata.v1"): "metadata/",
                format!("{prefix}.channels.v1"): "a",
            }});
            let folder = Folder::new(&[
                ("manifests/csv.yaml", &csv.to_string()),
                ("metadata/annotations.yaml", &annotations.to_string()),
            ]);
            let opened = unpacker::open(folder.path(), &unpacker::Options::default()).unwrap();
            let image = registry.image(&format!("tide:{tag}"));
            let made = BundleImage::new(&opened.content).unwrap();
            runtime
                .block_on(push(&image.parse().unwrap(), &made, &access))
                .unwrap();
            contents.insert(image, opened.content);
        }
        Self { registry, contents }
    }

    /// `@TAG` stands for an image.
    fn text(&self, template: &str) -> String {
        template.replace('@', &self.registry.image("tide:"))
    }

    fn ours(
        &self,
        text: &str,
        kind: Option<Kind>,
        output: &str,
        level: Level,
    ) -> Result<String, String> {
        let limits = Limits::default();
        let template = Template::read("t.yaml", text.as_bytes(), kind, &limits);
        let template = template.map_err(|it| it.to_string())?;
        let mut bundles = BTreeMap::new();
        for image in template.images() {
            let content = self.contents.get(image);
            let content = content.ok_or_else(|| format!("{image} is not there"))?;
            let bundle = Bundle::read(content, Image::Reference(image), level, &mut Vec::new());
            bundles.insert(image.to_owned(), bundle.unwrap());
        }
        let rendered = template.render(bundles, &mut Vec::new());
        let rendered = rendered.map_err(|it| it.to_string())?;
        Ok(match output {
            "json" => print(&rendered, Format::Json),
            "yaml" => print(&rendered, Format::Yaml),
            _ => mermaid(&rendered, &mut Vec::new()).map_err(|it| it.to_string())?,
        })
    }

    /// What both make of a template; its kind may be named.
    fn both(&self, template: &str, words: &[&str]) -> [Result<String, String>; 2] {
        let text = self.text(template);
        let folder = Folder::new(&[("t.yaml", &text)]);
        let kind = words.first().and_then(|it| it.parse().ok());
        let after = |flag: &str| {
            let at = words.iter().position(|it| *it == flag);
            at.map(|at| words[at + 1])
        };
        let level = after("--migrate-level").unwrap_or("none").parse().unwrap();
        let ours = self.ours(&text, kind, after("-o").unwrap_or("json"), level);
        let mut args = vec!["alpha", "render-template", "--use-http"];
        args.extend(words.iter().take(usize::from(kind.is_some())));
        args.push("t.yaml");
        args.extend(words.iter().skip(usize::from(kind.is_some())));
        [ours, run(folder.path(), &args)]
    }

    fn same(&self, template: &str, words: &[&str]) {
        match self.both(template, words) {
            [Ok(ours), Ok(theirs)] => same(&ours, &theirs),
            other => panic!("{template}\n{words:?}\n{other:#?}"),
        }
    }

    fn refused(&self, template: &str, words: &[&str], part: &str) {
        match self.both(template, words) {
            [Err(ours), Err(theirs)] => assert!(
                ours.contains(part),
                "{template}\nours: {ours}\nopm: {theirs}"
            ),
            other => panic!("{template}\n{words:?}\n{other:#?}"),
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
        for words in [
            "-o yaml",
            "-o mermaid",
            "--migrate-level bundle-object-to-csv-metadata -o yaml",
        ] {
            fixture.same(template, &words.split(' ').collect::<Vec<_>>());
        }
    }
    fixture.same(BASIC, &["basic"]);
    fixture.same(SEMVER, &["semver"]);
    fixture.same(&twice, &["substitutes"]);
    let one = "{schema: olm.bundle, image: '@100'}";
    for text in [
        // The same bundle twice; nothing at all.
        format!("schema: olm.template.basic\nentries: [{one}, {one}]"),
        "schema: olm.template.basic".to_owned(),
        r#"{"schema": "olm.template.basic", "entries": [{"schema": "olm.bundle", "image": "@100"}]} {"more": 1}"#.to_owned(),
        // Nothing is asked for, one of both, and what is preferred.
        SEMVER.replace("Generate", "generate").replace(": true", ": false"),
        SEMVER.replace("GenerateMinorChannels: true\n", ""),
        SEMVER.replace("GenerateMajorChannels: true\n", ""),
        format!("{SEMVER}DefaultChannelTypePreference: major\n"),
        format!("{SEMVER}DefaultChannelTypePreference: minor\n"),
        // A head whose icon is none; one that says nothing.
        "schema: olm.semver\nfast: {bundles: [{image: '@icon'}]}".to_owned(),
        "schema: olm.semver\nfast: {bundles: [{image: '@150'}]}".to_owned(),
        // Only candidates, and the lowest version that there is.
        "schema: olm.semver\ncandidate: {bundles: [{image: '@zero'}]}".to_owned(),
        "schema: olm.semver\ncandidate: {bundles: [{image: '@zero'}, {image: '@100'}]}\ngenerateMajorChannels: true".to_owned(),
        "schema: olm.semver\nstable: {bundles: [{image: '@a'}]}\nfast: {bundles: [{image: '@b'}]}".to_owned(),
        "schema: olm.semver\nfast: {bundles: [{image: '@150'}, {image: '@100'}]}\ngenerateMajorChannels: true".to_owned(),
        r#"{"schema": "olm.semver", "fast": {"bundles": [{"image": "@200"}, {"image": "@rc2"}, {"image": "@100"}]}}"#
            .to_owned(),
    ] {
        fixture.same(&text, &[]);
    }
    for (entries, substitutions) in tests::rows![
        LINE => "";
        LINE => "{name: '@101', base: tide.v1.0.0}";
        LINE => "{name: '@rebuilt', base: tide.v1.1.0}";
        LINE => "{name: '@111', base: tide.v1.1.0}, {name: '@150', base: tide.v1.1.1}";
        "{name: tide.v1.0.0}, {name: tide.v1.1.0}, {name: tide.v1.2.0, skips: [tide.v1.1.0, tide.v1.0.0]}"
            => "{name: '@101', base: tide.v1.0.0}, {name: '@111', base: tide.v1.1.0}";
    ] {
        fixture.same(&substitutes(entries, substitutions), &[]);
    }
}

// parity: render-13
#[test]
fn templates_that_are_none_are_refused_as_by_opm() {
    let fixture = Fixture::new();
    for (template, words, part) in tests::rows![
        "", &[][..] => "is empty";
        "schema: [", &[] => "error converting YAML to JSON";
        "name: a", &[] => "missing root schema field";
        "schema: olm.package", &[] => "unknown template schema";
        "schema: olm.template.basic", &["semver"] => "should be olm.semver";
        "schema: olm.template.basic", &["substitutes"] => "should be olm.template.substitutes";
        "schema: olm.semver", &["basic"] => "should be olm.template.basic";
        "schema: olm.template.basic\nentries: a", &[] => "cannot unmarshal";
        "schema: olm.template.basic\nentries: [{a: b}]", &[] => "missing root schema field";
        "schema: olm.template.basic\nentries: [{schema: olm.bundle}]", &[] => "must have an image";
        "schema: olm.template.basic\nentries: [{schema: olm.bundle, image: '@100', package: tide}]", &[] => "unexpected fields";
        "schema: olm.template.basic\nentries: [{schema: olm.bundle, image: '@absent'}]", &[] => "is not there";
        "schema: olm.semver", &[] => "no bundles specified";
        "schema: olm.semver\nfast: {bundles: [{image: ''}]}", &[] => "names no image";
        "schema: olm.semver\nslow: {bundles: []}", &[] => "unknown field";
        "schema: olm.semver\nfast: {}\nfast: {}", &[] => "is there twice";
        "schema: olm.semver\nfast: {bundles: [{image: '@100'}, {image: '@100'}]}", &[] => "duplicate bundle";
        "schema: olm.semver\nfast: {bundles: [{image: '@100'}, {image: '@twin'}]}", &[]
            => "duplicate bundle name \"tide.v1.0.0\"";
        "schema: olm.semver\nfast: {bundles: [{image: '@100'}, {image: '@same'}]}", &[] => "cannot be ordered";
        "schema: olm.semver\nfast: {bundles: [{image: '@a'}, {image: '@b'}]}", &[] => "cannot be ordered";
        "schema: olm.semver\nfast: {bundles: [{image: '@100'}]}\nstable: {bundles: [{image: '@other'}]}", &[]
            => "does not belong to this package: \"tide\"";
        "schema: olm.semver\nfast: {bundles: [{image: '@odd'}]}", &[] => "has an invalid version";
        "schema: olm.semver\ndefaultChannelTypePreference: major\nfast: {bundles: [{image: '@100'}]}", &[]
            => "set GenerateMajorChannels";
        "schema: olm.semver\ndefaultChannelTypePreference: any\nfast: {bundles: [{image: '@100'}]}", &[]
            => "unknown DefaultChannelTypePreference";
    ] {
        fixture.refused(template, words, part);
    }
    for (substitutions, part) in tests::rows![
        "{base: tide.v1.0.0}" => "name cannot be empty";
        "{name: '@101'}" => "base cannot be empty";
        "{name: a, base: a}" => "cannot be the same";
        "{name: '@101', base: tide.v7.0.0}" => "does not exist in catalog";
        "{name: '@100', base: tide.v1.1.0}" => "is not less than";
        "{name: '@a', base: tide.v1.1.0}, {name: '@b', base: tide.v1.1.0}" => "the same substitution base";
        "{name: '@a', base: tide.v1.1.0}, {name: '@a', base: tide.v1.0.0}" => "for different bases";
        "{name: '@110', base: tide.v1.0.0}" => "resulting config is not valid FBC";
        "{name: '@other', base: tide.v1.0.0}" => "error processing substitution";
    ] {
        fixture.refused(&substitutes(LINE, substitutions), &[], part);
    }
    let headless = substitutes("{name: tide.v1.0.0, replaces: tide.v1.0.0}", "");
    fixture.refused(&headless, &[], "entries are not valid FBC");
}
