//! ConfigMaps of a mebibyte that would come to gigabytes.

use super::*;

/// What a catalog comes to when all of it is read; what cannot be read ends its file.
fn read_to_the_end(map: &ConfigMap) -> u64 {
    let sizes = map.paths().into_iter().map(|path| {
        let mut bytes = Vec::new();
        drop(map.open(&path).unwrap().read_to_end(&mut bytes));
        bytes.len() as u64
    });
    sizes.sum()
}

/// A package with `count` channels of one head.
fn channels(package: &str, count: usize, head: &str) -> String {
    let channels = list(0..count, |at| {
        format!("{{name: c{at}, currentCSV: {head}}},")
    });
    format!("- {{packageName: {package}, channels: [{channels}]}}\n")
}

#[test]
fn what_would_come_to_more_than_it_is_worth_is_refused() {
    // A large definition that many bundles own; many channels of the same long chain.
    let scope = format!("scope: {}", "x".repeat(1 << 19));
    let large = CRD.replace("scope: Namespaced", &scope);
    let owning = list(0..1000, |at| csv(&format!("a{at}"), "1.0.0", ""));
    let replaces = |at| format!("    replaces: a{at}\n");
    let chain = list(0..999, |at| {
        csv(&format!("a{}", at + 1), "1.0.0", &replaces(at))
    });
    let packages = list(0..1000, |at| {
        channels(&format!("p{at}"), 1, &format!("a{at}"))
    });
    for (crds, csvs, packages, problem) in ::tests::rows![
        &*large, owning, packages => "more than 268435456 bytes";
        CRD, chain, channels("p", 1000, "a999") => "entries of channels";
    ] {
        has(read(&data(crds, &csvs, &packages)).unwrap_err(), problem);
    }
    // Aliases.
    let bomb = list(0..29, |at| format!("- &a{} [*a{at}, *a{at}]\n", at + 1));
    let error = read(&data(&format!("- &a0 [x]\n{bomb}"), "", ""));
    assert!(matches!(error, Err(Error::Yaml { .. })), "{error:?}");
}

/// Each repeats something long very often.
#[test]
fn nothing_small_becomes_large() {
    let (long, most) = ("x".repeat(400_000), 20_000);
    let plain = "- {metadata: {name: a}, spec: {version: 1.0.0}}\n";
    let with = |more: &str| plain.replace("1.0.0", &format!("1.0.0, {more}"));
    let versions = list(0..most, |at| format!("{{name: v{at}}},"));
    let crd = |group: &str| {
        format!(
            "- {{spec: {{group: {group}, names: {{kind: K, plural: ks}}, versions: [{versions}]}}}}\n"
        )
    };
    let owned = |group: &str| {
        with(&format!(
            "customresourcedefinitions: {{owned: [{{name: ks.{group}, version: v1, kind: K}}]}}"
        ))
    };
    let group = "g".repeat(250);
    for (what, crds, csvs, packages, is_refused) in ::tests::rows![
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
        assert!(size < 2 << 20, "{what}");
        let limits = with!(Limits, total: 4 << 20);
        match ConfigMap::read(&data, &limits) {
            Err(Error::TooLarge { .. }) => assert!(is_refused, "{what}"),
            Err(error) => panic!("{what}: {error}"),
            Ok(map) => {
                assert!(!is_refused, "{what}");
                assert!(read_to_the_end(&map) <= limits.total, "{what}");
                let told: usize = map.left_out().iter().map(String::len).sum();
                assert!(told < 1 << 20, "{what}: {told} bytes of reasons");
            }
        }
    }
}

/// Thousands of each are read; what is told of them is not endless.
#[test]
fn a_mebibyte_of_small_things_is_a_catalog() {
    let most = 8000;
    let csvs = list(0..most, |at| {
        format!("- {{metadata: {{name: a{at}}}, spec: {{version: 1.0.0}}}}\n")
    });
    let packages = list(0..most, |at| {
        format!(
            "- {{packageName: p{at}, channels: [{{name: c, currentCSV: a{at}}}, {{name: c}}]}}\n"
        )
    });
    let map = read(&data("", &csvs, &packages)).unwrap();
    assert_eq!(map.paths().len(), most);
    assert_eq!(map.left_out().len(), 1001);
    assert_eq!(map.left_out().last().unwrap(), "and 7000 more");
}

/// What is counted before is no less than what is read then.
#[test]
fn what_is_counted_is_enough() {
    let quoted = |(key, text): (_, String)| (key, text.replace("stable", "'st\"\\\\able'"));
    let quoted = three().into_iter().map(quoted).collect();
    for data in [three(), quoted] {
        let size = read_to_the_end(&read(&data).unwrap());
        assert!(size > 1000);
        let limits = with!(Limits, total: size - 1);
        let error = ConfigMap::read(&data, &limits).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    }
}
