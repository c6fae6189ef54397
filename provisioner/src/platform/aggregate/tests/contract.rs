//! What the cluster-version operator makes of what is written: its rules, and statuses that come from here.
//!
//! It waits for the ClusterOperators of its release payload, and reads of them no more than this.

use super::*;

fn status_of<'a>(status: &'a ClusterOperatorStatus, type_: &str) -> Option<&'a str> {
    let mut conditions = status.conditions.iter();
    Some(&conditions.find(|one| one.type_ == type_)?.status)
}

/// Reports whether the installation of a cluster goes on: being available is all that counts.
fn installs(status: &ClusterOperatorStatus) -> bool {
    !status.versions.is_empty() && status_of(status, "Available") == Some("True")
}

/// Whether an update to a version is complete as far as this operator goes. Who does not say that it is not degraded is.
fn completes_update(status: &ClusterOperatorStatus, version: &str) -> bool {
    let mut versions = status.versions.iter();
    let runs = versions.find(|it| it.name == "operator");
    installs(status)
        && status_of(status, "Degraded") == Some("False")
        && runs.is_some_and(|it| it.version == version)
}

/// What is written for a release: of these operators, on top of what was written when all was well, if it was.
fn of(operators: &[PlatformOperator], is_day_0: bool, release: &str) -> ClusterOperatorStatus {
    let gate = open();
    let then = input(&[], &gate, 0);
    let calm = cluster_operator(None, &then, "system", Some(release)).status;
    let before = (!is_day_0).then_some(&calm);
    let now = input(operators, &gate, 60);
    cluster_operator(before, &now, "system", Some(release)).status
}

fn failing(name: &str) -> PlatformOperator {
    operator(name, Some(("False", "SourceFailed", 0)))
}

/// Reports whether the cluster-version operator starts an update: within a minor version and back always, else unless
/// Upgradeable is False. An admin can force the update.
fn allows(status: &ClusterOperatorStatus, from: &str, to: &str, is_forced: bool) -> bool {
    let minor = |version: &str| -> (u64, u64) {
        let mut parts = version.split('.').map(|part| part.parse().unwrap());
        (parts.next().unwrap(), parts.next().unwrap())
    };
    is_forced || minor(to) <= minor(from) || status_of(status, "Upgradeable") != Some("False")
}

// parity: max-10, openshift-23
#[test]
fn a_closed_gate_holds_the_next_version_and_nothing_else() {
    for (gate, upgradeable) in [(closed(), "False"), (open(), "True")] {
        let status = written(None, &input(&[], &gate, 0));
        assert_eq!(status_of(&status, "Upgradeable"), Some(upgradeable));
        for (from, to, is_next) in ::tests::rows![
            "4.12.1", "4.13.0" => true;
            "4.23.4", "5.1.0" => true;
            "4.23.4", "5.0.0" => true;
            "4.12.1", "4.12.2" => false;
            "4.12.1", "4.12.1" => false;
            "4.12.2", "4.12.1" => false;
            "4.13.0", "4.12.9" => false;
        ] {
            let expected = !(upgradeable == "False" && is_next);
            assert_eq!(allows(&status, from, to, false), expected, "{from} {to}");
            assert!(allows(&status, from, to, true), "{from} {to}");
        }
        // It is about the next version; one that was begun goes on to its end.
        assert!(installs(&status) && completes_update(&status, "4.12.0"));
    }
    // The manager itself holds nothing.
    for listed in [Ok(()), Err("connection refused")] {
        let core = super::core(None, listed, "system", Some("4.12.0"), at(0)).status;
        assert_eq!(status_of(&core, "Upgradeable"), Some("True"));
    }
}

// parity: openshift-23
#[test]
fn an_installation_waits_for_every_platform_operator() {
    for (operators, is_installed) in [
        (vec![], true),
        (vec![good("a")], true),
        (vec![good("a"), failing("b")], false),
        (vec![operator("a", None)], false),
    ] {
        assert_rows!(installs(&of(&operators, true, "4.12.0")) => is_installed, "{operators:?}");
    }
    let now = at(0);
    let core = |listed| super::core(None, listed, "system", Some("4.12.0"), now).status;
    assert!(installs(&core(Ok(()))));
    assert!(!installs(&core(Err("connection refused"))));
    // What the cluster-version operator makes before anybody has written to it.
    assert!(!installs(&ClusterOperatorStatus::default()));
}

// parity: openshift-23
#[test]
fn an_update_completes_unless_something_has_failed_for_long() {
    let pending = || operator("new", Some(("False", "Unpacking", 59)));
    for (operators, is_complete) in [
        (vec![], true),
        (vec![good("a")], true),
        // Progressing is no obstacle.
        (vec![good("a"), pending()], true),
        (vec![good("a"), failing("b")], false),
        (vec![known("a", Some(("False", "InstallFailed", 0)))], false),
    ] {
        assert_rows!(completes_update(&of(&operators, false, "4.13.0"), "4.13.0") => is_complete, "{operators:?}");
    }
    let status = of(&[good("a"), pending()], false, "4.13.0");
    assert_eq!(brief(&status), "T T F");
    // The release that says it is another one, and the one without a release payload.
    assert!(!completes_update(&status, "4.13.1"));
    assert!(!completes_update(&of(&[], false, ""), "4.13.0"));
    // Whatever others take away is missed, and put back by the next look.
    let gate = open();
    let takes: [fn(&mut ClusterOperatorStatus); 4] = [
        |status| status.conditions.retain(|it| it.type_ != "Degraded"),
        |status| status.conditions.retain(|it| it.type_ != "Available"),
        |status| status.versions[0].version = "4.12.9".into(),
        |status| status.versions.clear(),
    ];
    for take in takes {
        let mut edited = status.clone();
        take(&mut edited);
        assert!(!completes_update(&edited, "4.13.0"), "{edited:?}");
        let operators = [good("a")];
        let input = input(&operators, &gate, 61);
        let mended = cluster_operator(Some(&edited), &input, "system", Some("4.13.0"));
        assert!(completes_update(&mended.status, "4.13.0"));
    }
}
