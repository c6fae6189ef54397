//! Errors at which opm stops: the messages of E.2, by number.

use super::*;

// parity: validate-1
#[test]
fn conversion() {
    let added = |blob: Value| changed(|c| c.push(blob));
    let deprecated = |entries: Value| {
        added(json!({"schema": "olm.deprecations", "package": "foo", "entries": entries}))
    };
    let about = |schema: &str, name: &str| json!([{"reference": {"schema": schema, "name": name}, "message": "m"}]);
    let package = |value: Value| changed(|c| c[3]["properties"][0]["value"] = value);
    let release = |release: &str| {
        package(json!({"packageName": "foo", "version": "0.2.0", "release": release}))
    };
    let one = &about("olm.bundle", "foo.v0.1.0")[0];
    let twice = json!([one, one]);
    let rows = tests::rows![
        "1", added(json!({"schema": "olm.package"})) => "5: config contains package with no name";
        "2", changed(|c| c.push(c[0].clone())) => "5: duplicate package \"foo\"";
        "3 a dot", added(json!({"schema": "olm.package", "name": "f.oo"}))
            => "5: invalid package name \"f.oo\": [must not contain dots]\n5: default channel must be set\n\
                5: package must contain at least one channel";
        "3 capitals", lines(&sound()).replace("\"foo\"", "\"Foo\"") => "1: invalid package name \"Foo\": [*";
        "3 length", lines(&sound()).replace("\"foo\"", &format!("{:?}", "f".repeat(64))) => "1: *no more than 63*";
        "4", changed(|c| { c[1]["package"] = json!("bar"); c.truncate(2); })
            => "2: unknown package \"bar\" for channel \"alpha\"\n1: channel must contain at least one bundle";
        "5", added(channel("foo", "", &json!([]))) => "5: package \"foo\" contains channel with no name";
        "6", added(channel("foo", "alpha", &json!([]))) => "5: package \"foo\" has duplicate channel \"alpha\"";
        "7", changed(|c| c[1]["entries"].as_array_mut().unwrap().push(json!({"name": "foo.v0.1.0"})))
            => "2: invalid package \"foo\", channel \"alpha\": duplicate entry \"foo.v0.1.0\"";
        "8", added(json!({"schema": "olm.bundle", "name": "x"})) => "5: package name must be set for bundle \"x\"";
        "9", added(bundle("bar", "x", "0.9.0")) => "5: unknown package \"bar\" for bundle \"x\"";
        "10", changed(|c| c.push(c[3].clone())) => "5: package \"foo\" has duplicate bundle \"foo.v0.2.0\"";
        "11", property("olm.gvk", &json!("x"))
            => "4: parse properties for bundle \"foo.v0.2.0\": parse property[1] of type \"olm.gvk\": \
                json: cannot unmarshal string into Go value of type property.GVK";
        "11 a kind", property("olm.gvk", &json!({"kind": []})) => "4: parse properties for bundle \"foo.v0.2.0\": *";
        "11 no value", with(json!({"type": "x"}))
            => "4: parse properties for bundle \"foo.v0.2.0\": parse property[1] of type \"x\": unexpected end of JSON input";
        "12 none", changed(|c| c[3]["properties"] = json!([]))
            => "4: package \"foo\" bundle \"foo.v0.2.0\" must have exactly 1 \"olm.package\" property, found 0";
        "12 two", property("olm.package", &json!({"packageName": "foo", "version": "0.2.0"}))
            => "4: package \"foo\" bundle \"foo.v0.2.0\" must have exactly 1 \"olm.package\" property, found 2";
        "13", package(json!({"packageName": "bar", "version": "0.2.0"}))
            => "4: package \"foo\" does not match \"olm.package\" property \"bar\"";
        "14 image", changed(|c| c[3]["image"] = json!("Foo Bar"))
            => "4: package \"foo\" bundle \"foo.v0.2.0\" image: invalid image pull spec \"Foo Bar\": *";
        "14 related", changed(|c| c[3]["relatedImages"] = json!([{"image": ""}, {"image": "a:b:c"}]))
            => "4: package \"foo\" bundle \"foo.v0.2.0\" relatedImages[1].image: invalid image pull spec \"a:b:c\": *";
        "14 good", changed(|c| {
            let digest = format!("quay.io/a/b@sha256:{}", "0".repeat(64));
            c[3]["relatedImages"] = json!([{"name": "", "image": ""}, {"image": digest}]);
        }) => "";
        "15 v", package(json!({"packageName": "foo", "version": "v0.2.0"}))
            => "4: error parsing bundle \"foo.v0.2.0\" version \"v0.2.0\": *";
        "15 zeros", package(json!({"packageName": "foo", "version": "0.02.0"}))
            => "4: error parsing bundle \"foo.v0.2.0\" version \"0.02.0\": *";
        "15 two parts", package(json!({"packageName": "foo", "version": "0.2"}))
            => "4: error parsing bundle \"foo.v0.2.0\" version \"0.2\": *";
        "15 none", package(json!({"packageName": "foo"})) => "4: error parsing bundle \"foo.v0.2.0\" version \"\": *";
        "15 a number", package(json!({"packageName": "foo", "version": 0.2}))
            => "4: *Go struct field Package.version of type string";
        "16", release("1.02") => "4: error parsing bundle \"foo.v0.2.0\" release version \"1.02\": \
                                              invalid release \"1.02\": segment 1: *";
        "16 an empty segment", release("1..2") => "4: *release version \"1..2\": invalid release \"1..2\": segment 1: *";
        "16 a letter", release("a_b") => "4: *release version \"a_b\": invalid release \"a_b\": segment 0: *";
        "16 long", release("123456789012345678901")
            => "4: *: invalid release \"123456789012345678901\": exceeds maximum length of 20 characters*";
        "17", added(bundle("foo", "x", "0.9.0")) => "5: package \"foo\", bundle \"x\" not found in any channel entries";
        "18", changed(|c| drop(c.pop()))
            => "2: no olm.bundle blobs found in package \"foo\" for olm.channel entries [foo.v0.2.0]";
        "19", changed(|c| c[0]["defaultChannel"] = json!("beta")) => "1: channel must contain at least one bundle";
        "20", added(json!({"schema": "olm.deprecations"})) => "5: package name must be set for deprecation item 0";
        "21", added(json!({"schema": "olm.deprecations", "package": "bar"}))
            => "5: cannot apply deprecations to an unknown package \"bar\"";
        "22", changed(|c| { c.extend(vec![json!({"schema": "olm.deprecations", "package": "foo"}); 2]); })
            => "6: expected a maximum of one deprecation per package: \"foo\"";
        "23", deprecated(json!([{"message": "m"}])) => "5: schema must be set for deprecation entry [0] for package \"foo\"";
        "24", deprecated(twice) => "5: duplicate deprecation entry \
            declcfg.PackageScopedReference{Schema:\"olm.bundle\", Name:\"foo.v0.1.0\"} for package \"foo\"";
        "25 bundle", deprecated(about("olm.bundle", "x"))
            => "5: cannot deprecate bundle \"x\" for package \"foo\": bundle not found";
        "25 channel", deprecated(about("olm.channel", "x"))
            => "5: cannot deprecate channel \"x\" for package \"foo\": channel not found";
        "26", deprecated(about("olm.package", "foo"))
            => "5: package name must be empty for deprecated package \"foo\" (specified \"foo\")";
        "27", deprecated(about("x", "y")) => "5: cannot deprecate object \
            declcfg.PackageScopedReference{Schema:\"x\", Name:\"y\"} referenced by entry 0 for package \"foo\": \
            object schema unknown";
    ];
    check("E.2 message", &rows);
}
