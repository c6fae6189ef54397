use serde_json::{Value, json};

use super::{
    super::{
        registry_pod::{PodReport, RegistryPodState},
        registry_server::ServedCatalog,
        template_resolution::{ConditionUpdate as Condition, OWNED_CONDITIONS},
    },
    *,
};

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-01T01:00:00Z";

fn late() -> Timestamp {
    LATE.parse().unwrap()
}

fn due(was: &Value, observation: &CatalogObservation) -> Value {
    let was: CatalogSourceStatus = serde_json::from_value(was.clone()).unwrap();
    let due = status(&was, observation, OWNED_CONDITIONS, Some(7), late());
    serde_json::to_value(due).unwrap()
}

fn problem(reason: Reason, message: &str) -> Problem {
    let message = message.to_owned();
    Problem { reason, message }
}

pub(in crate::controllers::catalog_source) fn pod_report(
    pod_state: Result<RegistryPodState, String>,
) -> PodReport {
    PodReport {
        pod_state,
        is_terminal: false,
        asked: None,
    }
}

fn service(since: Option<&str>) -> Value {
    json!({"protocol": "grpc", "serviceName": "mine", "serviceNamespace": "catalogs", "port": "50051", "createdAt": since})
}

fn served(connection: Connection) -> Served {
    Served {
        address: "mine.catalogs.svc:50051".to_owned(),
        service: serde_json::from_value(service(None)).unwrap(),
        connection,
    }
}

fn well(since: &str) -> Value {
    json!({
        "registryService": service(Some(since)),
        "connectionState": {"address": "mine.catalogs.svc:50051", "lastConnect": since, "lastObservedState": "READY"},
    })
}

fn with(status: &Value, more: &Value) -> Value {
    let mut status = status.clone();
    for (name, value) in more.as_object().unwrap() {
        status[name] = value.clone();
    }
    status
}

// parity: serve-11
#[test]
fn status_reports_the_observation() {
    let ready = with!(CatalogObservation::default() => served: Some(served(Connection::Ready)));
    let refused = "couldn't ensure registry server - no";
    let failing = with!(ready.clone() => problem: Some(problem(Reason::RegistryServer, refused)));
    let server_error = json!({"reason": "RegistryServerError", "message": refused});
    let invalid = with!(CatalogObservation::default() => problem: Some(problem(Reason::SpecInvalid, "unknown sourcetype: foo")));
    let invalid_reason =
        json!({"reason": "SpecInvalidError", "message": "unknown sourcetype: foo"});
    let last_poll = json!({"latestImageRegistryPoll": EARLY});
    let interval = with!(ready.clone() => problem: Some(problem(Reason::InvalidInterval, "bad")), last_poll: Some(late()));
    let elsewhere = with!(served(Connection::Failing) => address: "a:1".to_owned(), service: None);
    let elsewhere = with!(CatalogObservation, served: Some(elsewhere));
    let reconnecting = with!(CatalogObservation, served: Some(served(Connection::Connecting)));
    let empty = json!({});
    assert_each!(|was, observation, expected| due(was, observation) => expected;
        &empty, &CatalogObservation::default() => empty.clone();
        &empty, &ready => well(LATE);
        // An unchanged observation writes nothing.
        &well(EARLY), &ready => well(EARLY);
        &well(EARLY), &failing => with(&well(EARLY), &server_error);
        &with(&well(EARLY), &server_error), &ready => well(EARLY);
        // An invalid source is not served.
        &with(&well(EARLY), &last_poll), &invalid => with(&last_poll, &invalid_reason);
        // A corrected source starts without a former state.
        &with(&well(EARLY), &with(&last_poll, &invalid_reason)), &ready => well(LATE);
        &with(&well(EARLY), &last_poll), &interval
            => with(&well(EARLY), &json!({"reason": "InvalidIntervalError", "message": "bad", "latestImageRegistryPoll": LATE}));
        &with(&well(EARLY), &json!({"reason": "InvalidIntervalError", "message": "bad", "latestImageRegistryPoll": EARLY})),
            &ready => with(&well(EARLY), &last_poll);
        &well(EARLY), &elsewhere => json!({
            "registryService": {"protocol": "grpc", "createdAt": LATE},
            "connectionState": {"address": "a:1", "lastConnect": LATE, "lastObservedState": "TRANSIENT_FAILURE"},
        });
        &well(EARLY), &reconnecting => with(&well(EARLY), &json!({"connectionState": {
            "address": "mine.catalogs.svc:50051", "lastConnect": LATE, "lastObservedState": "CONNECTING",
        }}));
    );
}

#[test]
fn status_of_a_served_catalog_reports_its_serving_state() {
    let ready = served(Connection::Ready);
    let (service, address) = (ready.service.unwrap(), ready.address);
    let registered = ServedCatalog { service, address };
    let state = |is_registered: bool, serving_problem: Option<&str>| ServingState {
        registered: is_registered.then(|| registered.clone()),
        trouble: serving_problem.map(str::to_owned),
    };
    let interval = Some(problem(Reason::InvalidInterval, "bad"));
    let unread = Some(problem(Reason::RegistryServer, "cannot be read"));
    let foreign = Some("the Service is foreign");
    let taken = "couldn't ensure registry server - the Service is foreign";
    let taken = Some(problem(Reason::RegistryServer, taken));
    for (before, state, after, connection) in ::tests::rows![
        None, state(true, None), None => Some(Connection::Ready);
        interval.clone(), state(true, None), interval.clone() => Some(Connection::Ready);
        interval, state(true, foreign), taken.clone() => Some(Connection::Failing);
        None, state(false, foreign), taken => None;
        unread.clone(), state(true, foreign), unread => Some(Connection::Failing);
        None, state(false, None), None => None;
    ] {
        let observation = with!(with!(CatalogObservation, problem: before) => |observation| observation.add_server(&state));
        assert_eq!(observation.problem, after, "{state:?}");
        assert_rows!(observation.served.map(|one| one.connection) => connection, "{state:?}");
    }
}

// parity: switch-olm-6
#[test]
fn foreign_conditions_keep_their_positions() {
    let condition = |type_: &str, status: &str, message: &str, since: &str| {
        json!({
            "type": type_, "status": status, "reason": "Said", "message": message, "lastTransitionTime": since,
            "observedGeneration": 7,
        })
    };
    let update = |type_: &'static str, is_true: bool, message: &str| Condition {
        type_,
        is_true,
        reason: "Said",
        message: message.to_owned(),
    };
    let first = condition("First", "True", "theirs", EARLY);
    let last = condition("Last", "False", "theirs", EARLY);
    let own = |status, message, since| condition("ResolvedImage", status, message, since);
    let all = |conditions: &[&Value]| json!({"conditions": conditions});
    for (was, updates, expected) in ::tests::rows![
        all(&[&first, &own("True", "r/c:v19", EARLY), &last]), vec![update("ResolvedImage", true, "r/c:v20")]
            => all(&[&first, &own("True", "r/c:v20", EARLY), &last]);
        all(&[&first, &own("True", "r/c:v19", EARLY), &last]), vec![update("ResolvedImage", false, "r/c:missing")]
            => all(&[&first, &own("False", "r/c:missing", LATE), &last]);
        all(&[&first, &own("True", "r/c:v19", EARLY), &last]), vec![] => all(&[&first, &last]);
        all(&[&last, &first]), vec![update("ResolvedImage", true, "r/c:v20")]
            => all(&[&last, &first, &own("True", "r/c:v20", LATE)]);
    ] {
        let updates = with!(CatalogObservation::default() => conditions: updates);
        assert_eq!(due(&was, &updates), expected, "{was}");
        // They are also kept if the source is invalid.
        let bad = json!({"reason": "SpecInvalidError", "message": "bad"});
        let invalid = with(&was, &bad);
        assert_eq!(due(&invalid, &updates), expected, "{invalid}");
    }
}

#[test]
fn messages_fit_the_schema() {
    let observation = with!(CatalogObservation::default() => problem: Some(problem(Reason::RegistryServer, &"a".repeat(100_000))));
    let due = due(&json!({}), &observation);
    assert_rows!(due["message"].as_str().unwrap().chars().count() <= usize::try_from(limits::MESSAGE).unwrap() => true);
}

#[test]
fn template_problem_precedes_interval_problem() {
    let unresolved = |is_for_good| UnresolvedImage {
        why: "no value".to_owned(),
        is_for_good,
        last: None,
    };
    let interval = |problem: Option<&str>| PollInterval {
        period: std::time::Duration::from_secs(60),
        problem: problem.map(str::to_owned),
    };
    let (good, bad) = (interval(None), interval(Some("too short")));
    let (transient, terminal) = (unresolved(false), unresolved(true));
    assert_each!(|unresolved, poll, expected| Problem::of_read(unresolved, poll) => expected;
        None, None => None;
        None, Some(&good) => None;
        None, Some(&bad) => Some(problem(Reason::InvalidInterval, "too short"));
        Some(&transient), None => Some(problem(Reason::RegistryServer, "no value"));
        Some(&terminal), Some(&bad) => Some(problem(Reason::SpecInvalid, "no value"));
    );
}

#[test]
fn reported_pod_state_is_kept_while_the_pod_is_unknown() {
    let unavailable = pod_report(Err("the API server is unavailable".to_owned()));
    let rejected = with!(pod_report(Err("invalid name".to_owned())) => is_terminal: true);
    let was = well(EARLY);
    for (may_be_served, pod_report, is_kept) in [
        // After a start, before the first observation.
        (true, None, true),
        (true, Some(&unavailable), true),
        (true, Some(&rejected), false),
        // A source that needs no pod.
        (false, None, false),
    ] {
        let mut observation = with!(CatalogObservation, may_be_served);
        if let Some(pod_report) = pod_report {
            observation.add_pod(pod_report, "catalogs");
        }
        let due = due(&was, &observation);
        for name in ["registryService", "connectionState"] {
            assert_rows!(due.get(name) => Some(&was[name]).filter(|_| is_kept), "{pod_report:?}");
        }
        assert_eq!(due.get("message").is_some(), pod_report.is_some());
        // A state that was never reported remains absent.
        assert_rows!(self::due(&json!({}), &observation).get("connectionState") => None);
    }
}
