use serde_json::json;

use super::*;

// parity: pod-1
#[test]
fn source_with_pod_options_needs_a_pod() {
    assert_each!(|pod, expected| [false, true].map(|all| needs_pod(pod.as_ref(), all)) => [expected, true];
        None => false;
        Some(json!(null)) => false;
        Some(json!({})) => false;
        Some(json!({"memoryTarget": "1Gi"})) => true;
        Some(json!({"priorityClassName": ""})) => true;
        // The invalid value is reported.
        Some(json!("x")) => true;
    );
}

fn path(path: &str) -> CatalogDir {
    CatalogDir::Path(path.to_owned())
}

#[test]
fn labels_name_the_catalog_and_its_namespace() {
    let [files, database] = LABELS;
    for (labels, expected) in ::tests::rows![
        &[][..] => Ok(CatalogDir::Unlabeled);
        &[(files, "/configs")] => Ok(path("/configs"));
        &[(files, "a//b/"), (database, "/d")] => Ok(path("/a/b"));
        &[(files, ""), (database, "/d/index.db")] => Ok(path("/d/index.db"));
        &[(files, "/")] => Ok(path("/"));
        &[(files, "../x")] => Err("*the image's label operators.operatorframework.io.index.configs.v1*");
    ] {
        let pairs = labels.iter();
        let pairs = pairs.map(|&(key, value)| (key.to_owned(), value.to_owned()));
        ::tests::table::assert_outcome(place(&pairs.collect()), expected, labels);
    }
}

#[test]
fn terminating_pod_names_the_image_if_there_is_no_other() {
    let pod = |image: &str, metadata: Value, status: Value| -> Pod {
        let spec = json!({"containers": [{"name": CONTAINER, "image": image}]});
        object!({"metadata": metadata, "spec": spec, "status": status})
    };
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let terminating = pod("a", deleted, json!({}));
    let lost = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let lost = pod("b", json!({}), lost);
    let present = pod("c", json!({}), json!({}));
    let image = |pods: &[&Pod]| {
        let pods: Vec<Pod> = pods.iter().copied().cloned().collect();
        image_of(&pods)
    };
    assert_rows! {
        image(&[]) => None;
        image(&[&terminating]).as_deref() => Some("a");
        image(&[&lost]).as_deref() => Some("b");
        image(&[&terminating, &lost, &present]).as_deref() => Some("c");
        place_in(&[terminating], "a") => None;
    }
}

// parity: pod-11
#[test]
fn image_problem_is_reported_until_an_image_is_good() {
    let mut bad = None;
    let why = |text: &str| Some(text.to_owned());
    assert_each!(|judged, now, expected| problem_to_report(&mut bad, judged, now) => expected;
        None, None => None;
        None, why("a") => why("a");
        None, None => None;
        Some(Err("bad".to_owned())), why("bad") => why("bad");
        // The bad pod was deleted; an object is repaired; another pod is being created.
        None, None => why("bad");
        None, why("b") => why("b");
        None, None => why("bad");
        Some(Err("worse".to_owned())), None => why("worse");
        Some(Ok(())), None => None;
        None, None => None;
    );
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
    assert_each!(|pods, expected| place_in(&pods, image) => expected;
        vec![] => None;
        vec![pod(image, Some("/configs"), true, false)] => Some(path("/configs"));
        vec![pod(image, None, true, false)] => Some(CatalogDir::Unlabeled);
        vec![pod("r/c:v2", Some("/configs"), true, false)] => None;
        vec![pod(image, Some("/configs"), true, true)] => None;
        vec![pod(image, Some("/new"), false, false)] => Some(path("/new"));
        vec![pod(image, Some("/new"), false, false), pod(image, Some("/configs"), true, false)] => Some(path("/configs"));
    );
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
        assert_rows!(last_asked(&source, now) => expected.map(|time| time.parse().unwrap()), "{created:?} {polled:?}");
    }
}

#[test]
fn clock_that_is_set_back_starts_the_interval_again() {
    let hour: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let time = |minute: u64| hour + Duration::from_secs(60 * minute);
    let mut last_check = Some(time(30));
    assert_each!(|now, passed| since_check(&mut last_check, time(now)) => Some(Duration::from_secs(60 * passed));
        35 => 5;
        10 => 0;
        15 => 5;
        40 => 30;
    );
    assert_eq!(since_check(&mut None, time(0)), None);
}
