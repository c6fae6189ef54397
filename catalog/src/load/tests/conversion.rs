//! What opm stops at.

use super::*;

// parity: load-1
#[test]
fn packages() {
    check(&::tests::rows![
        |c| c.push(json!({"schema": "olm.package"})) => &["6: config contains package with no name"];
        |c| c.push(package("foo", "alpha")) => &["6: duplicate package \"foo\""];
        |c| c.push(package("foo.bar", "")) => &[
            "6: invalid package name \"foo.bar\": [must not contain dots]",
            "6: default channel must be set",
            "6: package must contain at least one channel",
        ];
        |c| c[0] = json!({"schema": "olm.package", "name": "foo", "defaultChannel": ["a"]}) => &[
            "1: parse package: json: cannot unmarshal array into Go struct field Package.defaultChannel of type string",
            "2: unknown package \"foo\" for channel \"alpha\"",
            "3: unknown package \"foo\" for bundle \"foo.v0.1.0\"",
            "4: unknown package \"foo\" for bundle \"foo.v0.2.0\"",
            "5: unknown package \"foo\" for bundle \"foo.v0.3.0\"",
        ];
        |c| c[0]["icon"] = json!({"base64data": "aGk=\n", "mediatype": "image/png"}) => &[];
    ]);
    let told = changed(|c| c[0]["icon"] = json!({"base64data": "a?k="}));
    assert_eq!(
        told[0],
        "1: parse package: illegal base64 data at input byte 1"
    );
}

#[test]
fn channels() {
    check(&::tests::rows![
        |c| { c[1]["package"] = "bar".into(); c.truncate(2); }
            => &["2: unknown package \"bar\" for channel \"alpha\"", "1: channel must contain at least one bundle"];
        |c| c.push(json!({"schema": "olm.channel", "package": "foo", "entries": []}))
            => &["6: package \"foo\" contains channel with no name"];
        |c| c.push(channel("alpha", json!([]))) => &["6: package \"foo\" has duplicate channel \"alpha\""];
        |c| { c[1]["entries"].as_array_mut().unwrap().push(json!({"name": "foo.v0.1.0"})); }
            => &["2: invalid package \"foo\", channel \"alpha\": duplicate entry \"foo.v0.1.0\""];
    ]);
    for (entries, problem) in ::tests::rows![
        json!({}) => "Channel.entries of type []declcfg.ChannelEntry";
        json!([{"name": {}}]) => "ChannelEntry.entries.name of type string";
        json!([{"skips": [{}]}]) => "ChannelEntry.entries.skips of type string";
    ] {
        let told = changed(|c| c[1]["entries"] = entries);
        assert_eq!(
            told[0],
            format!(
                "2: parse channel: json: cannot unmarshal object into Go struct field {problem}"
            )
        );
    }
    assert_eq!(
        changed(|c| c[1]["entries"] = json!([7]))[0],
        "2: parse channel: json: cannot unmarshal number into Go struct field Channel.entries of type declcfg.ChannelEntry"
    );
}

#[test]
fn bundles() {
    check(&::tests::rows![
        |c| c.push(json!({"schema": "olm.bundle", "name": "x"})) => &["6: package name must be set for bundle \"x\""];
        |c| c.push(json!({"schema": "olm.bundle", "name": "x", "package": "bar"}))
            => &["6: unknown package \"bar\" for bundle \"x\""];
        |c| c.push(bundle("0.1.0")) => &["6: package \"foo\" has duplicate bundle \"foo.v0.1.0\""];
        |c| { c[4]["properties"].as_array_mut().unwrap().push(json!({"type": "olm.gvk", "value": "x"})); } => &[
            "5: parse properties for bundle \"foo.v0.3.0\": parse property[1] of type \"olm.gvk\": json: cannot unmarshal string into Go value of type property.GVK",
        ];
        |c| { c[4]["properties"].as_array_mut().unwrap().push(json!({"type": "any"})); }
            => &["5: parse properties for bundle \"foo.v0.3.0\": parse property[1] of type \"any\": unexpected end of JSON input"];
        |c| c[4]["properties"] = json!([])
            => &["5: package \"foo\" bundle \"foo.v0.3.0\" must have exactly 1 \"olm.package\" property, found 0"];
        |c| { let first = c[4]["properties"][0].clone(); c[4]["properties"].as_array_mut().unwrap().push(first); }
            => &["5: package \"foo\" bundle \"foo.v0.3.0\" must have exactly 1 \"olm.package\" property, found 2"];
        |c| c[4]["properties"][0]["value"]["packageName"] = "bar".into()
            => &["5: package \"foo\" does not match \"olm.package\" property \"bar\""];
        |c| c.push(bundle("0.9.0")) => &["6: package \"foo\", bundle \"foo.v0.9.0\" not found in any channel entries"];
        |c| { c.remove(3); } => &["2: no olm.bundle blobs found in package \"foo\" for olm.channel entries [foo.v0.2.0]"];
        // Empty pull specs nobody minds.
        |c| c[4]["relatedImages"] = json!([{"name": "", "image": ""}, {"image": "quay.io/a/b@sha256:0000000000000000000000000000000000000000000000000000000000000000"}])
            => &[];
    ]);
    for (field, start) in ::tests::rows![
        "image" => "package \"foo\" bundle \"foo.v0.3.0\" image: invalid image pull spec \"Foo Bar\": ";
        "related" => "package \"foo\" bundle \"foo.v0.3.0\" relatedImages[1].image: invalid image pull spec \"Foo Bar\": ";
    ] {
        let told = changed(|c| match field {
            "image" => c[4]["image"] = "Foo Bar".into(),
            _ => c[4]["relatedImages"] = json!([{"image": "a"}, {"image": "Foo Bar"}]),
        });
        assert!(
            told.len() == 1 && told[0].starts_with(&format!("5: {start}")),
            "{told:?}"
        );
    }
    for version in ["v0.3.0", "0.3", "0.03.0", ""] {
        let told = changed(|c| c[4]["properties"][0]["value"]["version"] = version.into());
        assert!(
            told.len() == 1
                && told[0].starts_with(&format!(
                    "5: error parsing bundle \"foo.v0.3.0\" version {version:?}: "
                )),
            "{told:?}"
        );
    }
    for (release, problem) in ::tests::rows![
        "123456789012345678901" => "invalid release \"123456789012345678901\": exceeds maximum length of 20 characters";
        "1.02" => "invalid release \"1.02\": segment 1: ";
        "1..2" => "invalid release \"1..2\": segment 1: ";
        "a_b" => "invalid release \"a_b\": segment 0: ";
    ] {
        let told = changed(|c| c[4]["properties"][0]["value"]["release"] = release.into());
        assert!(
            told[0].starts_with(&format!(
                "5: error parsing bundle \"foo.v0.3.0\" release version {release:?}: {problem}"
            )),
            "{told:?}"
        );
    }
}

/// opm tells it of the last channel alone.
// parity: validate-2
#[test]
fn missing_bundles_are_told_for_every_channel() {
    let told = changed(|c| {
        c.insert(
            1,
            channel(
                "beta",
                json!([{"name": "b", "skips": ["a"]}, {"name": "a"}]),
            ),
        );
        c.truncate(5);
    });
    assert_eq!(
        told,
        [
            "3: no olm.bundle blobs found in package \"foo\" for olm.channel entries [foo.v0.3.0]",
            "2: no olm.bundle blobs found in package \"foo\" for olm.channel entries [a b]",
        ]
    );
}

// parity: validate-1
#[test]
fn deprecations() {
    let with = |entry: Value| {
        changed(move |c| {
            c.push(json!({"schema": "olm.deprecations", "package": "foo", "entries": [entry]}));
        })
    };
    check(&::tests::rows![
        |c| c.push(json!({"schema": "olm.deprecations"})) => &["6: package name must be set for deprecation item 0"];
        |c| c.push(json!({"schema": "olm.deprecations", "package": "bar"}))
            => &["6: cannot apply deprecations to an unknown package \"bar\""];
        |c| { let one = json!({"schema": "olm.deprecations", "package": "foo"}); c.extend([one.clone(), one]); }
            => &["7: expected a maximum of one deprecation per package: \"foo\""];
        |c| c.push(json!({"schema": "olm.deprecations", "package": "foo", "entries": [{"message": "m"}]}))
            => &["6: schema must be set for deprecation entry [0] for package \"foo\""];
        |c| {
            let twice = json!({"reference": {"schema": "olm.bundle", "name": "foo.v0.1.0"}, "message": "m"});
            c.push(json!({"schema": "olm.deprecations", "package": "foo", "entries": [twice, twice]}));
        } => &[
            "6: duplicate deprecation entry declcfg.PackageScopedReference{Schema:\"olm.bundle\", Name:\"foo.v0.1.0\"} for package \"foo\"",
        ];
    ]);
    for (schema, name, message) in ::tests::rows![
        "olm.bundle", "x" => "cannot deprecate bundle \"x\" for package \"foo\": bundle not found";
        "olm.channel", "x" => "cannot deprecate channel \"x\" for package \"foo\": channel not found";
        "olm.package", "foo" => "package name must be empty for deprecated package \"foo\" (specified \"foo\")";
        "x", "y"
            => "cannot deprecate object declcfg.PackageScopedReference{Schema:\"x\", Name:\"y\"} referenced by entry 0 for package \"foo\": object schema unknown";
    ] {
        assert_eq!(
            with(json!({"reference": {"schema": schema, "name": name}, "message": "m"})),
            [format!("6: {message}")]
        );
    }
    for (schema, name, line) in [
        ("olm.package", "", 1),
        ("olm.channel", "alpha", 2),
        ("olm.bundle", "foo.v0.1.0", 3),
    ] {
        let told = with(json!({"reference": {"schema": schema, "name": name}}));
        assert_eq!(
            told,
            [format!("{line}: invalid deprecation: message must be set")]
        );
    }
    assert_eq!(
        with(json!({"reference": []}))[0],
        "6: parse deprecation: json: cannot unmarshal array into Go struct field DeprecationEntry.entries.reference of type declcfg.PackageScopedReference"
    );
}
