use serde_json::{Value, json};

use super::*;

const HASH: &str = "h";

/// Parses a pod: `name [update] [ready] [old|lost|leaving|Failed|Unknown|crash] [@digest] [+seconds after the others]`.
fn pod(text: &str) -> PodObservation {
    let mut parts = text.split(' ');
    let at = |second| Some(Timestamp::from_second(second).unwrap());
    let mut observed = with!(PodObservation, name: parts.next().unwrap().to_owned(), hash: HASH.to_owned(), phase: "Running".to_owned(),
        since: at(1000));
    for word in parts {
        match word {
            "update" => observed.is_update = true,
            "ready" => observed.is_ready = true,
            "old" => observed.hash = "before".to_owned(),
            "lost" => observed.presence = PodPresence::Lost,
            "leaving" if observed.presence == PodPresence::Present => {
                observed.presence = PodPresence::Terminating;
            }
            "leaving" => {}
            "crash" => observed.waits = Some("CrashLoopBackOff".to_owned()),
            "pull" => observed.waits = Some("ImagePullBackOff".to_owned()),
            word if word.starts_with('@') => observed.digest = Some(word.to_owned()),
            word if word.starts_with(['+', '-']) => {
                observed.since = at(1000 + word.parse::<i64>().unwrap());
            }
            word => observed.phase = word.to_owned(),
        }
    }
    observed
}

fn describe_acts(acts: &[PodAction]) -> String {
    let acts = acts.iter().map(|act| match act {
        PodAction::Create => "make".to_owned(),
        PodAction::CheckTag => "ask".to_owned(),
        PodAction::Promote(name) => format!("promote {name}"),
        PodAction::Delete(name, grace) => format!("delete {name} {grace}"),
    });
    let acts: Vec<String> = acts.collect();
    acts.join(", ")
}

/// Pods, separated by semicolons; whether a poll is due; the actions, the resulting state, the problem, and the seconds
/// until the next reconcile.
const TABLE: &str = "
# The first pod.
                              | asks | make              | its pod is being created |                        | 30
a                             | asks |                   | pod a is not ready yet |                       |
a pull                        |      |                   | pod a is not ready yet | pod a is not ready: ImagePullBackOff |
a ready @1                    |      |                   | @1 |                                           |
# Repair.
a ready leaving               |      | make              | its pod is being created |                        | 30
a ready lost                  |      | delete a 0, make  | its pod is being created |                        | 30
a leaving lost; b ready       |      | delete a 0        | |                                              |
a ready @1; b ready +1 @1     |      | delete b 1        | @1 |                                           |
a; b ready +1 @1              |      | delete a 1        | @1 |                                           |
# The desired pod has changed: the former one serves until the new one is ready.
a ready old @1                |      | make              | @1 |                                           | 30
a ready old @1; b             |      |                   | @1 |                                           |
a ready old @1; b pull        | asks |                   | @1 | pod b is not ready: ImagePullBackOff      |
a ready old @1; b Failed +90  |      |                   | @1 | pod b terminated: Failed                   | 50
a old; b                      |      |                   | pod b is not ready yet |                       |
a ready old; b ready @2       |      | delete a 1        | @2 |                                           |
a ready old @1; u update old; b  |   | delete u 1        | @1 |                                           |
# A node that rejects pods gets one a minute.
a Failed +90                  |      |                   | a new pod will be created | pod a terminated: Failed  | 50
a Failed +40                  |      | delete a 1, make  | its pod is being created | pod a terminated: Failed | 30
a Failed old +90              |      | delete a 1, make  | its pod is being created |                        | 30
a Failed; b Failed +90        |      |                   | a new pod will be created | pod b terminated: Failed  | 50
a Failed; b ready +1          |      | delete a 1        | |                                              |
# Resolving a tag.
a ready @1                    | asks | ask               | @1 |                                           | 30
a @1                          | asks |                   | pod a is not ready yet |                       |
a ready @1; u update          | asks |                   | @1 |                                           | 30
a ready @1; u update pull     | asks |                   | @1 | update pod u is not ready: ImagePullBackOff | 30
a ready @1; u update pull -499 |     |                   | @1 | update pod u is not ready: ImagePullBackOff | 30
a ready @1; u update pull -500 |     | delete u 1 | @1 | update pod u is not ready: ImagePullBackOff: deleted update pod |
a ready @1; u update Pending  |      |                   | @1 |                                           | 30
a ready @1; u update Pending -500 |  | delete u 1 | @1 | update pod u is not ready: Pending: deleted update pod |
a ready @1; u update ready -500 @2 | | promote u, delete a 1 | @2 |                                       |
a ready @1; u update ready @1 | asks | delete u 1        | @1 |                                           |
a ready @1; u update ready @2 | asks | promote u, delete a 1 | @2 |                                       |
a ready @1; u update ready    |      | delete u 1        | @1 |                                           |
a ready; u update ready @2    |      | delete u 1        | |                                              |
a; u update ready @1          |      | promote u, delete a 1 | @1 |                                       |
a ready @1; u update Failed   | asks | delete u 1 | @1 | update pod u in a Failed state: deleted update pod |
a ready @1; u update Unknown  |      | delete u 1 | @1 | update pod u in a Unknown state: deleted update pod |
a ready @1; u update crash    | asks | delete u 1 | @1 | update pod u in a CrashLoopBackOff state: deleted update pod |
a ready @1; u update ready lost @2 |    | delete u 0       | @1 |                                           |
a ready @1; u update ready leaving @2 | |                  | @1 |                                           |
a ready @1; u update; v update +1 |     | delete u 1       | @1 |                                           | 30
# The serving pod was deleted in the meantime.
u update ready @2             |      | promote u         | @2 |                                           |
u update                      |      | delete u 1, make  | its pod is being created |                        | 30
a ready old @1; u update ready @2 |     | promote u, delete a 1 | @2 |                                      |
";

// parity: pod-3, pod-11
#[test]
fn pods_are_created_kept_replaced_and_deleted() {
    let lines = TABLE.lines().filter(|line| line.contains('|'));
    for row in lines {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [pods, asks, acts, state, expected_problem, recheck] = cells[..] else {
            panic!("{row}");
        };
        let all = pods.split(';').map(str::trim).filter(|pod| !pod.is_empty());
        let observed: Vec<PodObservation> = all.map(pod).collect();
        let now = Timestamp::from_second(1100).unwrap();
        let made = decide(&observed, HASH, asks == "asks", now);
        let detail = match &made.state {
            PodServingState::Starting(why) => why.as_str(),
            PodServingState::Serving(digest) => digest.as_deref().unwrap_or_default(),
        };
        let found = (detail, made.trouble.as_deref().unwrap_or_default());
        assert_rows!((describe_acts(&made.acts).as_str(), found) => (acts, (state, expected_problem)), "{row}");
        // An image is evaluated by its update pod, once that is ready or has failed.
        let word = |act: &str| describe_acts(&made.acts).contains(act);
        let judged = match &made.judged {
            None => "",
            Some(Ok(())) => "good",
            Some(Err(why)) => why,
        };
        let is_accepted =
            word("promote") || pods.contains("; u update ready") && word("delete u 1");
        let expected = match expected_problem {
            problem if problem.ends_with("deleted update pod") => problem,
            _ => ["", "good"][usize::from(is_accepted)],
        };
        assert_eq!(judged, expected, "{row}");
        assert_rows!(made.again.map(|one| one.as_secs().to_string()).unwrap_or_default() => recheck, "{row}");
        // At most one pod serves in the end, besides one that replaces it.
        let is_deleted = |name: &str| {
            let mut acts = made.acts.iter();
            acts.any(|act| matches!(act, PodAction::Delete(deleted, _) if deleted == name))
        };
        let serves = |pod: &&PodObservation| {
            !pod.is_update || made.acts.contains(&PodAction::Promote(pod.name.clone()))
        };
        let is_good = |pod: &&PodObservation| {
            pod.presence == PodPresence::Present && pod.is_ready && pod.hash == HASH
        };
        let left = observed.iter().filter(is_good).filter(serves);
        assert_rows!(left.filter(|one| !is_deleted(&one.name)).count() <= 1 => true, "{row}");
    }
}

fn observe(pod: Value) -> PodObservation {
    let pod = with!(pod => |pod| pod["apiVersion"] = "v1".into(); pod["kind"] = "Pod".into());
    PodObservation::from_pod(&serde_json::from_value(pod).unwrap())
}

// parity: pod-11
#[test]
fn malformed_pods_are_parsed() {
    assert_rows!(observe(json!({"metadata": {}})) => PodObservation::default());
    let status = |status: Value| observe(json!({"metadata": {"name": "a"}, "status": status}));
    let image = |name: &str, id: &str| {
        status(json!({"containerStatuses": [
            {"name": "sidecar", "image": "s", "imageID": "s@sha256:99", "ready": true, "restartCount": 0},
            {"name": name, "image": "i", "imageID": id, "ready": true, "restartCount": 0},
        ]}))
        .digest
    };
    assert_each!(|name, id, expected| image(name, id).as_deref() => expected;
        "registry-server", "quay.io/a/b@sha256:11" => Some("sha256:11");
        "registry-server", "docker-pullable://quay.io/a/b@sha256:11" => Some("sha256:11");
        "registry-server", "sha256:11" => Some("sha256:11");
        "registry-server", "" => None;
        "registry-server", "quay.io/a/b:v1" => None;
        "other", "quay.io/a/b@sha256:11" => None;
    );
    let waiting = |reason: &str| {
        status(json!({"initContainerStatuses": [{
            "name": "extract-utilities", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason}},
        }]}))
        .waits
    };
    let ready = status(json!({"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "False"},
    ]}));
    let lost = status(json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]}));
    let is_update = |labels: Value| observe(json!({"metadata": {"labels": labels}})).is_update;
    assert_rows! {
        waiting("CrashLoopBackOff").as_deref() => Some("CrashLoopBackOff");
        waiting("PodInitializing") => None;
        (ready.is_ready, ready.presence) => (true, PodPresence::Present);
        (lost.is_ready, lost.presence) => (false, PodPresence::Lost);
        is_update(json!({CATALOG: "", UPDATE: "a"})) => true;
        is_update(json!({CATALOG: "a", UPDATE: "a"})) => false;
        is_update(json!({CATALOG: "a"})) => false;
    }
}
