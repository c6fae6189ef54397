use serde_json::{Value, json};

use super::*;

fn source(spec: &Value, status: &Value) -> CatalogSource {
    serde_json::from_value(json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "mine", "namespace": "ours"}, "spec": spec, "status": status,
    }))
    .unwrap()
}

fn image(reference: &str, poll: Option<u64>) -> Plan {
    Plan::Image {
        reference: reference.to_owned(),
        poll: poll.map(Duration::from_secs),
        warning: None,
    }
}

#[test]
fn who_serves_it_is_asked_and_otherwise_the_registry_once_olm_had_its_time() {
    let none = json!({});
    let ready =
        json!({"connectionState": {"address": "a.svc:50051", "lastObservedState": "READY"}});
    let starting = json!({
        "connectionState": {"address": "a.svc:50051", "lastObservedState": "CONNECTING"},
        "message": "the pod is pulled"
    });
    let by_image = json!({"sourceType": "grpc", "image": "r/c:v1"});
    let by_address = json!({"sourceType": "grpc", "address": "b:50051"});
    let served = |address: &str| Plan::Served(address.to_owned());
    let wait = |why: &str, left| Plan::Wait {
        why: why.to_owned(),
        left: Duration::from_secs(left),
    };
    for (spec, status, has_olm, waited, expected) in [
        (&by_image, &none, false, 0, image("r/c:v1", None)),
        (&by_image, &ready, true, 0, served("a.svc:50051")),
        // Whoever wrote that status is gone, and his server with him.
        (&by_image, &ready, false, 0, image("r/c:v1", None)),
        (&by_address, &ready, false, 0, served("b:50051")),
        (&by_address, &ready, true, 0, served("a.svc:50051")),
        (
            &by_image,
            &none,
            true,
            0,
            wait("OLM does not serve it yet", 180),
        ),
        (
            &by_image,
            &starting,
            true,
            100,
            wait("OLM does not serve it yet: the pod is pulled", 80),
        ),
        (&by_image, &starting, true, 180, image("r/c:v1", None)),
        (&by_address, &none, false, 0, served("b:50051")),
        (&by_address, &none, true, 0, served("b:50051")),
    ] {
        let source = source(spec, status);
        let decided = plan(&source, has_olm, Duration::from_secs(waited));
        assert_eq!(decided, expected, "{spec} {status} {has_olm} {waited}");
    }
    let configmap = source(&json!({"sourceType": "configmap", "configMap": "a"}), &none);
    let never = plan(&configmap, false, Duration::ZERO);
    assert!(matches!(never, Plan::Never(_)), "{never:?}");
}

#[test]
fn registries_are_asked_as_often_as_makes_sense() {
    for (reference, interval, expected) in [
        ("r/c:v1", Some("10m"), Ok(Some(600))),
        ("r/c:v1", Some("1h30m"), Ok(Some(5400))),
        ("r/c@sha256:00", Some("10m"), Ok(None)),
        ("r/c:v1", Some("30s"), Err("is shorter than 1m")),
        ("r/c:v1", Some("-5m"), Err("is no duration")),
        ("r/c:v1", Some("45mError.code"), Err("is no duration")),
        ("r/c:v1", Some(""), Err("is no duration")),
        ("r/c:v1", None, Err("is no duration")),
    ] {
        let mut poll = json!({});
        if let Some(interval) = interval {
            poll["interval"] = interval.into();
        }
        let spec = json!({"sourceType": "grpc", "image": reference, "updateStrategy": {"registryPoll": poll}});
        let Plan::Image { poll, warning, .. } =
            plan(&source(&spec, &json!({})), false, Duration::ZERO)
        else {
            panic!("{spec}");
        };
        match expected {
            Ok(expected) => {
                assert_eq!(
                    (poll.map(|it| it.as_secs()), warning),
                    (expected, None),
                    "{spec}"
                );
            }
            Err(problem) => {
                assert_eq!(poll, Some(USUAL_POLL), "{spec}");
                let warning = warning.unwrap();
                assert!(warning.contains(problem), "{warning}");
            }
        }
    }
    let without = json!({"sourceType": "grpc", "image": "r/c:v1", "updateStrategy": {}});
    let decided = plan(&source(&without, &json!({})), false, Duration::ZERO);
    assert_eq!(decided, image("r/c:v1", None));
}

#[test]
fn what_olm_writes_does_not_end_what_is_under_way() {
    let status = |state: &str, at: &str| json!({"connectionState": {"address": "a.svc:50051", "lastConnect": at, "lastObservedState": state}});
    let of = |uid: &str, spec: &Value, status: &Value| {
        let mut source = source(spec, status);
        source.metadata.uid = Some(uid.to_owned());
        source
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z");
    let spec = json!({"sourceType": "grpc", "image": "r/c:v1"});
    let secret = json!({"sourceType": "grpc", "image": "r/c:v1", "secrets": ["a"]});
    let budget = OLM_BUDGET.as_secs();
    for (waited, before, uid, spec_now, now, expected) in [
        // Connected.
        (
            0,
            status("READY", early),
            "1",
            &spec,
            status("READY", late),
            true,
        ),
        (
            0,
            status("READY", early),
            "1",
            &spec,
            status("CONNECTING", late),
            false,
        ),
        // Long enough, and the image is pulled.
        (
            budget,
            status("CONNECTING", early),
            "1",
            &spec,
            status("TRANSIENT_FAILURE", late),
            true,
        ),
        (
            budget,
            status("CONNECTING", early),
            "1",
            &spec,
            status("READY", late),
            false,
        ),
        (
            budget,
            status("CONNECTING", early),
            "1",
            &secret,
            status("CONNECTING", early),
            false,
        ),
        (
            budget,
            status("CONNECTING", early),
            "2",
            &spec,
            status("CONNECTING", early),
            false,
        ),
    ] {
        let (before, now) = (of("1", &spec, &before), of(uid, spec_now, &now));
        let waited = Duration::from_secs(waited);
        let planned = plan(&before, true, waited);
        let still = is_still(&planned, &before, &now, true, waited);
        assert_eq!(still, expected, "{planned:?} {now:?}");
    }
}
