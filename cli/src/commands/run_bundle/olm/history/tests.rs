use ::tests::table::assert_outcome;
use catalog::compose::history::Mode;
use serde_json::json;

use super::*;
use crate::testing::set;

// parity: run-8
#[test]
fn history_starts_with_the_image_of_the_catalog() {
    const INJECTED: &str = "operators.operatorframework.io/injected-bundles";
    const INDEX: &str = "operators.operatorframework.io/index-image";
    let list = r#"[{"imageTag":"quay.io/example/tide:v1","mode":"semver"}]"#;
    let no_image =
        "cannot upgrade: no catalog image reference exists in catalog source spec or annotations*";
    for (annotations, image, expected) in ::tests::rows![
        json!({}), json!("quay.io/example/index") => Ok((Some("quay.io/example/index"), 0));
        json!({INJECTED: list}), json!(null) => Ok((None, 1));
        json!({INJECTED: list, INDEX: "quay.io/example/other"}), json!("quay.io/example/index")
            => Ok((Some("quay.io/example/other"), 1));
        json!({}), json!("") => Err(no_image);
        json!({}), json!(null) => Err(no_image);
        json!({INJECTED: "[]"}), json!(null) => Err(no_image);
        // The image that is served takes precedence if its name is valid.
        json!({INJECTED: "[]", INDEX: "quay.io/example/other"}), json!("quay.io/example/index")
            => Ok((Some("quay.io/example/index"), 0));
        json!({INJECTED: "null", INDEX: "quay.io/example/other"}), json!("quay.io/example/index:v{kube_major_version}")
            => Ok((Some("quay.io/example/other"), 0));
        json!({INDEX: "quay.io/example/other"}), json!(null) => Ok((Some("quay.io/example/other"), 0));
        json!({INJECTED: "[{"}), json!("quay.io/example/index")
            => Err("annotation operators.operatorframework.io/injected-bundles is malformed: *");
    ] {
        let source = object!({"metadata": {"annotations": annotations}, "spec": {"image": image}});
        let expected = expected.map(|(index, count)| (index.map(str::to_owned), count));
        let found = history(&source).map(|found| (found.index, found.injected.len()));
        assert_outcome(found, expected, source);
    }
}

fn member(csv: &str, image: &str, digest: &str) -> HistoryEntry<()> {
    HistoryEntry {
        csv: csv.to_owned(),
        package: "tide".to_owned(),
        pinned: format!("a.io/tide@sha256:{digest}"),
        injected: InjectedBundle {
            image_tag: image.to_owned(),
            mode: Mode::Semver,
        },
        bundle: (),
    }
}

#[test]
fn interrupted_upgrade_matches_by_name_and_digest() {
    let first = member("tide.v1", "a.io/tide@sha256:1", "1");
    let second = member("tide.v2", "a.io/tide@sha256:2", "2");
    let tagged = member("tide.v2", "a.io/tide:latest", "2");
    let moved =
        "a.io/tide:latest in the history is now \"tide.v2\", but OLM has installed \"tide.v1\"*";
    for (history, has_index, installed, new, expected) in ::tests::rows![
        vec![], true, "tide.v0", ("tide.v1", "1") => Ok(0);
        vec![&first], false, "tide.v1", ("tide.v2", "2") => Ok(1);
        vec![&first, &second], false, "tide.v1", ("tide.v2", "2") => Ok(1);
        vec![&first, &second], false, "tide.v2", ("tide.v2", "2") => Ok(1);
        vec![&first, &tagged], false, "tide.v1", ("tide.v2", "2") => Ok(1);
        // Pushed again with other content: the duplicate name is rejected later.
        vec![&first, &second], false, "tide.v1", ("tide.v2", "3") => Ok(2);
        // The version that is already installed.
        vec![&first], false, "tide.v1", ("tide.v1", "1") => Ok(0);
        vec![&first], false, "", ("tide.v1", "1") => Ok(0);
        vec![&second], true, "tide.v1", ("tide.v2", "2") => Ok(0);
        // The tag belonged to another version earlier.
        vec![&tagged], false, "tide.v1", ("tide.v2", "2") => Err(moved);
    ] {
        let history: Vec<HistoryEntry<()>> = history.into_iter().cloned().collect();
        let pinned = format!("other.io/tide@sha256:{}", new.1);
        let standing = ::tests::with!(InstallState, installed: installed.to_owned(), current: installed.to_owned());
        let found = predecessors(history.clone(), has_index, &standing, (new.0, &pinned));
        assert_outcome(found, expected.map(|count| history[..count].to_vec()), new);
    }
}

// parity: sdk-11, sdk-37
#[test]
fn versions_that_olm_gave_up_are_skipped() {
    let line = ["1", "2", "3"].map(|number| {
        let (csv, image) = (format!("tide.v{number}"), format!("a.io/tide:{number}"));
        member(&csv, &image, number)
    });
    let images = |image: &str| UnpackFailures::Images(BTreeSet::from([image.to_owned()]));
    for (installed, current, has_failed_for_good, not_unpacked, failed, expected) in ::tests::rows![
        "tide.v1", "tide.v1", false, UnpackFailures::Unknown, set(&[]) => 1;
        "tide.v2", "tide.v2", false, UnpackFailures::Unknown, set(&[]) => 2;
        "tide.v3", "tide.v3", false, UnpackFailures::Unknown, set(&[]) => 3;
        "tide.v1", "tide.v1", false, UnpackFailures::None, set(&["tide.v2"]) => 1;
        // The installed version comes from an index.
        "tide.v0", "tide.v0", false, UnpackFailures::Unknown, set(&[]) => 0;
        // A failed Job names the image of the history or its digest. Jobs of other packages do not count.
        "tide.v1", "tide.v1", false, images("a.io/tide:3"), set(&[]) => 1;
        "tide.v1", "tide.v1", false, images(&line[2].pinned), set(&[]) => 1;
        "tide.v1", "tide.v1", false, images("a.io/coral:1"), set(&[]) => 3;
        "tide.v2", "tide.v2", false, images("a.io/tide:2"), set(&[]) => 3;
        // Versions that OLM did not give up are kept.
        "tide.v1", "tide.v1", false, UnpackFailures::None, set(&[]) => 3;
        "tide.v2", "tide.v2", false, UnpackFailures::None, set(&["tide.v2", "coral.v1"]) => 3;
        // OLM is still upgrading.
        "tide.v1", "tide.v2", false, UnpackFailures::Unknown, set(&["tide.v2"]) => 3;
        "", "", false, UnpackFailures::Unknown, set(&["tide.v1"]) => 3;
        // The upgrade started, and its plan failed or was deleted.
        "tide.v1", "tide.v2", true, UnpackFailures::None, set(&["tide.v2"]) => 1;
        "tide.v1", "tide.v2", true, UnpackFailures::None, set(&[]) => 1;
        "tide.v1", "coral.v2", true, UnpackFailures::None, set(&[]) => 3;
        "", "tide.v1", true, UnpackFailures::None, set(&["tide.v1"]) => 3;
    ] {
        let standing = InstallState {
            installed: installed.to_owned(),
            current: current.to_owned(),
            has_failed_for_good,
            not_unpacked,
            failed,
        };
        let new = ("tide.v4", "a.io/tide@sha256:4");
        ::tests::assert_rows!(predecessors(line.to_vec(), true, &standing, new).unwrap() => line[..expected], "{standing:?}");
    }
}

// parity: sdk-13
#[test]
fn inconsistent_history_is_rejected_with_a_remedy() {
    let good = member("tide.v1", "a.io/tide:1", "1");
    let other = member("coral.v1", "a.io/coral:1", "2");
    let other = ::tests::with!(other => package: "coral".to_owned());
    let again = member("tide.v1", "a.io/tide:2", "3");
    for (history, expected) in ::tests::rows![
        vec![] => Ok(());
        vec![good.clone()] => Ok(());
        vec![good.clone(), other] => Err(
            "a.io/coral:1 in the history of CatalogSource tides belongs to package \"coral\", not to \"tide\"; set \
             annotation *injected-bundles*",
        );
        vec![good, again] => Err(
            "a.io/tide:1 and a.io/tide:2 in the history of CatalogSource tides are both \"tide.v1\"; remove \
             *injected-bundles*",
        );
    ] {
        assert_outcome(check(&history, "tide", "tides"), expected, history);
    }
}

// parity: sdk-13
#[test]
fn target_must_be_reachable_from_the_installed_version() {
    let entry = |name: &str, replaces: &str, skips: &[&str], range: Option<&str>| Entry {
        name: name.to_owned(),
        replaces: Some(replaces.to_owned()).filter(|name| !name.is_empty()),
        skips: skips.iter().map(|skip| (*skip).to_owned()).collect(),
        skip_range: range.map(str::to_owned),
    };
    let first = entry("a", "", &[], None);
    let second = entry("b", "a", &[], None);
    let ranged = [first.clone(), entry("b", "a", &[], Some("<1.0.0"))];
    let circle = [entry("a", "b", &[], None), second.clone()];
    let line = [first, second, entry("c", "b", &["x"], None)];
    ::tests::assert_each!(|entries, installed, target, expected| is_reachable(entries.iter(), installed, target) => expected;
        &line[..], "a", "c" => true;
        &line, "b", "c" => true;
        &line, "c", "c" => true;
        &line, "x", "c" => true;
        &line, "lost", "c" => false;
        &line, "c", "b" => false;
        // The installed version need not be in the channel.
        &line[1..], "a", "c" => true;
        &ranged, "lost", "b" => true;
        &circle, "a", "c" => false;
        &[], "a", "a" => true;
    );
}

/// A comparison of all pairs would take 400 million steps.
#[test]
fn many_skip_ranges_are_scanned_once() {
    let entries: Vec<Entry> = (0..20_000)
        .map(|at| Entry {
            name: format!("v{at}"),
            replaces: Some(format!("v{}", at + 1)),
            skips: vec!["x".to_owned()],
            skip_range: Some("<1.0.0".to_owned()),
        })
        .collect();
    let mut visited = 0;
    let counted = entries.iter().inspect(|_| visited += 1);
    assert!(!is_reachable(counted, "x", "lost"));
    assert_eq!(visited, entries.len());
    assert!(is_reachable(entries.iter(), "x", "v19999"));
}
