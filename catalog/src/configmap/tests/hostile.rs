//! ConfigMaps of one mebibyte that would expand to gigabytes.

use super::*;

/// Returns the size of a fully read catalog. A file ends at its first error.
fn read_to_the_end(map: &ConfigMap) -> u64 {
    let sizes = map.paths().into_iter().map(|path| {
        let mut bytes = Vec::new();
        drop(map.open(&path).unwrap().read_to_end(&mut bytes));
        bytes.len() as u64
    });
    sizes.sum()
}

/// Returns a package with `count` channels of the same head.
fn channels(package: &str, count: usize, head: &str) -> String {
    let channels = list(0..count, |at| {
        format!("{{name: c{at}, currentCSV: {head}}},")
    });
    format!("- {{packageName: {package}, channels: [{channels}]}}\n")
}

#[test]
fn expansion_beyond_the_limit_is_rejected() {
    // A large CRD that many bundles own; many channels of the same long chain.
    let scope = format!("scope: {}", "x".repeat(1 << 19));
    let large = CRD.replace("scope: Namespaced", &scope);
    let replaces = |at| format!("    replaces: a{at}\n");
    let name = |at| format!("a{at}");
    let packages = list(0..1000, |at| channels(&format!("p{at}"), 1, &name(at)));
    assert_each!(|crds, csvs, packages, problem| read(&data(crds, &csvs, &packages)).unwrap_err() => has problem;
        &*large, list(0..1000, |at| csv(&format!("a{at}"), "1.0.0", "")), packages => "more than 268435456 bytes";
        CRD, list(0..999, |at| csv(&name(at + 1), "1.0.0", &replaces(at))), channels("p", 1000, "a999") => "channel entries";
    );
    // YAML aliases.
    let bomb = list(0..29, |at| format!("- &a{} [*a{at}, *a{at}]\n", at + 1));
    let read = read(&data(&format!("- &a0 [x]\n{bomb}"), "", ""));
    assert!(matches!(read, Err(Error::Yaml { .. })), "{read:?}");
}

/// Every ConfigMap repeats a long value many times.
#[test]
fn repetition_does_not_exceed_the_limit() {
    let (long, most) = ("x".repeat(400_000), 20_000);
    let plain = "- {metadata: {name: a}, spec: {version: 1.0.0}}\n";
    let with = |more: &str| plain.replace("1.0.0", &format!("1.0.0, {more}"));
    let versions = list(0..most, |at| format!("{{name: v{at}}},"));
    let crd = |group: &str| {
        let names = "names: {kind: K, plural: ks}";
        format!("- {{spec: {{group: {group}, {names}, versions: [{versions}]}}}}\n")
    };
    let owned = |group: &str| {
        let owned = format!("{{name: ks.{group}, version: v1, kind: K}}");
        with(&format!("customresourcedefinitions: {{owned: [{owned}]}}"))
    };
    let group = "g".repeat(250);
    for (case, crds, csvs, packages, is_rejected) in ::tests::rows![
        "a package's name in each channel", String::new(), plain.to_owned(), channels(&long, most, "a") => true;
        "a replaced name in each channel", String::new(), with(&format!("replaces: {long}")), channels("p", most, "a") => true;
        "skipped names in each channel", String::new(), with(&format!("skips: [{}]", "x,".repeat(100_000))),
            channels("p", most, "a") => true;
        "a package's name in each reason", String::new(), plain.to_owned(), channels(&long, most, "b") => false;
        "a head's name in each reason", String::new(), plain.to_owned(), channels("p", 2, &long) => false;
        "a group in each API", crd(&long), owned(&long), channels("p", 1, "a") => false;
        "a group in each property", crd(&group), owned(&group), channels("p", 1, "a") => true;
    ] {
        let data = data(&crds, &csvs, &packages);
        let size: usize = data.values().map(String::len).sum();
        assert!(size < 2 << 20, "{case}");
        let limits = with!(Limits, total: 4 << 20);
        match ConfigMap::read(&data, &limits) {
            Err(Error::TooLarge { .. }) => assert!(is_rejected, "{case}"),
            Err(error) => panic!("{case}: {error}"),
            Ok(map) => {
                assert!(!is_rejected, "{case}");
                assert!(read_to_the_end(&map) <= limits.total, "{case}");
                let length: usize = map.left_out().iter().map(String::len).sum();
                assert!(length < 1 << 20, "{case}: {length} bytes of reasons");
            }
        }
    }
}

/// Thousands of each are read, but the messages about them are bounded.
#[test]
fn one_mebibyte_of_small_entries_is_a_catalog() {
    let most = 8000;
    let csvs = list(0..most, |at| {
        format!("- {{metadata: {{name: a{at}}}, spec: {{version: 1.0.0}}}}\n")
    });
    let packages = list(0..most, |at| {
        let channels = format!("[{{name: c, currentCSV: a{at}}}, {{name: c}}]");
        format!("- {{packageName: p{at}, channels: {channels}}}\n")
    });
    let map = read(&data("", &csvs, &packages)).unwrap();
    assert_eq!((map.paths().len(), map.left_out().len()), (most, 1001));
    assert_eq!(map.left_out().last().unwrap(), "and 7000 more");
}

/// The estimate before reading is not lower than the size that is then read.
#[test]
fn estimated_size_covers_the_read_size() {
    let quoted = |(key, text): (_, String)| (key, text.replace("stable", "'st\"\\\\able'"));
    for data in [three(), three().into_iter().map(quoted).collect()] {
        let size = read_to_the_end(&read(&data).unwrap());
        assert!(size > 1000);
        let error = ConfigMap::read(&data, &with!(Limits, total: size - 1)).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }
}
