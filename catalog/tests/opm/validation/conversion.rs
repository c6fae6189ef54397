//! What opm stops at.

use super::*;

// parity: validate-1
#[test]
fn conversion() {
    let entries = |entries: Value| changed(|c| c[1]["entries"] = entries);
    let deprecated = |entries: Value| {
        changed(|c| {
            c.push(json!({"schema": "olm.deprecations", "package": "foo", "entries": entries}));
        })
    };
    let about = |schema: &str, name: &str| json!([{"reference": {"schema": schema, "name": name}, "message": "m"}]);
    let package = |value: Value| changed(|c| c[3]["properties"][0]["value"] = value);
    let twice = json!([
        about("olm.bundle", "foo.v0.1.0")[0],
        about("olm.bundle", "foo.v0.1.0")[0]
    ]);
    let rows: &[(&str, String, &str)] = &tests::rows![
        "E.2 message 1", changed(|c| c[0]["name"] = json!("")) => "config contains package with no name";
        "E.2 message 2", changed(|c| c.push(c[0].clone())) => "duplicate package \"foo\"";
        "E.2 message 3 a dot", text(&sound()).replace("\"foo\"", "\"f.oo\"") => "must not contain dots";
        "E.2 message 3 capitals", text(&sound()).replace("\"foo\"", "\"Foo\"") => "invalid package name \"Foo\": [";
        "E.2 message 3 length", text(&sound()).replace("\"foo\"", &format!("{:?}", "f".repeat(64))) => "no more than 63";
        "E.2 message 4", changed(|c| c[1]["package"] = json!("bar")) => "unknown package \"bar\" for channel \"alpha\"";
        "E.2 message 5", changed(|c| c[1]["name"] = json!("")) => "package \"foo\" contains channel with no name";
        "E.2 message 6", changed(|c| c.push(c[1].clone())) => "package \"foo\" has duplicate channel \"alpha\"";
        "E.2 message 7", entries(json!([{"name": "foo.v0.1.0"}, {"name": "foo.v0.1.0"}])) => "duplicate entry \"foo.v0.1.0\"";
        "E.2 message 8", changed(|c| c[3]["package"] = json!("")) => "package name must be set for bundle \"foo.v0.2.0\"";
        "E.2 message 9", changed(|c| c[3]["package"] = json!("bar")) => "unknown package \"bar\" for bundle \"foo.v0.2.0\"";
        "E.2 message 10", changed(|c| c.push(c[3].clone())) => "package \"foo\" has duplicate bundle \"foo.v0.2.0\"";
        "E.2 message 11", of("olm.gvk", &json!({"kind": []}))
            => "parse properties for bundle \"foo.v0.2.0\": parse property[1] of type \"olm.gvk\"";
        "E.2 message 11 no value", with(json!({"type": "x"}))
            => "parse property[1] of type \"x\": unexpected end of JSON input";
        "E.2 message 12 none", changed(|c| c[3]["properties"] = json!([]))
            => "must have exactly 1 \"olm.package\" property, found 0";
        "E.2 message 12 two", of("olm.package", &json!({"packageName": "foo", "version": "0.2.0"})) => "property, found 2";
        "E.2 message 13", package(json!({"packageName": "bar", "version": "0.2.0"}))
            => "package \"foo\" does not match \"olm.package\" property \"bar\"";
        "E.2 message 14 image", changed(|c| c[3]["image"] = json!("Foo Bar")) => "image: invalid image pull spec \"Foo Bar\": ";
        "E.2 message 14 related", changed(|c| c[3]["relatedImages"] = json!([{"image": ""}, {"image": "a:b:c"}]))
            => "relatedImages[1].image: invalid image pull spec \"a:b:c\": ";
        "E.2 message 15 v", package(json!({"packageName": "foo", "version": "v0.2.0"}))
            => "error parsing bundle \"foo.v0.2.0\" version \"v0.2.0\": ";
        "E.2 message 15 zeros", package(json!({"packageName": "foo", "version": "0.02.0"})) => "version \"0.02.0\": ";
        "E.2 message 15 two parts", package(json!({"packageName": "foo", "version": "0.2"})) => "version \"0.2\": ";
        "E.2 message 15 none", package(json!({"packageName": "foo"})) => "version \"\": ";
        "E.2 message 15 a number", package(json!({"packageName": "foo", "version": 0.2}))
            => "Go struct field Package.version of type string";
        "E.2 message 16", package(json!({"packageName": "foo", "version": "0.2.0", "release": "1.02"}))
            => "release version \"1.02\": ";
        "E.2 message 16 long", package(json!({"packageName": "foo", "version": "0.2.0", "release": "123456789012345678901"}))
            => "exceeds maximum length of 20 characters";
        "E.2 message 17", changed(|c| c.push(bundle("x", "0.9.0")))
            => "package \"foo\", bundle \"x\" not found in any channel entries";
        "E.2 message 18", changed(|c| drop(c.pop()))
            => "no olm.bundle blobs found in package \"foo\" for olm.channel entries [foo.v0.2.0]";
        "E.2 message 19", changed(|c| c[0]["defaultChannel"] = json!("beta")) => "channel must contain at least one bundle";
        "E.2 message 20", changed(|c| c.push(json!({"schema": "olm.deprecations"})))
            => "package name must be set for deprecation item 0";
        "E.2 message 21", changed(|c| c.push(json!({"schema": "olm.deprecations", "package": "bar"})))
            => "cannot apply deprecations to an unknown package \"bar\"";
        "E.2 message 22", changed(|c| { c.extend(vec![json!({"schema": "olm.deprecations", "package": "foo"}); 2]); })
            => "expected a maximum of one deprecation per package: \"foo\"";
        "E.2 message 23", deprecated(json!([{"message": "m"}]))
            => "schema must be set for deprecation entry [0] for package \"foo\"";
        "E.2 message 24", deprecated(twice)
            => "duplicate deprecation entry declcfg.PackageScopedReference{Schema:\"olm.bundle\", Name:\"foo.v0.1.0\"}";
        "E.2 message 25 bundle", deprecated(about("olm.bundle", "x"))
            => "cannot deprecate bundle \"x\" for package \"foo\": bundle not found";
        "E.2 message 25 channel", deprecated(about("olm.channel", "x"))
            => "cannot deprecate channel \"x\" for package \"foo\": channel not found";
        "E.2 message 26", deprecated(about("olm.package", "foo"))
            => "package name must be empty for deprecated package \"foo\" (specified \"foo\")";
        "E.2 message 27", deprecated(about("x", "y")) => "object schema unknown";
    ];
    for (row, text, expected) in rows {
        same(row, &[("catalog", text)], Some(expected));
    }
}
