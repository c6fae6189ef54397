//! Rebuilt bundles with the same version.

use super::*;
use crate::testing::{in_time, list};

// parity: openshift-19
#[test]
fn edges_from_the_installed_bundle_lead_to_rebuilds() {
    let stable = |entries| package("stable", &[("stable", entries)]);
    assert_each!(|entries, from, expected| path(&installed(from), &stable(entries)) => expected;
        // As in Red Hat's catalogs: the same precedence, and an edge.
        "3.6.4 3.6.4+0.1649<3.6.3-3.6.4", "3.6.4" => &["3.6.4+0.1649"][..];
        "3.6.4 3.6.4+1<3.6.4 3.6.5<3.6.4+1", "3.6.4" => &["3.6.4+1", "3.6.5"];
        "3.6.4 3.6.4+1<3.6.4 3.6.4+2<3.6.4+1", "3.6.4" => &["3.6.4+1", "3.6.4+2"];
        // A higher version precedes.
        "3.6.4 3.6.4+1<3.6.4 3.6.5<3.6.4+1-3.6.4", "3.6.4" => &["3.6.5"];
        // A range contains versions, and these are equal.
        "3.6.4 3.6.4+1~>=3.6.0", "3.6.4" => &[];
        // No direct or indirect downgrade.
        "3.6.4<3.6.4+1 3.6.4+1<3.6.4", "3.6.4" => &[];
        "3.6.4-3.6.4+1 3.6.4+1<3.6.4", "3.6.4+1" => &[];
        "3.6.4<3.6.4+2 3.6.4+1<3.6.4 3.6.4+2<3.6.4+1", "3.6.4" => &[];
        "3.6.4+1<3.6.4-3.6.4+2 3.6.4+2<3.6.4+1", "3.6.4" => &["3.6.4+1"];
        // Several upgrades, to the end of the channel.
        "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0-1.0.0 1.3.0<1.2.0~<1.3.0 1.4.0<1.3.0", "1.0.0" => &["1.3.0", "1.4.0"];
        // Never to a lower version.
        "3.6.4+1<3.6.5 3.6.5", "3.6.5" => &[];
        // Bundles that replace themselves or one another.
        "1.0.0<1.0.0", "1.0.0" => &[];
        "1.0.0<1.1.0 1.1.0<1.0.0", "1.0.0" => &["1.1.0"];
        "1.0.0-1.0.0~>=0.0.0", "1.0.0" => &[];
        "1.1.0<1.0.0 1.0.0<1.1.0-1.1.0~<2.0.0", "1.0.0" => &["1.1.0"];
    );
}

#[test]
fn release_orders_bundles_of_one_version() {
    let entries = "3.6.4+9 3.6.4+10~<=3.6.4 3.6.4+11~<=3.6.4";
    let mut package = package("stable", &[("stable", entries)]);
    for bundle in package.bundles.values_mut() {
        bundle.version.build_is_release();
    }
    // The version as declared, and with its release.
    let highest = decide(&Request::default(), &package);
    let chosen = &highest.verdict.choice().unwrap().version;
    assert_eq!(chosen.to_string(), "3.6.4+11");
    assert_eq!(chosen.release.as_ref().unwrap().as_str(), "11");
    let with_release = |name: &str| {
        let version = Some(package.bundles[name].version.clone());
        with!(Installed, version; ..installed(name))
    };
    assert_each!(|from, expected| path(&from, &package) => expected;
        with_release("3.6.4+9") => &["3.6.4+11"][..];
        with_release("3.6.4+11") => &[];
        // If the release is not recorded, the catalog provides it, so that no downgrade happens.
        installed("3.6.4+10") => &["3.6.4+11"];
        installed("3.6.4+11") => &[];
        with!(Installed, version: None; ..installed("3.6.4+11")) => &[];
    );
}

#[test]
fn cyclic_edges_of_one_version_take_bounded_time() {
    let entries = list(0..3000, |at| {
        let skips = list(1..100, |skip| format!("-1.0.0+{}", (at + skip) % 3000));
        format!(" 1.0.0+{at}<1.0.0+{}{skips}", (at + 1) % 3000)
    });
    assert_rows!(in_time(|| path(&installed("1.0.0+7"), &package("stable", &[("stable", &entries)]))) => [""; 0]);
}
