use serde_json::{Value, json};

use super::{
    super::fixtures::{chosen, condition, forget, instance, plain_status, status},
    *,
};

/// What is installed, its version and catalog, and whether it is what was chosen.
fn brief(here: &InstalledState) -> String {
    let installed = here.installed.as_ref().map(|it| {
        let version = it.version.as_ref().map(Version::to_string);
        let text = |text: Option<String>| text.unwrap_or_else(|| "?".into());
        format!("{} {} {}", it.name, text(version), text(it.catalog.clone()))
    });
    let state = if here.is_chosen_installed {
        "as chosen"
    } else {
        "not as chosen"
    };
    format!("{}, {state}", installed.unwrap_or_else(|| "nothing".into()))
}

#[test]
fn right_after_an_upgrade_health_is_that_of_the_former_bundle() {
    let chosen = chosen("1.1.0", Some("1.0.0"));
    let mut status = status("1.1.0", true);
    assert!(state(&instance(&chosen, &status)).is_healthy);
    status["previousBundleName"] = "tide-0".into();
    assert!(!state(&instance(&chosen, &status)).is_healthy);
}

#[test]
fn the_release_is_kept_beside_the_version() {
    let mut later = chosen("1.1.0", Some("1.0.0"));
    later.bundle.release = Some("2".into());
    later.after.as_mut().unwrap().release = Some("7".into());
    let release = |status: Value| {
        let installed = state(&instance(&later, &status)).installed.unwrap();
        installed.release.map(|it| it.to_string())
    };
    assert_eq!(release(status("1.1.0", true)).as_deref(), Some("2"));
    assert_eq!(release(status("1.0.0", true)).as_deref(), Some("7"));
    assert_eq!(release(plain_status("1.0.0")).as_deref(), Some("7"));
    later.after.as_mut().unwrap().release = Some("not at all a release".into());
    assert_rows!(state(&instance(&later, &status("1.0.0", true))).installed.unwrap().release => None);
}

#[test]
fn what_is_installed_is_known_by_its_digest_or_its_name() {
    let tagged = with!(chosen("1.1.0", Some("1.0.0")) => bundle.image: "r.example/tide:v1".into());
    let first = chosen("1.0.0", None);
    let second = chosen("1.1.0", Some("1.0.0"));
    let mut odd = chosen("1.1.0", Some("1.0.0"));
    odd.after = Some(Predecessor {
        name: "tide.v1.0.0".into(),
        version: Some("garbage".into()),
        release: None,
    });
    for (chosen, status, expected) in ::tests::rows![
        &first, json!({}) => "nothing, not as chosen";
        &first, status("1.0.0", true) => "tide.v1.0.0 1.0.0 c/mine, as chosen";
        // On its way.
        &second, status("1.0.0", true) => "tide.v1.0.0 1.0.0 c/mine, not as chosen";
        // Bundles without a ClusterServiceVersion tell neither name nor version.
        &first, plain_status("1.0.0") => "tide.v1.0.0 1.0.0 c/mine, as chosen";
        &second, plain_status("1.0.0") => "tide.v1.0.0 1.0.0 c/mine, not as chosen";
        &odd, plain_status("1.0.0") => "tide.v1.0.0 ? c/mine, not as chosen";
        // A tag may be anything by now: what counts is the name.
        &tagged, status("1.1.0", true) => "tide.v1.1.0 1.1.0 c/mine, as chosen";
        &tagged, status("1.0.0", true) => "tide.v1.0.0 1.0.0 c/mine, not as chosen";
        &tagged, plain_status("1.0.0") => "tide.v1.0.0 1.0.0 c/mine, not as chosen";
    ] {
        let here = state(&instance(chosen, &status));
        assert_eq!(brief(&here), expected, "{chosen:?} {status}");
        assert_eq!(here.chosen.as_ref(), Some(chosen));
    }
    // A tag without a name is known by the Bundle of the template.
    let mut status = plain_status("1.1.0");
    let made = instance(&tagged, &status);
    let hash = template::hash(&made);
    for name in [&template::bundle_name(&made, &hash), "tide-random"] {
        status["installedBundleName"] = name.into();
        let record = json!({"name": "tide-random", "uid": "1", "templateHash": hash});
        status["bundles"] = json!([record]);
        assert_rows!(brief(&state(&instance(&tagged, &status))) => "tide.v1.1.0 1.1.0 c/mine, as chosen");
    }
    status["bundles"][0]["templateHash"] = "other".into();
    assert_rows!(!state(&instance(&tagged, &status)).is_chosen_installed => true);
}

#[test]
fn only_what_is_installed_counts() {
    let with = |installed: &str| {
        let mut status = status("1.0.0", true);
        status["conditions"] = json!([condition("Installed", installed, "Odd")]);
        state(&instance(&chosen("1.0.0", None), &status))
    };
    assert!(with("True").installed.is_some());
    assert!(!with("True").is_healthy);
    for not in ["False", "Unknown", "true"] {
        assert_eq!(with(not).installed, None, "{not}");
        assert!(with(not).chosen.is_some());
    }
}

#[test]
fn an_annotation_that_nobody_here_wrote_says_nothing() {
    let there = instance(&chosen("1.0.0", None), &status("1.0.0", true));
    let here = state(&forget(there.clone()));
    assert_eq!(brief(&here), "tide.v1.0.0 1.0.0 ?, not as chosen");
    assert!(here.is_healthy);
    let long = "[".repeat(100_000);
    for text in ["", "null", "{", "[]", "{\"name\": 3}", &long] {
        let mut there = there.clone();
        let annotations = there.metadata.annotations.as_mut().unwrap();
        annotations.insert(labels::CHOSEN_BUNDLE.into(), text.into());
        assert_eq!(state(&there).chosen, None, "{text:.20}");
    }
    // What is newer than this may say more.
    let mut memo: Value = serde_json::to_value(chosen("1.0.0", None)).unwrap();
    memo["more"] = "x".into();
    let mut there = there;
    let annotations = there.metadata.annotations.as_mut().unwrap();
    annotations.insert(labels::CHOSEN_BUNDLE.into(), memo.to_string());
    assert_eq!(state(&there).chosen, Some(chosen("1.0.0", None)));
}
