//! Documents that opm does not read. The messages of the conversion are in `tests/opm/validation`.

use super::*;

// parity: load-1
#[test]
fn values_of_other_types_name_their_fields() {
    let field = "json: cannot unmarshal";
    for (at, key, value, problem) in ::tests::rows![
        0, "icon", json!({"base64data": "a?k="}) => "1: parse package: illegal base64 data at input byte 1".to_owned();
        0, "defaultChannel", json!(["a"])
            => format!("1: parse package: {field} array into Go struct field Package.defaultChannel of type string");
        1, "entries", json!({})
            => format!("2: parse channel: {field} object into Go struct field Channel.entries of type []declcfg.ChannelEntry");
        1, "entries", json!([7])
            => format!("2: parse channel: {field} number into Go struct field Channel.entries of type declcfg.ChannelEntry");
        1, "entries", json!([{"name": {}}])
            => format!("2: parse channel: {field} object into Go struct field ChannelEntry.entries.name of type string");
        1, "entries", json!([{"skips": [{}]}])
            => format!("2: parse channel: {field} object into Go struct field ChannelEntry.entries.skips of type string");
        5, "entries", json!([{"reference": []}])
            => format!("6: parse deprecation: {field} array into Go struct field DeprecationEntry.entries.reference of type \
                        declcfg.PackageScopedReference");
    ] {
        let found = changed(|c| {
            c.push(json!({"schema": "olm.deprecations", "package": "foo"}));
            c[at][key] = value;
        });
        assert_eq!(found[0], problem);
        // Without a package, the rest of its documents lead nowhere.
        let lost = [
            "2: unknown package \"foo\" for channel \"alpha\"",
            "3: unknown package \"foo\" for bundle \"foo.v0.1.0\"",
            "4: unknown package \"foo\" for bundle \"foo.v0.2.0\"",
            "5: unknown package \"foo\" for bundle \"foo.v0.3.0\"",
        ];
        assert!(at != 0 || found[1..5] == lost, "{found:?}");
    }
    let icon = json!({"base64data": "aGk=\n", "mediatype": "image/png"});
    assert_eq!(changed(|c| c[0]["icon"] = icon), [""; 0]);
}
