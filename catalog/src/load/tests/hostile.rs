//! Hostile catalogs.

use super::*;
use crate::testing::{has, in_time, within};

#[test]
fn long_channels_are_read_in_linear_time() {
    // A step for each pair of entries would take at least a minute; one step per entry takes a second.
    const COUNT: usize = 60_000;
    for shape in ["chain", "stranded", "cycle", "heads"] {
        let entry = |at| {
            let next = match shape {
                "chain" => format!("b{}", at + 1),
                "cycle" => format!("b{}", if at + 1 == COUNT { 1 } else { at + 1 }),
                "stranded" => format!("b{at}"),
                _ => "outside".to_owned(),
            };
            json!({"name": format!("b{at}"), "replaces": next})
        };
        let channel = channel("foo", "alpha", &(0..COUNT).map(entry).collect());
        let text = lines(&[package("foo", "alpha"), channel]);
        let catalog = within(15, || loaded(&[("c", &text)]));
        assert!(!catalog.is_valid());
        let mut messages = catalog.findings.iter().map(|finding| finding.message.len());
        assert!(messages.all(|length| length < 40_000), "{shape}");
    }
}

#[test]
fn repeated_documents_take_bounded_time() {
    let mut documents = vec![sound(); 3000].concat();
    let entries = vec![json!({"reference": {"schema": "olm.package"}, "message": "m"}); 50_000];
    documents.push(json!({"schema": "olm.deprecations", "package": "foo", "entries": entries}));
    let catalog = in_time(|| catalog_of(&documents));
    assert_eq!(catalog.findings.len(), 10_000);
    assert_eq!(catalog.more_findings, 2999 * 5 + 49_999 - 10_000);
    assert!(catalog.packages.is_empty() && catalog.broken["foo"] > 10_000);
}

#[test]
fn foreign_files_cost_linear_time() {
    let text = |at| format!("{{\"schema\":\"x\",\"package\":\"p{at}\"}} [}}");
    let files: Vec<_> = (0..2000).map(|at| (format!("d/{at}"), text(at))).collect();
    let files: Vec<_> = files.iter().map(|(path, text)| (&**path, text)).collect();
    assert_eq!(in_time(|| loaded(&files)).findings.len(), 2000);
}

#[test]
fn long_names_have_short_messages() {
    let names = "\u{1b}[31m·../..·a\"b·\0·é\u{202e}·-· ";
    for name in names.split('·').chain([&*"x".repeat(1 << 20)]) {
        let text = lines(&sound()).replace("foo", json!(name).to_string().trim_matches('"'));
        let catalog = loaded(&[("c", &text)]);
        assert!(!catalog.is_valid(), "{name:.20}");
        for finding in &catalog.findings {
            let text = finding.to_string();
            assert!(text.len() < 5_000, "{text:.300}");
            assert!(!text.contains('\u{1b}'), "{text:.300}");
        }
        assert!(!catalog.as_opm().unwrap().contains('\u{1b}'));
    }
}

#[test]
fn hostile_ranges_take_bounded_time() {
    let long = "1.0.0 || ".repeat(100_000) + "2.0.0";
    let large = ["99999999999999999999.0.0", "18446744073709551615.x", &long];
    for range in [">=1.0.0-", "||||", "x.x.x", "\u{1b}"].iter().chain(&large) {
        let mut documents = sound();
        documents[1]["entries"][2]["skipRange"] = json!(range);
        in_time(|| {
            let catalog = catalog_of(&documents);
            assert_eq!(catalog.is_valid(), catalog.as_opm().is_none());
            finding_lines(&catalog)
        });
    }
}

// parity: load-10
#[test]
fn deep_and_wide_documents_get_an_answer() {
    let (open, close) = ("[".repeat(9_000), "]".repeat(9_000));
    assert!(loaded(&[("c", &format!("{{\"schema\":\"x\",\"a\":{open}1{close}}}"))]).is_valid());
    let deeper = format!("{{\"schema\":\"x\",\"a\":{}", "[".repeat(2_000_000));
    let catalog = in_time(|| loaded(&[("c", &deeper)]));
    starts(&catalog.findings[0].message, "exceeded max depth");
    let wide = format!("{{\"schema\":\"x\",\"a\":[{}1]}}", "1,".repeat(90_000));
    let limits = with!(Limits, values: 80_000);
    let catalog = load(Source::Content(&content(&[("c", &wide)])), &limits).unwrap();
    has(&catalog.findings[0].message, "more than 80000 values");
    let keys = list(0..100_000, |at| format!(",\"k{at}\":1"));
    assert!(in_time(|| loaded(&[("c", &format!("{{\"schema\":\"x\"{keys}}}"))])).is_valid());
}

#[test]
fn package_limits_break_oversized_packages() {
    let bundles: Vec<_> = (0..60).map(|at| bundle(&format!("{at}.0.0"))).collect();
    let foo = lines(&chained("foo", "alpha", &bundles));
    let bar = lines(&sound()).replace("foo", "bar");
    let content = content(&[("c.json", foo + &bar)]);
    let no = Limits::default();
    let bundles = |most| with!(Limits, package_bundles: most; ..no);
    let size = |most| with!(Limits, package_size: most; ..no);
    for (limits, problem) in ::tests::rows![
        no => None;
        bundles(60) => None;
        bundles(59) => Some("the package has more than 59 bundles");
        size(20_000) => None;
        size(2_000) => Some("the bundles and edges of the package exceed 2000 bytes");
    ] {
        let catalog = load(Source::Content(&content), &limits).unwrap();
        assert_eq!(catalog.packages.contains_key("foo"), problem.is_none());
        assert_eq!(catalog.why_broken("foo").as_deref(), problem);
        // The other packages are available.
        assert!(catalog.packages.contains_key("bar"));
    }
}
