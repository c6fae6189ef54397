//! opm's findings in whole trees.

use super::*;
use crate::testing::has;

// parity: validate-3, validate-4, validate-5, validate-6, validate-7
#[test]
fn trees() {
    // Returns a channel with these entries, `name<replaces-skip-skip~skipRange` each, and their bundles.
    let graph = |text: &str| {
        let mut documents = sound();
        documents.truncate(2);
        let mut names = Vec::new();
        let entries = text.split_whitespace().map(|entry| {
            let (edges, range) = entry.split_once('~').unwrap_or((entry, ""));
            let mut skips = edges.split('-');
            let mut edge = skips.next().unwrap().split('<');
            let name = edge.next().unwrap();
            names.push(name);
            let skips: Vec<_> = skips.collect();
            json!({"name": name, "replaces": edge.next(), "skips": skips, "skipRange": range})
        });
        documents[1]["entries"] = entries.collect();
        names.sort_unstable();
        let bundles = names.iter().enumerate();
        documents.extend(bundles.map(|(at, name)| bundle("foo", name, &format!("0.{at}.0"))));
        lines(&documents)
    };
    let deprecated = |schema: &str, name: &str| {
        let entry = json!({"reference": {"schema": schema, "name": name}});
        let entries = json!({"schema": "olm.deprecations", "package": "foo", "entries": [entry]});
        changed(|c| c.push(entries))
    };
    let beta = |name: &str| channel("foo", "beta", &json!([{"name": name}]));
    let released = |name: &str, version: &str| {
        let mut bundle = bundle("foo", name, version);
        bundle["properties"][0]["value"]["release"] = json!("1");
        bundle
    };
    let rows = tests::rows![
        "tree default channel", changed(|c| c[0]["defaultChannel"] = json!("")) => "1: default channel must be set";
        "tree no channel", lines(&sound()[..1]).replace("alpha", "")
            => "1: default channel must be set\n1: package must contain at least one channel";
        "tree an empty channel", graph("") => "2: channel must contain at least one bundle";
        "tree deprecation of a package", deprecated("olm.package", "") => "1: invalid deprecation: message must be set";
        "tree deprecation of a channel", deprecated("olm.channel", "alpha") => "2: invalid deprecation: message must be set";
        "tree deprecation of a bundle", deprecated("olm.bundle", "foo.v0.1.0") => "3: invalid deprecation: message must be set";
        "tree no image", changed(|c| c[3]["image"] = json!("")) => "4: bundle image must be set";
        "tree an empty skip", changed(|c| c[1]["entries"][1]["skips"] = json!(["x", "", ""]))
            => "2: skip[1] is empty\n2: skip[2] is empty";
        "graph no head", graph("a<b b<a") => "2: no channel head found in graph";
        "graph a self-cycle", graph("a<a") => "2: no channel head found in graph";
        "graph a self-cycle below", graph("b<a a<a") => "2: detected cycle in replaces chain of upgrade graph: a -> a";
        "graph several heads", graph("c a b~<1.0.0") => "2: multiple channel heads found in graph: a, b, c";
        "graph a cycle of skips", graph("a-b b-a") => "2: no channel head found in graph";
        "graph skipped and beside the chain", graph("c<a-b b<a a") => "";
        "graph a cycle", graph("d<c c<b b<a a<c") => "2: detected cycle in replaces chain of upgrade graph: c -> b -> a -> c";
        "graph stranded", graph("c b<a a<b") => "2: channel contains one or more stranded bundles: a, b";
        "graph stranded behind what is skipped", graph("c<b-b b<a a") => "2: channel contains one or more stranded bundles: a";
        "graph skipped and not stranded", graph("c-a-b b a") => "";
        "happy a tail outside", graph("a<absent") => "";
        "happy skips outside", graph("a-absent") => "";
        "happy a bundle in two channels", changed(|c| c.push(beta("foo.v0.2.0"))) => "";
        "happy manifests and no image", with(object("kind: A")).replace("quay.io/foo/bundle:v1", "")
            => "3: bundle image must be set";
        "happy manifests in place of one image", changed(|c| {
            c[3]["image"] = json!("");
            c[3]["properties"].as_array_mut().unwrap().push(object("{}"));
        }) => "";
        "happy an unknown type", property("x", &json!([null])) => "";
        "versions twice in a channel", graph("b-a a").replace("0.1.0", "0.0.0")
            => "1: duplicate versions found in bundles: [{0.0.0: [a, b]}]";
        "versions sorted as text", graph("d-a-b-c a b c").replace("0.0.0", "9.0.0").replace("0.1.0", "9.0.0")
            .replace("0.2.0", "10.0.0").replace("0.3.0", "10.0.0")
            => "1: duplicate versions found in bundles: [{10.0.0: [c, d]} {9.0.0: [a, b]}]";
        "versions twice across channels", changed(|c| c.extend([beta("x"), bundle("foo", "x", "0.2.0")]))
            => "1: duplicate versions found in bundles: [{0.2.0: [foo.v0.2.0, x]}]";
        "versions another release", changed(|c| c.extend([beta("foo-v0.2.0-1"), released("foo-v0.2.0-1", "0.2.0")])) => "";
        "versions the same release", changed(|c| {
            let entries = json!([{"name": "foo-v0.2.0-1", "skips": ["x"]}, {"name": "x"}]);
            c.push(channel("foo", "beta", &entries));
            c.extend([released("foo-v0.2.0-1", "0.2.0"), released("x", "0.2.0")]);
        }) => "1: duplicate versions found in bundles: [{0.2.0-1: [foo-v0.2.0-1, x]}]\n\
            7: name \"x\" does not match normalized name \"foo-v0.2.0-1\"";
        "versions a name that is not normal", changed(|c| c.extend([beta("x"), released("x", "0.2.0")]))
            => "6: name \"x\" does not match normalized name \"foo-v0.2.0-1\"";
        "versions a build and a release",
            changed(|c| { c.extend([beta("foo-v0.2.0+b-1"), released("foo-v0.2.0+b-1", "0.2.0+b")]); })
            => "6: cannot use build metadata in version with a release version";
        "tree no name", changed(|c| {
            // An entry without other fields: opm treats it as an edge to the entry without a name.
            c[1]["entries"] = json!([{"name": "", "replaces": "x"}]);
            c[3]["name"] = json!("");
            c.remove(2);
        }) => "3: name must be set";
    ];
    check("E.2", &rows);
    let good = ">=0.1.0 <0.3.0;0.1.x || >=0.0.1 <0.x;0.1.x || >1.x;!=1.0.0 !2.0.0 ==0.1.0;";
    let bad = "<v0.2.0;<00.2.0;^0.1.0;~1.0.0;1.*;||";
    for (ranges, is_good) in [(good, true), (bad, false)] {
        for range in ranges.split(';') {
            let text = changed(|c| c[1]["entries"][1]["skipRange"] = json!(range));
            let found = same(&format!("E.2 skipRange {range}"), &[("catalog", &text)]);
            let start = format!("2: invalid skipRange {range:?}: ");
            let outcome = (found.is_empty(), found.starts_with(&start));
            assert_eq!(outcome, (is_good, !is_good), "{range}: {found}");
        }
    }
}

/// The only message that differs. opm looks up only the bundles of a package's last channel, and treats bundles that
/// other channels lack as bundles without content.
// parity: validate-2
#[test]
fn entry_without_bundle_is_reported_for_every_channel() {
    let missing = |channels: Vec<Value>| {
        changed(|c| {
            c.remove(1);
            c.extend(channels);
        })
    };
    let loaded = |text: &str| -> Catalog {
        let dir = directory(&[("catalog", text)]);
        load(Source::Directory(dir.path()), &Limits::default()).unwrap()
    };
    let [alpha, beta] = [("alpha", "missing"), ("beta", "foo.v0.2.0")].map(|(name, last)| {
        let entries = json!([{"name": "foo.v0.1.0"}, {"name": last, "replaces": "foo.v0.1.0"}]);
        channel("foo", name, &entries)
    });
    let message = "no olm.bundle blobs found in package \"foo\" for olm.channel entries [missing]";
    let last = missing(vec![beta.clone(), alpha.clone()]);
    let reported = same("E.2 message 18 the last channel", &[("catalog", &last)]);
    assert_eq!(reported, format!("5: {message}"));
    // With two channels, each is named.
    let both = changed(|c| {
        let entries = json!([{"name": "b", "skips": ["a"]}, {"name": "a"}]);
        c.insert(1, channel("foo", "beta", &entries));
        c.truncate(4);
    });
    let start = "no olm.bundle blobs found in package \"foo\" for olm.channel entries ";
    let actual = messages(&loaded(&both));
    assert_eq!(actual, format!("3: {start}[foo.v0.2.0]\n2: {start}[a b]"));

    let first = missing(vec![alpha, beta]);
    assert_eq!(loaded(&first).as_opm().as_deref(), Some(message));
    let theirs = theirs(directory(&[("catalog", &first)]).path()).unwrap();
    let bundle = theirs.split_once("invalid bundle \"missing\":").unwrap().1;
    let part = "must be exactly one property with type \"olm.package\"";
    has(bundle, part);
    has(bundle, "bundle image must be set");
}
