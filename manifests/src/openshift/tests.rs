//! Parsing and arithmetic of `olm.maxOpenShiftVersion`; comments name rows of its acceptance list. Decisions and
//! messages are tested in the provisioner: `cluster_operator::upgradeable`, `cluster_operator::controller` and
//! `bundle_instance::rollout::prepare`.

use super::*;

fn release(text: &str) -> Release {
    Release::read(text).unwrap()
}

// parity: max-9, max-olm-9
#[test]
fn maximum_is_major_dot_minor_only() {
    // Values without a release include rows 17 (`1.1.0-pre`), 18 (`bad_version`) and 27 (the empty text) of E.2.
    assert_each!(|values, expected| values.iter().find(|json| maximum(json).ok() != expected.map(release)) => None;
        &[r#""4.8""#, "4.8", r#"" 4.8 ""#][..] => Some("4.8");
        &["4.10", r#""4.10""#] => Some("4.10");
        &["4.0"] => Some("4.0");
        &["5.0"] => Some("5.0");
        &["0.1"] => Some("0.1");
        &[
            r#""1.1.0-pre""#, "bad_version", r#""""#, r#"" ""#, "", r#""4.8.0""#, r#""4.8.1""#, r#""v4.8""#, r#""V4.8""#,
            r#""vv4.8""#, r#""4""#, "4", r#""4.8-rc""#, r#""4.8.0-rc.1""#, r#""4.8.0+b""#, r#""4.8+b""#, r#""4.08""#,
            r#""04.8""#, r#""4.x""#, r#""latest""#, r#""4.8.""#, r#"".""#, r#""=4.8""#, r#""<=4.8""#, r#""4.8-4.10""#,
            r#""4,8""#, r#""4.8, 4.9""#, "null", "true", r#"["4.8"]"#, r#"{"max": "4.8"}"#, "4.8e0", "-4.8",
        ] => None;
        // One level of JSON is decoded, and no other quotes.
        &[r#""4\u002e8""#] => Some("4.8");
        &[
            r#""\"4.8\"""#, r#""4.8"#, r#"4.8""#, r#"""4.8"""#, r#""4.+8""#, r#""٤.٨""#, r#""4.99999999999999999999999""#,
            "1.1+build",
        ] => None;
    );
}

// parity: max-olm-9
#[test]
fn undeterminable_value_is_quoted_in_part() {
    let expected = "max OpenShift version cannot be determined: \"4.8.1\" is not <major>.<minor>";
    assert_eq!(maximum("\"4.8.1\"").unwrap_err().to_string(), expected);
    assert_rows!(maximum("\" \"").unwrap_err().to_string() => "max OpenShift version cannot be determined: the value is empty");
    let long = maximum(&"x".repeat(10_000)).unwrap_err().to_string();
    assert!(long.len() < 200, "{long}");
    let hostile = maximum("4.8\n\u{202e}").unwrap_err().to_string();
    assert!(!hostile.contains(['\n', '\u{202e}']), "{hostile}");
}

// parity: max-olm-8
#[test]
fn next_release_is_the_next_minor_or_5_1() {
    let others = |of: Release| [of.next_minor(), of.next(), of.normalized()];
    assert_each!(|text, expected| others(release(text)) => expected.map(release);
        "4.16" => ["4.17", "4.17", "4.16"];
        "4.22" => ["4.23", "4.23", "4.22"];
        "4.23" => ["4.24", "5.1", "5.0"];
        "5.0" => ["5.1", "5.1", "5.0"];
        "5.1" => ["5.2", "5.2", "5.1"];
    );
    assert!(release("4.23").is_after(release("4.22")));
    assert!(!release("5.0").is_after(release("4.23")));
}

/// The rows are clusters, the columns max OpenShift versions; `B` is a blocked upgrade.
// parity: max-15, max-olm-7, max-olm-8
#[test]
fn maximum_outlasts_a_cluster_if_it_admits_the_next_release() {
    let maxima = "0.1 1.0 1.1 2.0 4.1 4.10 4.11 4.12 4.13 4.22 4.23 4.24 5.0 5.1 5.2";
    for (cluster, expected) in ::tests::rows![
        "4.11.9" => "BBBBBBB........";
        "4.12.0-0.nightly-2022-10-05-053337" => "BBBBBBBB.......";
        "4.12.7" => "BBBBBBBB.......";
        "4.13.0" => "BBBBBBBBB......";
        // E.2 rows 22 to 24.
        "4.22.0" => "BBBBBBBBBB.....";
        "4.22.3" => "BBBBBBBBBB.....";
        "4.23.0" => "BBBBBBBBBBBBB..";
        "4.23.1" => "BBBBBBBBBBBBB..";
        "5.0.0" => "BBBBBBBBBBBBB..";
        "5.1.0" => "BBBBBBBBBBBBBB.";
        // E.2 rows 15, 16 and 20: patch versions are ignored.
        "1.0.0" => "BB.............";
        "1.0.1" => "BB.............";
        // E.2 row 21: the next release is 1.2.
        "1.1.0-pre" => "BBB............";
    ] {
        let running = ClusterRelease::of_release(cluster).running.unwrap();
        let letter = |max| ['B', '.'][usize::from(release(max).allows_next(running))];
        assert_rows!(maxima.split(' ').map(letter).collect::<String>() => expected, "{cluster}");
    }
}

// parity: max-13, max-olm-17
#[test]
fn maximum_admits_releases_up_to_itself() {
    // Pairs of a maximum and a cluster.
    for (pairs, is_admitted) in ::tests::rows![
        "4.12 4.12, 4.13 4.12, 4.10 4.9, 4.23 5.0, 5.0 4.23" => true;
        "4.12 4.13, 4.9 4.10, 4.22 4.23, 4.22 5.0, 5.0 5.1" => false;
    ] {
        for (max, cluster) in ::tests::pairs(pairs) {
            assert_rows!(release(max).allows(release(cluster)) => is_admitted, "{max} {cluster}");
        }
    }
}
