//! Ready, Reconciling and Stalled for all outcomes of a generation, and their evaluation by kstatus. The numbers are
//! those of the table in docs/conditions.md.

use manifests::api::condition::find;
use serde_json::json;

use super::*;

const GENERATION: i64 = 2;
const DEADLINE: i64 = 600;

/// Writes a status over the one before.
type Write = dyn Fn(&BundleInstanceStatus, &Declaration, Timestamp) -> BundleInstanceStatus;

/// A row: its number, the status before, the declaration and the write.
struct Row {
    number: &'static str,
    before: Box<BundleInstanceStatus>,
    declaration: Declaration,
    write: Box<Write>,
    is_late: bool,
}

fn row(number: &'static str, before: BundleInstanceStatus, outcome: Outcome) -> Row {
    Row {
        number,
        before: Box::new(before),
        declaration: declared(GENERATION),
        write: Box::new(move |before, declaration, now| build(before, declaration, &outcome, now)),
        is_late: false,
    }
}

impl Row {
    fn late(self) -> Self {
        with!(self => is_late: true)
    }

    fn pinned(self) -> Self {
        with!(self => declaration.is_pinned: true)
    }

    fn status(&self) -> BundleInstanceStatus {
        let at = |second| Timestamp::from_second(second).unwrap();
        let write = |before, second| (self.write)(before, &self.declaration, at(second));
        let first = write(&self.before, 0);
        [&first, &write(&first, DEADLINE)][usize::from(self.is_late)].clone()
    }
}

fn kstatus(status: &BundleInstanceStatus, generation: i64, is_terminating: bool) -> &'static str {
    let mut object = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
        "metadata": {"name": "tide", "generation": generation}, "status": status,
    });
    if is_terminating {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    match apply::health::evaluate(&object) {
        apply::health::Health::Current => "Current",
        apply::health::Health::InProgress(_) if is_terminating => "Terminating",
        apply::health::Health::InProgress(_) => "InProgress",
        apply::health::Health::Failed(_) | apply::health::Health::TimedOut { .. } => "Failed",
    }
}

/// Checks rows: status and reason of Ready, the reasons of Reconciling and Stalled, and the verdict of kstatus.
fn check<const N: usize>(rows: [(Row, &str); N]) {
    for (row, expected) in rows {
        let (number, status) = (row.number, row.status());
        let of = |type_| find(&status.conditions, type_);
        let ready = of(condition::READY).unwrap();
        let beside = |type_| {
            of(type_).map_or("-", |condition| {
                assert_eq!(condition.status, "True", "{number}: {type_}");
                assert_eq!(condition.message, ready.message, "{number}: {type_}");
                &condition.reason
            })
        };
        let [reconciling, stalled] = [condition::RECONCILING, condition::STALLED].map(beside);
        let verdict = kstatus(&status, GENERATION, row.declaration.is_terminating);
        let is_ready = ready.status == "True";
        assert_rows! {
            [&ready.status, &ready.reason, reconciling, stalled, verdict].join(" ")
                => expected, "{number}: {:#?}", status.conditions;
            // One write about one generation, and no client takes the generation for done too early.
            status.observed_generation => Some(GENERATION), "{number}";
            ready.observed_generation => Some(GENERATION), "{number}";
            kstatus(&status, GENERATION + 1, false) => "InProgress", "{number}";
            is_ready => verdict == "Current", "{number}";
            reconciling == "-" || stalled == "-" => true, "{number}";
            !is_ready || status.progressing_since.is_none() => true, "{number}";
        }
    }
}

fn pending() -> Outcome {
    Outcome::of_bundle(super::pending())
}

fn with(install: RolloutState, health: HealthState) -> Outcome {
    outcome(unpacked("new"), install, health)
}

fn installing(health: HealthState) -> Outcome {
    with(installs(done("new")), health)
}

fn at_rest(health: HealthState) -> Outcome {
    with(RolloutState::Unchanged, health)
}

fn slow() -> HealthState {
    HealthState::Progressing(vec!["0 of 1 ready".to_owned()])
}

fn new() -> BundleInstanceStatus {
    with!(BundleInstanceStatus::default() => observed_generation: Some(BundleInstanceStatus::NOT_OBSERVED))
}

fn ready() -> BundleInstanceStatus {
    row("17", installed(), installing(HealthState::Healthy)).status()
}

#[test]
fn new_and_changed_objects_are_in_progress() {
    assert_rows!(kstatus(&new(), 1, false) => "InProgress", "row 1");
    assert_rows!(kstatus(&installed(), GENERATION, false) => "InProgress", "row 2");
    // Without the default, every new object would be finished.
    assert_rows!(kstatus(&BundleInstanceStatus::default(), 1, false) => "Current");
}

#[test]
fn terminating_and_applying_are_in_progress() {
    let terminating = |row: Row| {
        with!(row => declaration.is_terminating: true, write: Box::new(|before, declaration, now| {
            uninstalling(before, declaration, "waiting for 3 objects", false, now)
        }))
    };
    let applying = |row: Row| {
        with!(row => write: Box::new(|before, declaration, now| {
            applying(before, declaration, "new", 3, Inventory::default(), now)
        }))
    };
    let failed = with!(installed() => failed_template_hash: Some("hash".to_owned()));
    check(::tests::rows![
        terminating(row("3", installed(), pending())) => "False Uninstalling Progressing - Terminating";
        terminating(row("3, late", installed(), pending()).late()) => "False Uninstalling Progressing - Terminating";
        applying(row("13", new(), pending())) => "Unknown Applying Progressing - InProgress";
        applying(row("13, upgrade", installed(), pending())) => "Unknown Applying Progressing - InProgress";
        applying(row("13, was ready", ready(), pending())) => "Unknown Applying Progressing - InProgress";
        applying(row("13, late", installed(), pending()).late())
            => "False Applying - ProgressDeadlineExceeded Failed";
        applying(row("27", failed, pending())) => "Unknown Applying Progressing - InProgress";
    ]);
}

#[test]
fn paused_instance_is_ready_or_waits_for_the_end_of_the_pause() {
    let looked = HealthState::NotObserved;
    let paused = |is_declared, health| {
        with!(outcome(TemplateState::Unchanged, RolloutState::Paused, health) =>
        is_declared: is_declared)
    };
    check(::tests::rows![
        row("4", installed(), paused(true, HealthState::Healthy)) => "True Paused - - Current";
        row("5, never installed", new(), paused(false, looked.clone())) => "False Paused - - InProgress";
        row("5, another template", installed(), paused(false, HealthState::Healthy)) => "False Paused - - InProgress";
        row("5, not well", installed(), paused(true, slow())) => "False Paused - - InProgress";
        row("5, not observed", installed(), paused(true, looked)) => "False Paused - - InProgress";
    ]);
}

#[test]
fn bundle_of_the_template_decides_first() {
    let world = || Outcome::of_bundle(unpacking_failed(Remedy::World));
    let own = || Outcome::of_bundle(unpacking_failed(Remedy::Own));
    let unknown = |remedy| Outcome::of_bundle(super::unknown(remedy));
    let unserved = || Outcome::of_bundle(unknown_class());
    let well = || with!(own() => is_declared: true, health: HealthState::Healthy);
    check(::tests::rows![
        row("6", new(), unserved()) => "False UnknownProvisionerClass - UnknownProvisionerClass Failed";
        row("6, installed", installed(), unserved()) => "False UnknownProvisionerClass - UnknownProvisionerClass Failed";
        row("7", new(), pending()) => "Unknown UnpackPending Progressing - InProgress";
        row("7, late", new(), pending()).late() => "False UnpackPending - ProgressDeadlineExceeded Failed";
        row("8", new(), world()) => "Unknown UnpackFailed ProgressingWithRetry - InProgress";
        row("8, installed", installed(), world()) => "Unknown UnpackFailed ProgressingWithRetry - InProgress";
        row("9", new(), world()).late() => "False UnpackFailed - ProgressDeadlineExceeded Failed";
        row("10", new(), own()) => "False UnpackFailed - UnpackFailed Failed";
        row("11", installed(), well()) => "False UnpackFailed - UnpackFailed Failed";
        row("12", installed(), unknown(Remedy::World)) => "Unknown ReconcileFailed ProgressingWithRetry - InProgress";
        row("12, template", new(), unknown(Remedy::Own)) => "False ReconcileFailed - ReconcileFailed Failed";
        // A pinned revision needs no Bundle.
        row("17, pinned", installed(), well()).pinned() => "True Healthy - - Current";
    ]);
}

#[test]
fn health_decides_once_all_objects_are_applied() {
    let not_observed = || HealthState::NotObserved;
    let broken = || HealthState::Failed(vec!["the Job failed".to_owned()]);
    let blind = || HealthState::Unknown("a watch does not work".to_owned());
    let after = |done| with(installs(done), HealthState::Healthy);
    let fought = || with!(at_rest(HealthState::Healthy) => conflicts: vec!["by rival".to_owned()]);
    let waiting = || vec!["ServiceMonitor monitoring.coreos.com/v1 etcd".to_owned()];
    let deferred = || after(with!(done("new") => waiting: waiting()));
    let leaving = || after(with!(done("new") => removing: vec!["ConfigMap etcd/old".to_owned()]));
    let rolled_back = |hash: Option<&str>| {
        let template_hash = hash.map(str::to_owned);
        let done =
            with!(done("old") => rolled_back: Some(RolledBack { template_hash, why: None, to: 1 }));
        after(done)
    };
    check(::tests::rows![
        row("14", installed(), installing(slow())) => "Unknown WaitingForHealth Progressing - InProgress";
        row("15", installed(), at_rest(slow())).late() => "False Unhealthy - ProgressDeadlineExceeded Failed";
        row("16", installed(), installing(broken())) => "False Unhealthy - Unhealthy Failed";
        row("17", new(), installing(HealthState::Healthy)) => "True UpToDate - - Current";
        row("17, upgrade", installed(), installing(HealthState::Healthy)) => "True UpToDate - - Current";
        row("17, other field", installed(), at_rest(HealthState::Healthy)) => "True UpToDate - - Current";
        row("18a", ready(), at_rest(slow())) => "Unknown WaitingForHealth Progressing - InProgress";
        row("18b", ready(), at_rest(broken())) => "False Unhealthy - - InProgress";
        row("18b, late", ready(), at_rest(broken())).late() => "False Unhealthy - - InProgress";
        row("19", ready(), installing(HealthState::Healthy)) => "True UpToDate - - Current";
        row("20", ready(), fought()) => "True FieldConflict - - Current";
        row("21", installed(), deferred()) => "True UpToDate - - Current";
        row("26", installed(), rolled_back(Some("hash"))) => "False RolledBack - RolledBack Failed";
        row("26, pinned", installed(), rolled_back(None)).pinned() => "True UpToDate - - Current";
        row("28", installed(), at_rest(blind())) => "Unknown HealthUnknown Progressing - InProgress";
        row("28, late", installed(), at_rest(blind())).late() => "False HealthUnknown - ProgressDeadlineExceeded Failed";
        row("29", installed(), leaving()) => "True Healthy - - Current";
        row("28, applied", installed(), installing(not_observed())) => "Unknown HealthUnknown Progressing - InProgress";
        row("28, field", installed(), at_rest(not_observed())) => "Unknown HealthUnknown Progressing - InProgress";
        // After a restart.
        row("17, restart", ready(), at_rest(not_observed())) => "True UpToDate - - Current";
    ]);
}

#[test]
fn failed_attempt_is_retried_or_needs_a_change() {
    let failing = |retry, remedy| {
        let failure = with!(failed(false) => retry: retry, remedy: remedy);
        with(RolloutState::Failed(failure), HealthState::Healthy)
    };
    let world = |retry| failing(retry, Remedy::World);
    let own = || failing(RetryClass::Backoff, Remedy::Own);
    let replacement = || Some("Bundle old was replaced".to_owned());
    let replaced = || with!(at_rest(HealthState::Healthy) => replaced: replacement());
    let queued = || with(RolloutState::Queued, HealthState::Healthy);
    let waiting = |remedy| with(RolloutState::Waiting(remedy), HealthState::Healthy);
    let blocked = || row("22", installed(), world(RetryClass::AfterGrant)).status();
    let refused = || row("24", installed(), own()).status();
    let other = with!(at_rest(HealthState::Healthy) => is_declared: false);
    check(::tests::rows![
        row("22", new(), world(RetryClass::AfterGrant)) => "Unknown Blocked ProgressingWithRetry - InProgress";
        row("22, upgrade", installed(), world(RetryClass::Backoff)) => "Unknown Blocked ProgressingWithRetry - InProgress";
        row("22, waiting", blocked(), waiting(Remedy::World)) => "Unknown Blocked ProgressingWithRetry - InProgress";
        row("22, replaced", installed(), replaced()) => "Unknown Blocked ProgressingWithRetry - InProgress";
        row("23", installed(), world(RetryClass::Backoff)).late() => "False Blocked - ProgressDeadlineExceeded Failed";
        row("24", installed(), own()) => "False Blocked - Blocked Failed";
        row("24, waiting", refused(), waiting(Remedy::Own)) => "False Blocked - Blocked Failed";
        row("24, late", new(), own()).late() => "False Blocked - Blocked Failed";
        row("25", installed(), world(RetryClass::Soon)) => "Unknown Retrying ProgressingWithRetry - InProgress";
        row("13, queued", installed(), queued()) => "Unknown Retrying Progressing - InProgress";
        // A revision other than the declared one is installed.
        row("13, other", installed(), other) => "Unknown UpToDate Progressing - InProgress";
    ]);
}
