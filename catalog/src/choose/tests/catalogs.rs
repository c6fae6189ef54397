//! Several catalogs, and what is said of a decision.

use super::*;

// parity: serve-15, openshift-25
#[test]
fn catalogs_are_asked_by_priority_then_name_in_whatever_order_they_come() {
    let (old, new) = (
        package("stable", &[("stable", "1.0.0")]),
        package("stable", &[("stable", "9.0.0")]),
    );
    let mut none = package("stable", &[("stable", "8.0.0")]);
    none.bundles.get_mut("8.0.0").unwrap().image = String::new();
    let absent = Offer {
        catalog: "0",
        priority: 100,
        answer: Answer::Absent,
    };
    for (offers, chosen) in ::tests::rows![
        vec![offer("a", 0, &new), offer("b", 5, &old)] => Some(("b", "1.0.0"));
        vec![offer("a", 0, &old), offer("b", 0, &new)] => Some(("a", "1.0.0"));
        vec![offer("a", 0, &none), offer("b", 0, &old)] => Some(("b", "1.0.0"));
        vec![absent, offer("b", 0, &old)] => Some(("b", "1.0.0"));
        vec![absent] => None;
        vec![] => None;
    ] {
        let decision = choose(&request(), &offers);
        let reversed: Vec<_> = offers.iter().rev().copied().collect();
        assert_eq!(choose(&request(), &reversed), decision);
        let found = decision
            .verdict
            .choice()
            .map(|it| (it.catalog.as_str(), it.name.as_str()));
        assert_eq!(found, chosen);
        if let Verdict::Nothing(why) = &decision.verdict {
            assert!(
                why.contains("failed to find candidate olm.bundles from the foo package"),
                "{why}"
            );
        }
    }
}

#[test]
fn the_first_catalog_that_knows_what_is_installed_decides() {
    let known = package("stable", &[("stable", CHAIN)]);
    let other = package("stable", &[("stable", "5.0.0 6.0.0<5.0.0")]);
    let leads = package("stable", &[("stable", "7.0.0~<7.0.0")]);
    let at = installed("1.1.0");
    let request = Request {
        installed: Some(&at),
        ..request()
    };
    for (offers, chosen) in ::tests::rows![
        vec![offer("other", 9, &other), offer("known", 0, &known)] => "upgrade 1.2.0";
        // Who knows the bundle itself comes before who has only a way on from it.
        vec![offer("leads", 9, &leads), offer("known", 0, &known)] => "upgrade 1.2.0";
        vec![offer("leads", 9, &leads)] => "upgrade 7.0.0";
        vec![offer("other", 9, &other)] => "stay";
        vec![] => "stay";
    ] {
        assert_eq!(short(&choose(&request, &offers)), chosen);
    }
    // The same name with another version is another bundle.
    let version = Release {
        version: strict("1.1.5").unwrap(),
        release: None,
    };
    let odd = Installed {
        version: Some(version),
        ..at.clone()
    };
    let decision = choose(
        &Request {
            installed: Some(&odd),
            ..request
        },
        &[offer("other", 9, &other)],
    );
    assert_eq!(short(&decision), "stay");
}

#[test]
fn the_catalog_of_what_is_installed_decides_alone() {
    let known = package("stable", &[("stable", CHAIN)]);
    let other = package("stable", &[("stable", "5.0.0 6.0.0<5.0.0")]);
    let leads = package("stable", &[("stable", "1.5.0~<1.5.0")]);
    let newer = package("stable", &[("stable", "1.1.0 1.9.0<1.1.0")]);
    let at = |catalog: &str| Installed {
        catalog: Some(catalog.into()),
        ..installed("1.1.0")
    };
    let absent = Offer {
        catalog: "own",
        priority: 0,
        answer: Answer::Absent,
    };
    for (own, offers, chosen) in ::tests::rows![
        // A catalog with a higher priority that came later, or one that still lists what the own one has pruned.
        "own", vec![offer("new", 9, &newer), offer("own", 0, &known)] => "upgrade 1.2.0";
        "own", vec![offer("own", 9, &leads), offer("stale", 0, &newer)] => "upgrade 1.5.0";
        "own", vec![offer("own", 9, &other), offer("stale", 0, &newer)] => "stay";
        // It has nothing to say: somebody has to have asked for another one.
        "own", vec![absent, offer("new", 0, &newer)] => "upgrade 1.9.0";
        "own", vec![offer("new", 0, &newer)] => "upgrade 1.9.0";
    ] {
        let at = at(own);
        let request = Request {
            installed: Some(&at),
            ..request()
        };
        let decision = choose(&request, &offers);
        assert_eq!(short(&decision), chosen, "{decision}");
        if let Verdict::Stay(why) = &decision.verdict {
            assert!(
                why.starts_with("catalog own, which 1.1.0 is from, knows neither"),
                "{why}"
            );
        }
    }
}

#[test]
fn who_is_stranded_in_a_channel_is_told_which_lead_on() {
    let channels = [
        ("new", "2.0.0 2.1.0<2.0.0"),
        ("a", "1.0.0"),
        ("b", "1.1.0~<1.1.0"),
        ("c", "3.0.0"),
    ];
    let package = package("new", &channels);
    let at = installed("1.0.0");
    let of = |channel| {
        let request = Request {
            installed: Some(&at),
            channel,
            ..request()
        };
        match decide(&request, &package).verdict {
            Verdict::Stay(why) => why,
            other => format!("{other:?}"),
        }
    };
    assert_eq!(
        of(None),
        "channel new of package foo in catalog c has neither 1.0.0 nor a way on from it; to go on, set spec.channel to one \
         that has: a, b"
    );
    assert_eq!(of(Some("a")), "nothing in channel a comes after 1.0.0");
}

#[test]
fn a_catalog_that_is_away_makes_nobody_go_back() {
    let known = package("stable", &[("stable", CHAIN)]);
    let away = |catalog, priority| Offer {
        catalog,
        priority,
        answer: Answer::Unknown("the stream ended too soon"),
    };
    let at = installed("1.1.0");
    let from = |catalog: &str| Installed {
        catalog: Some(catalog.into()),
        ..at.clone()
    };
    for (installed, offers, chosen, unasked) in ::tests::rows![
        // It may be from one that nobody sees; but not if that is seen.
        from("ours/mine"), vec![away("ours/*", 0), offer("b", 0, &known)], "stay" => &["ours/*"][..];
        from("ours/mine"), vec![away("ours/*", 0), offer("ours/mine", 0, &known)], "upgrade 1.2.0" => &["ours/*"];
        from("others/mine"), vec![away("ours/*", 0), offer("b", 0, &known)], "upgrade 1.2.0" => &[];
        // Where it is from is not known, so it may be from the one that is away.
        at.clone(), vec![away("a", 9), offer("b", 0, &known)], "stay" => &["a"][..];
        at.clone(), vec![offer("b", 9, &known), away("c", 0)], "upgrade 1.2.0" => &[];
        from("b"), vec![away("a", 9), offer("b", 0, &known)], "upgrade 1.2.0" => &["a"];
        from("a"), vec![away("a", 0), offer("b", 9, &known)], "stay" => &["a"];
        from("a"), vec![away("a", 0)], "stay" => &["a"];
    ] {
        let request = Request {
            installed: Some(&installed),
            ..request()
        };
        let decision = choose(&request, &offers);
        assert_eq!(
            (short(&decision).as_str(), names(&decision).as_slice()),
            (chosen, unasked),
            "{installed:?}"
        );
    }
    // With nothing installed the others are asked, and it is told which was not.
    let decision = choose(&request(), &[away("a", 9), offer("b", 0, &known)]);
    assert_eq!(
        (short(&decision).as_str(), names(&decision).as_slice()),
        ("install 1.2.0", &["a"][..])
    );
    let decision = choose(&request(), &[away("a", 9)]);
    assert!(
        matches!(&decision.verdict, Verdict::Nothing(why) if why.ends_with("these could not: a (the stream ended too soon)"))
    );
    let from_a = from("a");
    let request = Request {
        installed: Some(&from_a),
        ..request()
    };
    let decision = choose(&request, &[away("a", 9)]);
    assert!(
        matches!(&decision.verdict, Verdict::Stay(why) if why.contains("cannot be asked (the stream ended too soon)"))
    );
}

/// The catalogs that could not be asked.
fn names(decision: &Decision) -> Vec<&str> {
    let unasked = decision.unasked.iter();
    unasked.map(|it| it.catalog.as_str()).collect()
}

#[test]
fn a_catalog_that_is_about_to_be_read_is_waited_for() {
    let known = package("stable", &[("stable", CHAIN)]);
    let pending = |catalog, priority| Offer {
        catalog,
        priority,
        answer: Answer::Pending,
    };
    let at = installed("1.1.0");
    let from = |catalog: &str| Installed {
        catalog: Some(catalog.into()),
        ..at.clone()
    };
    let first = vec![pending("a", 9), offer("b", 0, &known)];
    let last = vec![offer("b", 9, &known), pending("c", 0)];
    let b = from("b");
    for (installed, offers, chosen, named) in ::tests::rows![
        None, &first, "nothing" => Some("catalog a has not been read yet");
        None, &last, "install 1.2.0" => None;
        Some(&at), &first, "stay" => Some("a (it has not been read yet)");
        Some(&at), &last, "upgrade 1.2.0" => None;
        // Nobody else is asked about what is from a catalog that answers.
        Some(&b), &first, "upgrade 1.2.0" => None;
        Some(&b), &last, "upgrade 1.2.0" => None;
    ] {
        let request = Request {
            installed,
            ..request()
        };
        let decision = choose(&request, offers);
        assert_eq!(short(&decision), chosen, "{installed:?}");
        if named.is_some() {
            let mut unasked = decision.unasked.iter();
            assert!(unasked.any(|it| it.is_pending), "{installed:?}");
        }
        if let (Some(named), Verdict::Nothing(why) | Verdict::Stay(why)) =
            (named, &decision.verdict)
        {
            assert!(why.contains(named), "{why}");
        }
    }
    // Nobody else, and somebody who has nothing.
    let absent = Offer {
        catalog: "b",
        priority: 10,
        answer: Answer::Absent,
    };
    for offers in [vec![pending("a", 9)], vec![absent, pending("a", 9)]] {
        let decision = choose(&request(), &offers);
        assert!(
            matches!(&decision.verdict, Verdict::Nothing(why) if why.contains("catalog a has not been read yet")),
            "{decision}"
        );
    }
}

#[test]
fn only_as_many_bundles_are_named_as_somebody_wants() {
    let entries: Vec<String> = (0..50).map(|at| format!("1.0.{at}")).collect();
    let mut package = package(
        "stable",
        &[("stable", &entries.join(" ")), ("fast", "2.0.0")],
    );
    for at in 10..50 {
        let bundle = package.bundles.get_mut(&format!("1.0.{at}")).unwrap();
        bundle.min_kube = Some("none".into());
    }
    let offers = [offer("c", 0, &package)];
    let all = explain(&request(), &offers);
    assert_eq!((all.candidates.len(), all.more_candidates), (51, 0));
    let some = choose(&request(), &offers);
    // The one that was chosen always is.
    assert_eq!((some.candidates.len(), some.more_candidates), (11, 40));
    let chosen = some.candidates.iter().find(|it| it.is_chosen).unwrap();
    assert_eq!(chosen.name, "1.0.9");
    assert_eq!(some.candidates[..10], all.candidates[..10]);
    assert_eq!((some.verdict, some.next), (all.verdict, all.next));
}

// parity: complaint-1
#[test]
fn a_decision_explains_itself() {
    let mut package = package(
        "stable",
        &[
            ("stable", "1.0.0 1.1.0<1.0.0 1.2.0<1.1.0-1.1.1 1.1.1"),
            ("fast", "2.0.0"),
        ],
    );
    package.bundles.get_mut("1.2.0").unwrap().max_openshift = max_openshift("4.12");
    let request = Request {
        openshift: Some("4.13.0".parse().unwrap()),
        ..request()
    };
    let absent = Offer {
        catalog: "a",
        priority: 1,
        answer: Answer::Absent,
    };
    assert_eq!(
        explain(&request, &[absent, offer("b", 0, &package)]).to_string(),
        "\
Package foo: install 1.1.0 1.1.0 from channel stable of catalog b
  catalog a has no package foo
  catalog b: channel stable, the package's default, bundles: 4
  1.1.0 1.1.0 is chosen
Bundles:
  - 1.2.0 1.2.0 (b): requires OpenShift <= 4.12 but the cluster is 4.13
  - 1.1.1 1.1.1 (b): is skipped by a later bundle of the channel, and only upgraded from
  * 1.1.0 1.1.0 (b): is the best that nothing speaks against
  - 1.0.0 1.0.0 (b): 1.1.0 comes first
  - 2.0.0 2.0.0 (b): is not in channel stable
Next: 1.2.0 1.2.0, which requires OpenShift <= 4.12 but the cluster is 4.13
"
    );
}

#[test]
fn ties_are_broken_the_same_way_always() {
    // Two bundles of one version, as a registry may tell of: by image, then by name.
    let mut package = package("stable", &[("stable", "1.0.0 1.0.0+a 1.0.0+b")]);
    for bundle in package.bundles.values_mut() {
        bundle.image = "same".into();
    }
    assert_eq!(short(&decide(&request(), &package)), "install 1.0.0");
    package
        .channels
        .get_mut("stable")
        .unwrap()
        .entries
        .reverse();
    assert_eq!(short(&decide(&request(), &package)), "install 1.0.0");
    package.bundles.get_mut("1.0.0+b").unwrap().image = "a".into();
    assert_eq!(short(&decide(&request(), &package)), "install 1.0.0+b");
}

#[test]
fn large_channels_are_chosen_from_in_time() {
    use std::fmt::Write as _;
    let mut entries = "0.0.1".to_owned();
    for at in 2..50_000 {
        write!(entries, " 0.0.{at}<0.0.{}~<0.0.{at}", at - 1).unwrap();
    }
    let package = package("stable", &[("stable", &entries)]);
    let start = std::time::Instant::now();
    let at = installed("0.0.7");
    assert_eq!(
        short(&decide(
            &Request {
                installed: Some(&at),
                ..request()
            },
            &package
        )),
        "upgrade 0.0.49999"
    );
    assert!(start.elapsed().as_secs() < 60);
}
