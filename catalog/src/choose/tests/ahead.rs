use manifests::openshift;

use super::*;
use crate::testing::{list, within};

/// A package whose bundles declare these max OpenShift versions.
fn limited(channels: &[(&str, &str)], maxima: &[(&str, &str)]) -> Package {
    let mut package = package("stable", channels);
    for (name, maximum) in maxima {
        package.bundles.get_mut(*name).unwrap().max_openshift = max_openshift(maximum);
    }
    package
}

const NEXT: openshift::Release = openshift::Release::new(4, 21);

fn found(package: &Package, at: &str, request: Request<'_>) -> Option<String> {
    let installed = installed(at);
    let openshift = Some(openshift::Release::new(4, 20));
    let request = with!(Request, installed: Some(&installed), openshift; ..request);
    let offers = [offer("c", 0, package)];
    described(ahead(&request, ChannelScope::Any, NEXT, &offers))
}

/// Formats the bundle ahead; `None` if no bundle is ahead.
fn described(ahead: RequiredUpgrade) -> Option<String> {
    match ahead {
        RequiredUpgrade::UpgradeTo(choice) => Some(format!("{} {}", choice.channel, choice.name)),
        RequiredUpgrade::None => None,
        RequiredUpgrade::Unknown(catalog) => Some(format!("unknown: {catalog}")),
    }
}

#[test]
fn bundle_ahead_is_reachable_and_supports_the_next_release() {
    assert_each!(|channel, maxima, at, expected|
        found(&limited(&[("stable", channel)], maxima), at, Request::default()).as_deref() => expected;
        // No max OpenShift version: the bundle is eligible.
        CHAIN, &[("1.0.0", "4.20")][..], "1.0.0" => Some("stable 1.2.0");
        CHAIN, &[("1.2.0", "4.20")], "1.0.0" => Some("stable 1.1.0");
        CHAIN, &[("1.1.0", "4.20"), ("1.2.0", "4.20")], "1.0.0" => None;
        // The path leads over a bundle that is not eligible today.
        CHAIN, &[("1.1.0", "4.19")], "1.0.0" => None;
        "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0~>=1.0.0,<1.2.0", &[("1.1.0", "4.19")], "1.0.0" => Some("stable 1.2.0");
        "1.0.0 1.1.0<1.0.0 1.2.0<1.0.0-1.1.0", &[("1.2.0", "4.21")], "1.0.0" => Some("stable 1.2.0");
        CHAIN, &[], "1.2.0" => None;
        // Edges in a cycle, and an edge from a bundle to itself.
        "1.0.0<1.1.0 1.1.0<1.0.0", &[], "1.0.0" => Some("stable 1.1.0");
        "1.0.0<1.0.0", &[], "1.0.0" => None;
        // The catalog no longer contains the installed bundle, but has an edge from it.
        "1.1.0<1.0.0", &[], "1.0.0" => Some("stable 1.1.0");
        "1.1.0<1.0.5", &[], "1.0.0" => None;
    );
}

#[test]
fn ahead_uses_the_followed_channel() {
    let (old, fast) = ("1.0.0 1.1.0<1.0.0", "1.0.0 1.3.0<1.0.0");
    let package = limited(&[("stable", "2.0.0"), ("old", old), ("fast", fast)], &[]);
    let of = |channel| found(&package, "1.0.0", with!(Request, channel));
    assert_each!(|channel, expected| of(channel).as_deref() => expected;
        Some("old") => Some("old 1.1.0");
        Some("stable") => None;
        Some("none") => None;
        // The default channel does not contain the bundle.
        None => Some("fast 1.3.0");
    );
    // If the default channel is followed, nothing is ahead.
    let (installed, offers) = (installed("1.0.0"), [offer("c", 0, &package)]);
    let found = ahead(&after(&installed), ChannelScope::Default, NEXT, &offers);
    assert_eq!(described(found), None);
    let range = manifests::version_range::Range::parse("<1.2.0").unwrap();
    assert_rows!(self::found(&package, "1.0.0", with!(Request, range: Some(&range), channel: Some("fast"))) => None);
}

#[test]
fn unavailable_catalog_makes_ahead_unknown() {
    let [full, head] = [CHAIN, "1.0.0"].map(|entries| limited(&[("stable", entries)], &[]));
    let away = |catalog, priority| answer(catalog, priority, CatalogAnswer::Unavailable("away"));
    let pending = |catalog, priority| answer(catalog, priority, CatalogAnswer::Pending);
    let absent = |catalog, priority| answer(catalog, priority, CatalogAnswer::NotFound);
    let (full, head) = (offer("n/c", 5, &full), offer("n/c", 5, &head));
    let to = Some("stable 1.2.0");
    let (any, default) = (ChannelScope::Any, ChannelScope::Default);
    for (followed, own, offers, expected) in ::tests::rows![
        any, None, vec![] => None;
        any, None, vec![absent("n/a", 9)] => None;
        any, None, vec![absent("n/a", 9), away("n/b", 0)] => Some("unknown: n/b");
        any, None, vec![pending("n/b", 0)] => Some("unknown: n/b");
        any, None, vec![away("n/a", 9), pending("n/b", 8), full] => to;
        any, None, vec![away("n/a", 9), head] => Some("unknown: n/a");
        any, None, vec![away("n/d", 0), head] => Some("unknown: n/d");
        // Same order as in a choice: catalogs after the authoritative one are ignored.
        default, Some("n/c"), vec![away("n/d", 0), head] => None;
        default, Some("n/c"), vec![away("n/a", 9), full] => to;
        // Other catalogs are ignored, too, as long as the catalog of the bundle answers.
        default, Some("n/c"), vec![away("n/a", 9), head] => None;
        default, Some("n/c"), vec![pending("n/a", 9), full] => to;
        default, None, vec![away("n/a", 9), full] => Some("unknown: n/a");
        default, None, vec![away("n/d", 0), full] => to;
        // The catalog of the bundle is unavailable, or is not selected.
        default, Some("n/d"), vec![away("n/d", 0), full] => Some("unknown: n/d");
        default, Some("m/d"), vec![away("m/*", 0), full] => Some("unknown: m/*");
        default, Some("o/d"), vec![away("m/*", 0), full] => to;
    ] {
        let installed = with!(Installed, catalog: own.map(str::to_owned); ..installed("1.0.0"));
        let found = described(ahead(&after(&installed), followed, NEXT, &offers));
        assert_rows!(found.as_deref() => expected, "{followed:?} {own:?} {offers:?}");
    }
    assert_rows!(described(ahead(&Request::default(), any, NEXT, &[full])) => None, "nothing is installed");
}

#[test]
fn long_channels_take_bounded_time() {
    let entries = list(1..20_000, |n| format!("1.{n}.0<1.{}.0 ", n - 1));
    let package = limited(&[("stable", &entries)], &[]);
    assert!(within(20, || found(&package, "1.0.0", Request::default())).is_some());
}
