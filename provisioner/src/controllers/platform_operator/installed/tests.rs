use serde_json::{Value, json};

use super::*;
use crate::controllers::platform_operator::fixtures::{
    chosen, condition, forget, instance, plain_status, status,
};

/// Formats the installed bundle, its version and catalog, and whether it is the chosen one.
fn brief(installed_state: &InstalledState) -> String {
    let unknown = || "?".to_owned();
    let installed = installed_state.installed.as_ref().map(|bundle| {
        let version = bundle.version.as_ref().map(Version::to_string);
        let version = version.unwrap_or_else(unknown);
        let catalog = bundle.catalog.clone().unwrap_or_else(unknown);
        format!("{} {version} {catalog}", bundle.name)
    });
    let state = ["not as chosen", "as chosen"][usize::from(installed_state.is_chosen_installed)];
    format!("{}, {state}", installed.unwrap_or_else(|| "nothing".into()))
}

#[test]
fn health_after_an_upgrade_is_that_of_the_former_bundle() {
    let chosen = chosen("1.1.0", Some("1.0.0"));
    let mut status = status("1.1.0", true);
    assert!(state(&instance(&chosen, &status)).is_healthy);
    status["previousBundleName"] = "tide-0".into();
    assert!(!state(&instance(&chosen, &status)).is_healthy);
}

#[test]
fn release_is_recorded_with_the_version() {
    let mut later = chosen("1.1.0", Some("1.0.0"));
    later.bundle.release = Some("2".into());
    later.after.as_mut().unwrap().release = Some("7".into());
    let release = |status: Value| {
        let installed = state(&instance(&later, &status)).installed.unwrap();
        installed.release.map(|release| release.to_string())
    };
    assert_rows! {
        release(status("1.1.0", true)).as_deref() => Some("2");
        release(status("1.0.0", true)).as_deref() => Some("7");
        release(plain_status("1.0.0")).as_deref() => Some("7");
    }
    later.after.as_mut().unwrap().release = Some("not at all a release".into());
    assert_rows!(state(&instance(&later, &status("1.0.0", true))).installed.unwrap().release => None);
}

#[test]
fn installed_bundle_is_identified_by_digest_or_name() {
    let tagged = with!(chosen("1.1.0", Some("1.0.0")) => bundle.image: "r.example/tide:v1".into());
    let first = chosen("1.0.0", None);
    let second = chosen("1.1.0", Some("1.0.0"));
    let garbage = Some("garbage".to_owned());
    let odd = with!(second.clone() => |odd| odd.after.as_mut().unwrap().version = garbage);
    for (chosen, status, expected) in ::tests::rows![
        &first, json!({}) => "nothing, not as chosen";
        &first, status("1.0.0", true) => "tide.v1.0.0 1.0.0 c/mine, as chosen";
        // The upgrade is unfinished.
        &second, status("1.0.0", true) => "tide.v1.0.0 1.0.0 c/mine, not as chosen";
        // Bundles without a ClusterServiceVersion declare neither name nor version.
        &first, plain_status("1.0.0") => "tide.v1.0.0 1.0.0 c/mine, as chosen";
        &second, plain_status("1.0.0") => "tide.v1.0.0 1.0.0 c/mine, not as chosen";
        &odd, plain_status("1.0.0") => "tide.v1.0.0 ? c/mine, not as chosen";
        // A tag may have moved: the name counts.
        &tagged, status("1.1.0", true) => "tide.v1.1.0 1.1.0 c/mine, as chosen";
        &tagged, status("1.0.0", true) => "tide.v1.0.0 1.0.0 c/mine, not as chosen";
        &tagged, plain_status("1.0.0") => "tide.v1.0.0 1.0.0 c/mine, not as chosen";
    ] {
        let installed_state = state(&instance(chosen, &status));
        assert_eq!(brief(&installed_state), expected, "{chosen:?} {status}");
        assert_eq!(installed_state.chosen.as_ref(), Some(chosen));
    }
    // A tag without a name is identified by the Bundle of the template.
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
fn installed_bundle_requires_the_condition_to_be_true() {
    let with = |installed: &str| {
        let mut status = status("1.0.0", true);
        status["conditions"] = json!([condition("Installed", installed, "Odd")]);
        state(&instance(&chosen("1.0.0", None), &status))
    };
    assert!(with("True").installed.is_some() && !with("True").is_healthy);
    for not in ["False", "Unknown", "true"] {
        assert_eq!(with(not).installed, None, "{not}");
        assert!(with(not).chosen.is_some());
    }
}

#[test]
fn malformed_choice_annotations_are_ignored() {
    let live = instance(&chosen("1.0.0", None), &status("1.0.0", true));
    let forgotten = state(&forget(live.clone()));
    let annotated = |text: &str| {
        let mut live = live.clone();
        let annotations = live.metadata.annotations.as_mut().unwrap();
        annotations.insert(labels::CHOSEN_BUNDLE.into(), text.into());
        state(&live).chosen
    };
    let long = "[".repeat(100_000);
    for text in ["", "null", "{", "[]", "{\"name\": 3}", &long] {
        assert_eq!(annotated(text), None, "{text:.20}");
    }
    let mut memo: Value = serde_json::to_value(chosen("1.0.0", None)).unwrap();
    memo["more"] = "x".into();
    assert_rows! {
        brief(&forgotten) => "tide.v1.0.0 1.0.0 ?, not as chosen";
        forgotten.is_healthy => true;
        // A newer provisioner may add fields.
        annotated(&memo.to_string()) => Some(chosen("1.0.0", None));
    }
}
