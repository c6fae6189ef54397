//! Decisions between several catalogs, and their explanation.

use super::*;
use crate::testing::{has, list, starts};

// parity: serve-15, openshift-25
#[test]
fn catalogs_are_ordered_by_priority_and_name() {
    let [old, new, mut none] =
        ["1.0.0", "9.0.0", "8.0.0"].map(|entries| package("stable", &[("stable", entries)]));
    none.bundles.get_mut("8.0.0").unwrap().image = String::new();
    let absent = answer("0", 100, CatalogAnswer::NotFound);
    for (offers, chosen) in ::tests::rows![
        vec![offer("a", 0, &new), offer("b", 5, &old)] => Some(("b", "1.0.0"));
        vec![offer("a", 0, &old), offer("b", 0, &new)] => Some(("a", "1.0.0"));
        vec![offer("a", 0, &none), offer("b", 0, &old)] => Some(("b", "1.0.0"));
        vec![absent, offer("b", 0, &old)] => Some(("b", "1.0.0"));
        vec![absent] => None;
        vec![] => None;
    ] {
        let decision = choose(&Request::default(), &offers);
        let reversed: Vec<_> = offers.iter().rev().copied().collect();
        assert_eq!(choose(&Request::default(), &reversed), decision);
        let found = decision.verdict.choice();
        assert_eq!(found.map(|found| (&*found.catalog, &*found.name)), chosen);
        if let Outcome::NoCandidate(reason) = &decision.verdict {
            let part = "failed to find candidate olm.bundles from the foo package";
            has(reason, part);
        }
    }
}

#[test]
fn catalog_of_the_installed_bundle_is_authoritative() {
    let stable = |entries| package("stable", &[("stable", entries)]);
    let [chain, other, newer] = [CHAIN, "5.0.0 6.0.0<5.0.0", "1.1.0 1.9.0<1.1.0"].map(stable);
    let [leads, leads_higher] = ["1.5.0~<1.5.0", "7.0.0~<7.0.0"].map(stable);
    for (installed_from, offers, chosen) in ::tests::rows![
        "", vec![offer("other", 9, &other), offer("known", 0, &chain)] => "upgrade 1.2.0";
        // A catalog with the bundle itself precedes one that only has an edge from it.
        "", vec![offer("leads", 9, &leads_higher), offer("known", 0, &chain)] => "upgrade 1.2.0";
        "", vec![offer("leads", 9, &leads_higher)] => "upgrade 7.0.0";
        "", vec![offer("other", 9, &other)] => "no upgrade";
        "", vec![] => "no upgrade";
        // A catalog with a higher priority that was added later, or one that still lists bundles that the own one has
        // pruned.
        "own", vec![offer("new", 9, &newer), offer("own", 0, &chain)] => "upgrade 1.2.0";
        "own", vec![offer("own", 9, &leads), offer("stale", 0, &newer)] => "upgrade 1.5.0";
        "own", vec![offer("own", 9, &other), offer("stale", 0, &newer)] => "no upgrade";
        // The own catalog offers no upgrade: another catalog is used only on request.
        "own", vec![answer("own", 0, CatalogAnswer::NotFound), offer("new", 0, &newer)] => "upgrade 1.9.0";
        "own", vec![offer("new", 0, &newer)] => "upgrade 1.9.0";
    ] {
        let decision = choose(&after(&from(installed_from)), &offers);
        assert_eq!(short(&decision), chosen, "{installed_from} {decision}");
        if installed_from == "own"
            && let Outcome::NoUpgrade(reason) = &decision.verdict
        {
            starts(reason, "catalog own, the source of 1.1.0, contains neither");
        }
    }
    // The same name with another version is another bundle.
    let odd = with!(Installed, version: Some(version("1.1.5")); ..installed("1.1.0"));
    assert_rows!(short(&choose(&after(&odd), &[offer("other", 9, &other)])) => "no upgrade");
}

#[test]
fn dead_end_names_channels_with_an_upgrade() {
    let channels = ::tests::pairs("new 2.0.0 2.1.0<2.0.0, a 1.0.0, b 1.1.0~<1.1.0, c 3.0.0");
    let package = package("new", &channels.collect::<Vec<_>>());
    let at = installed("1.0.0");
    let of = |channel| with!(Request, installed: Some(&at), channel);
    assert_each!(|channel, expected| decide(&of(channel), &package).verdict => Outcome::NoUpgrade(expected.to_owned());
        None => "channel new of package foo in catalog c contains neither 1.0.0 nor an upgrade from it; set spec.channel to a \
                 channel that does: a, b";
        Some("a") => "channel a has no upgrade from 1.0.0";
    );
}

/// The bundle was installed from this catalog; an empty name if the catalog is not recorded.
fn from(catalog: &str) -> Installed {
    with!(Installed, catalog: Some(catalog.to_owned()).filter(|name| !name.is_empty()); ..installed("1.1.0"))
}

#[test]
fn unavailable_catalog_causes_no_downgrade() {
    let chain = package("stable", &[("stable", CHAIN)]);
    let reason = "the stream ended too soon";
    let away = |catalog, priority| answer(catalog, priority, CatalogAnswer::Unavailable(reason));
    let pending = |catalog, priority| answer(catalog, priority, CatalogAnswer::Pending);
    let chain = |catalog, priority| offer(catalog, priority, &chain);
    // Catalog of the installed bundle, if any; the decision; the unavailable catalogs and the reason.
    for (installed, offers, chosen, unasked, pattern) in ::tests::rows![
        // The bundle may be from a catalog that is not selected, unless the recorded catalog is selected.
        Some("ours/mine"), vec![away("ours/*", 0), chain("b", 0)], "no upgrade", &["ours/*"][..] => "*";
        Some("ours/mine"), vec![away("ours/*", 0), chain("ours/mine", 0)], "upgrade 1.2.0", &["ours/*"] => "*";
        Some("others/mine"), vec![away("ours/*", 0), chain("b", 0)], "upgrade 1.2.0", &[] => "*";
        // The catalog of the bundle is not recorded, so it may be the unavailable one.
        Some(""), vec![away("a", 9), chain("b", 0)], "no upgrade", &["a"] => "*";
        Some(""), vec![chain("b", 9), away("c", 0)], "upgrade 1.2.0", &[] => "*";
        Some("b"), vec![away("a", 9), chain("b", 0)], "upgrade 1.2.0", &["a"] => "*";
        Some("a"), vec![away("a", 0), chain("b", 9)], "no upgrade", &["a"] => "*";
        Some("a"), vec![away("a", 9)], "no upgrade", &["a"] => "*is unavailable (the stream ended too soon)*";
        // Without an installed bundle, the other catalogs are used, and the decision names the unavailable one.
        None, vec![away("a", 9), chain("b", 0)], "install 1.2.0", &["a"] => "*";
        None, vec![away("a", 9)], "nothing", &["a"] => "*unavailable: a (the stream ended too soon)";
        // A decision waits for a catalog that is being read for the first time.
        None, vec![pending("a", 9), chain("b", 0)], "nothing", &["a"] => "*waiting for catalog a, which has a higher priority*";
        None, vec![chain("b", 9), pending("c", 0)], "install 1.2.0", &[] => "*";
        Some(""), vec![pending("a", 9), chain("b", 0)], "no upgrade", &["a"] => "*a (not read yet)*";
        Some(""), vec![chain("b", 9), pending("c", 0)], "upgrade 1.2.0", &[] => "*";
        // The catalog of the bundle answers, so no other one is used.
        Some("b"), vec![pending("a", 9), chain("b", 0)], "upgrade 1.2.0", &["a"] => "*";
        Some("b"), vec![chain("b", 9), pending("c", 0)], "upgrade 1.2.0", &[] => "*";
        // No other catalog, and one without the package.
        None, vec![pending("a", 9)], "nothing", &["a"] => "*waiting for catalog a, which has a higher priority*";
        None, vec![answer("b", 10, CatalogAnswer::NotFound), pending("a", 9)], "nothing", &["a"]
            => "*waiting for catalog a, which has a higher priority*";
    ] {
        let from = installed.map(from);
        let decision = choose(&with!(Request, installed: from.as_ref()), &offers);
        let unavailable = decision.unavailable.iter();
        let names: Vec<&str> = unavailable.map(|catalog| &*catalog.catalog).collect();
        assert_rows!((&*short(&decision), &*names) => (chosen, unasked), "{installed:?} {offers:?}");
        for catalog in &decision.unavailable {
            let mut offers = offers.iter();
            let offer = offers.find(|offer| offer.catalog == catalog.catalog);
            let is_pending = matches!(offer.unwrap().answer, CatalogAnswer::Pending);
            assert_eq!(catalog.is_pending, is_pending);
        }
        if let Outcome::NoCandidate(reason) | Outcome::NoUpgrade(reason) = &decision.verdict {
            assert!(::tests::table::matches(pattern, reason), "{reason}");
        }
    }
}

#[test]
fn candidates_are_limited_to_the_requested_number() {
    let entries = list(0..50, |at| format!("1.0.{at} "));
    let mut package = package("stable", &[("stable", &entries), ("fast", "2.0.0")]);
    for at in 10..50 {
        let bundle = package.bundles.get_mut(&format!("1.0.{at}")).unwrap();
        bundle.min_kube = Some("none".into());
    }
    let offers = [offer("c", 0, &package)];
    let all = explain(&Request::default(), &offers);
    assert_eq!((all.candidates.len(), all.more_candidates), (51, 0));
    let some = choose(&Request::default(), &offers);
    // The chosen candidate is always listed.
    assert_eq!((some.candidates.len(), some.more_candidates), (11, 40));
    let mut candidates = some.candidates.iter();
    assert_rows!(candidates.find(|candidate| candidate.is_chosen).unwrap().name => "1.0.9");
    assert_eq!(some.candidates[..10], all.candidates[..10]);
    assert_eq!((some.verdict, some.next), (all.verdict, all.next));
}

// parity: complaint-1
#[test]
fn decision_lists_its_steps_and_candidates() {
    let stable = "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0-1.1.1 1.1.1";
    let mut package = package("stable", &[("stable", stable), ("fast", "2.0.0")]);
    package.bundles.get_mut("1.2.0").unwrap().max_openshift = max_openshift("4.12");
    let request = with!(Request, openshift: Some("4.13.0".parse().unwrap()));
    let absent = answer("a", 1, CatalogAnswer::NotFound);
    assert_rows!(explain(&request, &[absent, offer("b", 0, &package)]).to_string() => "\
Package foo: install 1.1.0 1.1.0 from channel stable of catalog b
  catalog a has no package foo
  catalog b: channel stable, the package's default, bundles: 4
  chose 1.1.0 1.1.0
Bundles:
  - 1.2.0 1.2.0 (b): requires OpenShift <= 4.12 but the cluster is 4.13
  - 1.1.1 1.1.1 (b): is skipped by a later bundle of the channel, so only upgrades from it are possible
  * 1.1.0 1.1.0 (b): is the best eligible bundle
  - 1.0.0 1.0.0 (b): 1.1.0 is preferred
  - 2.0.0 2.0.0 (b): is not in channel stable
Next: 1.2.0 1.2.0, which requires OpenShift <= 4.12 but the cluster is 4.13
");
}

#[test]
fn ties_have_a_fixed_order() {
    // Two bundles of one version, which a registry may contain: ordered by image, then by name.
    let mut package = package("stable", &[("stable", "1.0.0 1.0.0+a 1.0.0+b")]);
    let chosen = |package: &Package| short(&decide(&Request::default(), package));
    for bundle in package.bundles.values_mut() {
        bundle.image = "same".into();
    }
    assert_eq!(chosen(&package), "install 1.0.0");
    let channel = package.channels.get_mut("stable").unwrap();
    channel.entries.reverse();
    assert_eq!(chosen(&package), "install 1.0.0");
    package.bundles.get_mut("1.0.0+b").unwrap().image = "a".into();
    assert_eq!(chosen(&package), "install 1.0.0+b");
}
