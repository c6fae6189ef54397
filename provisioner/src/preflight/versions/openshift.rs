//! The release of OpenShift that a cluster runs, and the one it is on its way to.

use convert::maxocp::Release;
use manifests::{
    object::{at, shortened, text},
    version,
};
use serde_json::Value;

/// What is known of the release.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenShift {
    /// The release that was reached last.
    pub running: Option<Release>,
    /// The release that the cluster is told to reach; often the same.
    pub desired: Option<Release>,
    /// What was said of the version and is none.
    pub problem: Option<String>,
}

impl OpenShift {
    /// The higher of both: what cannot run on the target must not be installed on the way to it.
    pub fn highest(&self) -> Option<Release> {
        let releases = [self.running, self.desired];
        releases
            .into_iter()
            .flatten()
            .max_by_key(|r| normalized(*r))
    }

    /// As the release payload names itself.
    pub(super) fn of_release(release: &str) -> Self {
        let (running, problem) = read(Some(release));
        Self {
            running,
            desired: None,
            problem,
        }
    }

    /// As the ClusterVersion tells it. Its history begins with the newest entry.
    pub(super) fn of_cluster_version(cluster_version: &Value) -> Self {
        let history = at(cluster_version, &["status", "history"])
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let desired = text(cluster_version, &["status", "desired", "version"]);
        // Before the first installation is complete, the oldest entry is what is being installed.
        let running = history
            .iter()
            .find(|entry| text(entry, &["state"]) == Some("Completed"))
            .or(history.last())
            .and_then(|entry| text(entry, &["version"]))
            .or(desired);
        let (running, problem) = read(running);
        let (desired, no_target) = read(desired);
        Self {
            running,
            desired,
            problem: problem.or(no_target),
        }
    }
}

/// OpenShift 4.23 and 5.0 are one and the same release.
pub(super) fn normalized(release: Release) -> Release {
    match release {
        Release {
            major: 4,
            minor: 23,
        } => Release { major: 5, minor: 0 },
        other => other,
    }
}

/// Whether the text stands for a version that was never filled in.
pub(super) fn is_placeholder(release: &str) -> bool {
    let release = release.trim();
    release.is_empty() || (release.starts_with("0.0.") && release.contains("-snapshot"))
}

fn read(text: Option<&str>) -> (Option<Release>, Option<String>) {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return (None, Some("the ClusterVersion names no version".into()));
    };
    if is_placeholder(text) {
        let text = shortened(text, 60);
        return (
            None,
            Some(format!("the cluster's version {text:?} is a placeholder")),
        );
    }
    match version::tolerant(text) {
        Ok(version) => (
            Some(Release {
                major: version.major,
                minor: version.minor,
            }),
            None,
        ),
        Err(error) => (None, Some(format!("the cluster's version: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn release(text: &str) -> Release {
        let (major, minor) = text.split_once('.').unwrap();
        Release {
            major: major.parse().unwrap(),
            minor: minor.parse().unwrap(),
        }
    }

    fn entry(state: &str, version: &str) -> Value {
        json!({"state": state, "version": version})
    }

    #[test]
    fn the_newest_completed_entry_is_what_runs() {
        let done = |version| entry("Completed", version);
        let partial = |version| entry("Partial", version);
        for (history, desired, running, highest) in [
            (vec![done("4.12.7")], "4.12.7", "4.12", "4.12"),
            // On its way, also after a first try that was given up.
            (
                vec![partial("4.13.0"), done("4.12.7")],
                "4.13.0",
                "4.12",
                "4.13",
            ),
            (
                vec![
                    partial("4.14.0"),
                    partial("4.13.0"),
                    done("4.12.7"),
                    done("4.11.0"),
                ],
                "4.14.0",
                "4.12",
                "4.14",
            ),
            // Back to where it came from.
            (
                vec![partial("4.12.7"), done("4.13.0")],
                "4.12.7",
                "4.13",
                "4.13",
            ),
            // Nothing is complete yet: the oldest.
            (
                vec![partial("4.13.1"), partial("4.13.0-rc.1")],
                "4.13.1",
                "4.13",
                "4.13",
            ),
            (vec![], "4.13.0-0.nightly-2022-10-05-053337", "4.13", "4.13"),
            (vec![done("4.22.1")], "5.0.0", "4.22", "5.0"),
            (vec![done("4.9.1")], "4.10.0+abc", "4.9", "4.10"),
        ] {
            let value = json!({"status": {"history": history, "desired": {"version": desired}}});
            let cluster = OpenShift::of_cluster_version(&value);
            assert_eq!(cluster.running, Some(release(running)), "{value}");
            assert_eq!(cluster.highest(), Some(release(highest)), "{value}");
            assert_eq!(cluster.problem, None, "{value}");
        }
    }

    #[test]
    fn what_is_no_version_is_said_and_not_guessed() {
        for (value, problem) in [
            (json!(null), "names no version"),
            (
                json!({"status": {"history": "x", "desired": 4}}),
                "names no version",
            ),
            (
                json!({"status": {"desired": {"version": "garbage"}}}),
                "\"garbage\" is not a semantic version",
            ),
            (
                json!({"status": {"desired": {"version": "0.0.1-snapshot"}}}),
                "\"0.0.1-snapshot\" is a placeholder",
            ),
        ] {
            let cluster = OpenShift::of_cluster_version(&value);
            assert_eq!(cluster.highest(), None, "{value}");
            let found = cluster.problem.unwrap();
            assert!(found.contains(problem), "{found}");
        }
    }

    #[test]
    fn placeholders_of_a_release_payload_do_not_count() {
        for (text, placeholder) in [
            ("0.0.1-snapshot", true),
            (" 0.0.1-snapshot\n", true),
            ("", true),
            ("4.12.0", false),
            ("4.12.0-snapshot", false),
        ] {
            assert_eq!(is_placeholder(text), placeholder, "{text}");
        }
    }
}
