use serde_json::json;

use super::*;

// parity: pod-1
#[test]
fn source_with_pod_options_needs_a_pod() {
    for (pod, expected) in [
        (None, false),
        (Some(json!(null)), false),
        (Some(json!({})), false),
        (Some(json!({"memoryTarget": "1Gi"})), true),
        (Some(json!({"priorityClassName": ""})), true),
        // The invalid value is reported.
        (Some(json!("x")), true),
    ] {
        assert_eq!(needs_pod(pod.as_ref(), false), expected, "{pod:?}");
        assert!(needs_pod(pod.as_ref(), true));
    }
}

#[test]
fn labels_name_the_catalog_and_its_namespace() {
    let [files, database] = LABELS;
    for (labels, expected) in ::tests::rows![
        &[][..] => Ok(None);
        &[(files, "/configs")] => Ok(Some("/configs"));
        &[(files, "a//b/"), (database, "/d")] => Ok(Some("/a/b"));
        &[(files, ""), (database, "/d/index.db")] => Ok(Some("/d/index.db"));
        &[(files, "/")] => Ok(Some("/"));
        &[(files, "../x")] => Err("the image's label operators.operatorframework.io.index.configs.v1");
    ] {
        let labels = labels.iter();
        let labels = labels.map(|&(key, value)| (key.to_owned(), value.to_owned()));
        match (place(&labels.collect()), expected) {
            (Ok(CatalogDir::Path(found)), Ok(expected)) => assert_eq!(Some(&*found), expected),
            (Ok(CatalogDir::Unlabeled), Ok(expected)) => assert_eq!(None, expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (_, expected) => panic!("not {expected:?}"),
        }
    }
}

// parity: pod-11
#[test]
fn image_problem_is_reported_until_an_image_is_good() {
    let mut bad = None;
    let why = |text: &str| Some(text.to_owned());
    for (judged, now, expected) in [
        (None, None, None),
        (None, why("a"), why("a")),
        (None, None, None),
        (Some(Err("bad".to_owned())), why("bad"), why("bad")),
        // The bad pod was deleted; an object is repaired; another pod is being created.
        (None, None, why("bad")),
        (None, why("b"), why("b")),
        (None, None, why("bad")),
        (Some(Err("worse".to_owned())), None, why("worse")),
        (Some(Ok(())), None, None),
        (None, None, None),
    ] {
        assert_eq!(problem_to_report(&mut bad, judged, now), expected);
    }
}

#[test]
fn existing_pod_reports_its_address() {
    let pod = |image: &str, dir: Option<&str>, is_ready: bool, is_leaving: bool| -> Pod {
        let mut container = json!({"name": "registry-server", "image": image});
        if let Some(dir) = dir {
            container["command"] = json!(["/utilities/provisioner"]);
            container["args"] = json!(["serve", dir, "--port=50051"]);
        }
        let ready = if is_ready { "True" } else { "False" };
        let deleted = is_leaving.then_some("2026-01-01T00:00:00Z");
        object!({
            "metadata": {"name": "a", "deletionTimestamp": deleted},
            "spec": {"containers": [{"name": "sidecar", "image": image}, container]},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    };
    let image = "r/c:v1";
    for (pods, expected) in ::tests::rows![
        vec![] => "none";
        vec![pod(image, Some("/configs"), true, false)] => "/configs";
        vec![pod(image, None, true, false)] => "untold";
        vec![pod("r/c:v2", Some("/configs"), true, false)] => "none";
        vec![pod(image, Some("/configs"), true, true)] => "none";
        vec![pod(image, Some("/new"), false, false)] => "/new";
        vec![pod(image, Some("/new"), false, false), pod(image, Some("/configs"), true, false)] => "/configs";
    ] {
        let found = match place_in(&pods, image) {
            None => "none".to_owned(),
            Some(CatalogDir::Path(path)) => path,
            Some(CatalogDir::Unlabeled) => "untold".to_owned(),
            Some(CatalogDir::Unknown) => "unread".to_owned(),
        };
        assert_eq!(found, expected, "{pods:?}");
    }
}

#[test]
fn future_poll_time_counts_as_now() {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let (before, later) = ("2026-01-01T11:50:00Z", "2036-01-01T12:00:00Z");
    for (created, polled, expected) in [
        (None, None, None),
        (Some(before), None, Some(before)),
        (Some("2026-01-01T10:00:00Z"), Some(before), Some(before)),
        (Some(before), Some(later), Some("2026-01-01T12:00:00Z")),
        (Some(later), None, Some("2026-01-01T12:00:00Z")),
    ] {
        let source = object!({
            "metadata": {"name": "a", "creationTimestamp": created}, "spec": {"sourceType": "grpc"},
            "status": {"latestImageRegistryPoll": polled},
        });
        let asked = last_asked(&source, now);
        let expected = expected.map(|time| time.parse().unwrap());
        assert_eq!(asked, expected, "{created:?} {polled:?}");
    }
}
