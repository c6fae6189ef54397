use serde_json::{Value, json};

use super::{
    super::{
        follow::PodReport,
        pods::{Kept, decide::State as PodState},
        serving::ServedCatalog,
        template::{ConditionUpdate as Condition, OWNED_CONDITIONS},
    },
    *,
};

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-01T01:00:00Z";

fn late() -> Timestamp {
    LATE.parse().unwrap()
}

fn due(was: &Value, seen: &CatalogObservation) -> Value {
    let was: CatalogSourceStatus = serde_json::from_value(was.clone()).unwrap();
    let due = status(&was, seen, OWNED_CONDITIONS, Some(7), late());
    serde_json::to_value(due).unwrap()
}

fn problem(reason: Reason, message: &str) -> Problem {
    Problem {
        reason,
        message: message.to_owned(),
    }
}

/// A pod in this state, and what is wrong with it.
pub(in crate::catalogs) fn kept(state: PodState, trouble: Option<&str>) -> Kept {
    Kept {
        service: "mine".to_owned(),
        state,
        trouble: trouble.map(str::to_owned),
        judged: None,
        asked: false,
        again: None,
    }
}

pub(in crate::catalogs) fn told(kept: Result<Kept, String>) -> PodReport {
    PodReport {
        kept,
        is_terminal: false,
        asked: None,
    }
}

fn served(connection: Connection) -> Served {
    Served {
        address: "mine.catalogs.svc:50051".to_owned(),
        service: Some(RegistryService {
            protocol: Some("grpc".to_owned()),
            service_name: Some("mine".to_owned()),
            service_namespace: Some("catalogs".to_owned()),
            port: Some("50051".to_owned()),
            created_at: None,
        }),
        connection,
    }
}

fn well(since: &str) -> Value {
    json!({
        "registryService": {
            "protocol": "grpc", "serviceName": "mine", "serviceNamespace": "catalogs", "port": "50051", "createdAt": since,
        },
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
fn a_status_tells_what_is() {
    let ready = with!(CatalogObservation::default() => served: Some(served(Connection::Ready)));
    let refused = "couldn't ensure registry server - no";
    let failing = with!(ready.clone() => problem: Some(problem(Reason::RegistryServer, refused)));
    let trouble = json!({"reason": "RegistryServerError", "message": refused});
    let invalid = with!(CatalogObservation::default() => problem: Some(problem(Reason::SpecInvalid, "unknown sourcetype: foo")));
    let said = json!({"reason": "SpecInvalidError", "message": "unknown sourcetype: foo"});
    let last_poll = json!({"latestImageRegistryPoll": EARLY});
    let interval = with!(ready.clone() => problem: Some(problem(Reason::InvalidInterval, "bad")), last_poll: Some(late()));
    let elsewhere = with!(served(Connection::Failing) => address: "a:1".to_owned(), service: None);
    let elsewhere = with!(CatalogObservation, served: Some(elsewhere));
    let empty = json!({});
    for (was, seen, expected) in ::tests::rows![
        &empty, &CatalogObservation::default() => empty.clone();
        &empty, &ready => well(LATE);
        // Nothing to write where nothing has changed.
        &well(EARLY), &ready => well(EARLY);
        &well(EARLY), &failing => with(&well(EARLY), &trouble);
        &with(&well(EARLY), &trouble), &ready => well(EARLY);
        // What is invalid is not served.
        &with(&well(EARLY), &last_poll), &invalid => with(&last_poll, &said);
        // And what comes of it begins anew.
        &with(&well(EARLY), &with(&last_poll, &said)), &ready => well(LATE);
        &with(&well(EARLY), &last_poll), &interval
            => with(&well(EARLY), &json!({"reason": "InvalidIntervalError", "message": "bad", "latestImageRegistryPoll": LATE}));
        &with(&well(EARLY), &json!({"reason": "InvalidIntervalError", "message": "bad", "latestImageRegistryPoll": EARLY})),
            &ready => with(&well(EARLY), &last_poll);
        &well(EARLY), &elsewhere => json!({
            "registryService": {"protocol": "grpc", "createdAt": LATE},
            "connectionState": {"address": "a:1", "lastConnect": LATE, "lastObservedState": "TRANSIENT_FAILURE"},
        });
    ] {
        assert_eq!(due(was, seen), expected, "{was} {seen:?}");
    }
    let reconnecting =
        with!(CatalogObservation::default() => served: Some(served(Connection::Connecting)));
    let state = &due(&well(EARLY), &reconnecting)["connectionState"];
    assert_rows!((&state["lastObservedState"], &state["lastConnect"]) => (&json!("CONNECTING"), &json!(LATE)));
}

#[test]
fn what_we_serve_ourselves_is_told_from_how_that_goes() {
    let registered = ServedCatalog {
        service: served(Connection::Ready).service.unwrap(),
        address: "mine.catalogs.svc:50051".to_owned(),
        digest: unpacker::Digest::of(b"a"),
        since: late(),
    };
    let state = |is_registered: bool, trouble: Option<&str>| ServingState {
        registered: is_registered.then(|| registered.clone()),
        trouble: trouble.map(str::to_owned),
    };
    let interval = Some(problem(Reason::InvalidInterval, "bad"));
    let unread = Some(problem(Reason::RegistryServer, "cannot be read"));
    let taken = "couldn't ensure registry server - the Service is somebody's";
    let taken = Some(problem(Reason::RegistryServer, taken));
    let somebodys = "the Service is somebody's";
    for (before, state, after, connection) in ::tests::rows![
        None, state(true, None), None => Some(Connection::Ready);
        interval.clone(), state(true, None), interval.clone() => Some(Connection::Ready);
        interval, state(true, Some(somebodys)), taken.clone() => Some(Connection::Failing);
        None, state(false, Some(somebodys)), taken => None;
        unread.clone(), state(true, Some(somebodys)), unread => Some(Connection::Failing);
        None, state(false, None), None => None;
    ] {
        let seen =
            with!(with!(CatalogObservation, problem: before) => |seen| seen.is_served(&state));
        assert_eq!(seen.problem, after, "{state:?}");
        assert_rows!(seen.served.map(|one| one.connection) => connection, "{state:?}");
    }
}

#[test]
fn a_pod_is_told_in_olms_words_and_with_the_time_of_its_poll() {
    let early: Timestamp = EARLY.parse().unwrap();
    let kept = |trouble| kept(PodState::Serving(None), trouble);
    let begin = "couldn't ensure registry server - ";
    let update = "update pod u in a Failed state: deleted update pod";
    let refused = "failed to create Pod a";
    for (kept, message, connection) in ::tests::rows![
        Ok(kept(None)), None => Some(Connection::Ready);
        Ok(kept(Some(update))), Some(format!("{begin}{update}")) => Some(Connection::Ready);
        // Said once.
        Err(format!("{begin}{refused}")), Some(format!("{begin}{refused}")) => None;
        Err("error fetching defaultNamespace: no".to_owned()), Some(format!("{begin}error fetching defaultNamespace: no"))
            => None;
    ] {
        for (read, asked, expected) in [
            (None, None, None),
            (None, Some(early), Some(early)),
            (Some(late()), Some(early), Some(late())),
            (Some(early), Some(late()), Some(late())),
        ] {
            let mut seen = with!(CatalogObservation::default() => last_poll: read);
            let told = with!(told(kept.clone()) => asked: asked);
            seen.is_in_pod(&told, "catalogs");
            let problem = message
                .as_ref()
                .map(|text| problem(Reason::RegistryServer, text));
            assert_eq!((seen.problem, seen.last_poll), (problem, expected));
            assert_eq!(seen.served.map(|it| it.connection), connection);
        }
    }
}

// parity: switch-olm-6
#[test]
fn conditions_of_others_stay_where_they_are() {
    let condition = |type_: &str, status: &str, message: &str, since: &str| {
        json!({
            "type": type_, "status": status, "reason": "Said", "message": message, "lastTransitionTime": since,
            "observedGeneration": 7,
        })
    };
    let told = |type_: &'static str, is_true: bool, message: &str| Condition {
        type_,
        is_true,
        reason: "Said",
        message: message.to_owned(),
    };
    let first = condition("First", "True", "theirs", EARLY);
    let last = condition("Last", "False", "theirs", EARLY);
    let ours = |status: &str, message: &str, since: &str| {
        condition("ResolvedImage", status, message, since)
    };
    let all = |conditions: &[&Value]| json!({"conditions": conditions});
    for (was, seen, expected) in ::tests::rows![
        all(&[&first, &ours("True", "r/c:v19", EARLY), &last]), vec![told("ResolvedImage", true, "r/c:v20")]
            => all(&[&first, &ours("True", "r/c:v20", EARLY), &last]);
        all(&[&first, &ours("True", "r/c:v19", EARLY), &last]), vec![told("ResolvedImage", false, "r/c:missing")]
            => all(&[&first, &ours("False", "r/c:missing", LATE), &last]);
        all(&[&first, &ours("True", "r/c:v19", EARLY), &last]), vec![] => all(&[&first, &last]);
        all(&[&last, &first]), vec![told("ResolvedImage", true, "r/c:v20")]
            => all(&[&last, &first, &ours("True", "r/c:v20", LATE)]);
    ] {
        let seen = with!(CatalogObservation::default() => conditions: seen);
        assert_eq!(due(&was, &seen), expected, "{was}");
        // They survive what is invalid, too.
        let bad = json!({"reason": "SpecInvalidError", "message": "bad"});
        let invalid = with(&was, &bad);
        assert_eq!(due(&invalid, &seen), expected, "{invalid}");
    }
}

#[test]
fn what_is_said_fits_the_schema() {
    let seen = with!(CatalogObservation::default() => problem: Some(problem(Reason::RegistryServer, &"a".repeat(100_000))));
    let due = due(&json!({}), &seen);
    assert_rows!(due["message"].as_str().unwrap().chars().count() <= usize::try_from(bounds::MESSAGE).unwrap() => true);
}

#[test]
fn of_a_catalog_that_is_read_its_template_is_told_before_its_interval() {
    let kept = |is_for_good| UnresolvedImage {
        why: "no value".to_owned(),
        is_for_good,
        last: None,
    };
    let interval = |problem: Option<&str>| PollInterval {
        every: std::time::Duration::from_secs(60),
        problem: problem.map(str::to_owned),
    };
    let (good, bad) = (interval(None), interval(Some("too short")));
    let (passing, lasting) = (kept(false), kept(true));
    for (kept, poll, expected) in ::tests::rows![
        None, None => None;
        None, Some(&good) => None;
        None, Some(&bad) => Some(problem(Reason::InvalidInterval, "too short"));
        Some(&passing), None => Some(problem(Reason::RegistryServer, "no value"));
        Some(&lasting), Some(&bad) => Some(problem(Reason::SpecInvalid, "no value"));
    ] {
        assert_eq!(Problem::of_read(kept, poll), expected, "{kept:?} {poll:?}");
    }
}

#[test]
fn what_is_said_of_a_pod_stays_while_nothing_is_known_of_it() {
    let away = told(Err("the apiserver is away".to_owned()));
    let never = with!(told(Err("it can have none".to_owned())) => is_terminal: true);
    let was = well(EARLY);
    for (may_be_served, told, is_kept) in [
        // After a start, before anybody has looked.
        (true, None, true),
        (true, Some(&away), true),
        (true, Some(&never), false),
        // One that is to have no pod.
        (false, None, false),
    ] {
        let mut seen = with!(CatalogObservation::default() => may_be_served: may_be_served);
        if let Some(told) = told {
            seen.is_in_pod(told, "catalogs");
        }
        let due = due(&was, &seen);
        let expected = |name: &str| is_kept.then(|| was[name].clone());
        for name in ["registryService", "connectionState"] {
            assert_eq!(due.get(name).cloned(), expected(name), "{told:?}");
        }
        assert_eq!(due.get("message").is_some(), told.is_some());
        // And nothing is said of what was never told.
        assert_rows!(self::due(&json!({}), &seen).get("connectionState") => None);
    }
}
