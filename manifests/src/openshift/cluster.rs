//! Current and desired release of a cluster, read from its ClusterVersion.

use serde_json::Value;

use super::Release;
use crate::{
    object::{get_path, text, truncate},
    version,
};

/// Release information of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterRelease {
    /// The last completed release.
    pub running: Option<Release>,
    /// The desired release, which often equals the running one.
    pub desired: Option<Release>,
    /// Description of a malformed or missing version.
    pub problem: Option<String>,
    /// Whether any update was completed. Until then, the cluster is being installed.
    pub is_installed: bool,
    /// Whether the cluster is updating to another version.
    pub is_updating: bool,
}

impl ClusterRelease {
    /// Returns the higher of both releases: an operator that does not support the target must not be installed during the
    /// update.
    pub fn max_release(&self) -> Option<Release> {
        let releases = [self.running, self.desired];
        releases
            .into_iter()
            .flatten()
            .max_by_key(|r| r.normalized())
    }

    /// Returns the last completed release.
    ///
    /// # Errors
    /// Returns the problem if the release is unknown.
    pub fn last_completed(&self) -> Result<Release, &str> {
        self.running.ok_or_else(|| {
            let problem = self.problem.as_deref();
            problem.unwrap_or("the ClusterVersion has no version")
        })
    }

    /// Reads the version of the release payload.
    pub fn of_release(release: &str) -> Self {
        let (running, problem) = read(Some(release));
        Self {
            running,
            problem,
            is_installed: true,
            ..Self::default()
        }
    }

    /// Reads a ClusterVersion, whose history starts with the newest entry.
    pub fn of_cluster_version(cluster_version: &Value) -> Self {
        let history = get_path(cluster_version, &["status", "history"])
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let history = history
            .iter()
            .map(|entry| (text(entry, &["state"]), text(entry, &["version"])));
        Self::of_history(
            history,
            text(cluster_version, &["status", "desired", "version"]),
        )
    }

    /// Evaluates the states and versions of a history, newest first, and the desired version.
    pub fn of_history<'a>(
        history: impl Iterator<Item = (Option<&'a str>, Option<&'a str>)> + Clone,
        desired: Option<&'a str>,
    ) -> Self {
        let history = history.map(|(state, version)| Entry {
            is_completed: state == Some("Completed"),
            version,
        });
        let completed = history.clone().find(|entry| entry.is_completed);
        let newest = history.clone().next();
        // Until the first installation is complete, the oldest entry is the one being installed. A completed entry without
        // a version must not be replaced by the desired version, which is a later one during an update.
        let running = match completed {
            Some(entry) => entry.version,
            None => history.last().and_then(|entry| entry.version).or(desired),
        };
        let (running, problem) = read(running);
        let (desired, no_target) = read(desired);
        Self {
            running,
            desired,
            problem: problem.or(no_target),
            is_installed: completed.is_some(),
            is_updating: completed.is_some() && newest.is_some_and(|entry| !entry.is_completed),
        }
    }
}

/// An entry of the history.
#[derive(Clone, Copy)]
struct Entry<'a> {
    is_completed: bool,
    version: Option<&'a str>,
}

/// Reports whether the text is a placeholder for a version.
pub fn is_placeholder(release: &str) -> bool {
    let release = release.trim();
    release.is_empty() || (release.starts_with("0.0.") && release.contains("-snapshot"))
}

fn read(text: Option<&str>) -> (Option<Release>, Option<String>) {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return (None, Some("the ClusterVersion has no version".into()));
    };
    if is_placeholder(text) {
        let text = truncate(text, 60);
        return (
            None,
            Some(format!("the cluster's version {text:?} is a placeholder")),
        );
    }
    match version::parse_lenient(text) {
        Ok(version) => (Some(Release::new(version.major, version.minor)), None),
        Err(error) => (None, Some(format!("invalid cluster version: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn release(text: &str) -> Release {
        Release::read(text).unwrap()
    }

    fn entry(state: &str, version: &str) -> Value {
        json!({"state": state, "version": version})
    }

    // parity: max-olm-12
    #[test]
    fn newest_completed_entry_is_the_running_release() {
        let done = |version| entry("Completed", version);
        let partial = |version| entry("Partial", version);
        for (history, desired, running, highest) in ::tests::rows![
            vec![done("4.12.7")], "4.12.7", "4.12" => "4.12";
            // Updating, possibly after an attempt that was abandoned.
            vec![partial("4.13.0"), done("4.12.7")], "4.13.0", "4.12" => "4.13";
            vec![partial("4.14.0"), partial("4.13.0"), done("4.12.7"), done("4.11.0")], "4.14.0", "4.12" => "4.14";
            // Reverted to the former version.
            vec![partial("4.12.7"), done("4.13.0")], "4.12.7", "4.13" => "4.13";
            // No entry is complete yet: the oldest is used.
            vec![partial("4.13.1"), partial("4.13.0-rc.1")], "4.13.1", "4.13" => "4.13";
            vec![], "4.13.0-0.nightly-2022-10-05-053337", "4.13" => "4.13";
            vec![done("4.22.1")], "5.0.0", "4.22" => "5.0";
            vec![done("4.9.1")], "4.10.0+abc", "4.9" => "4.10";
        ] {
            let value = json!({"status": {"history": history, "desired": {"version": desired}}});
            let cluster = ClusterRelease::of_cluster_version(&value);
            let [running, highest] = [running, highest].map(release);
            assert_rows!((cluster.running, cluster.max_release()) => (Some(running), Some(highest)), "{value}");
            assert_rows!((cluster.last_completed(), &cluster.problem) => (Ok(running), &None), "{value}");
        }
    }

    #[test]
    fn first_installation_is_not_an_update() {
        let done = || entry("Completed", "4.12.7");
        let partial = || entry("Partial", "4.13.0");
        for (history, is_installed, is_updating) in [
            (vec![], false, false),
            (vec![partial()], false, false),
            (vec![partial(), partial()], false, false),
            (vec![done()], true, false),
            (vec![partial(), done()], true, true),
            (vec![done(), partial()], true, false),
        ] {
            let value = json!({"status": {"history": history, "desired": {"version": "4.13.0"}}});
            let cluster = ClusterRelease::of_cluster_version(&value);
            assert_rows!((cluster.is_installed, cluster.is_updating) => (is_installed, is_updating), "{value}");
        }
    }

    #[test]
    fn invalid_version_is_reported_without_a_guess() {
        for (value, problem) in ::tests::rows![
            json!(null) => "has no version";
            json!({"status": {"history": "x", "desired": 4}}) => "has no version";
            json!({"status": {"history": [{"state": "Completed", "version": {}}, 7]}}) => "has no version";
            json!({"status": {"desired": {"version": "0.0.1-snapshot"}, "history": [{"state": "Completed"}]}})
                => "has no version";
            json!({"status": {"desired": {"version": "garbage"}}}) => "\"garbage\" is not a semantic version";
            json!({"status": {"desired": {"version": "0.0.1-snapshot"}}}) => "\"0.0.1-snapshot\" is a placeholder";
        ] {
            let cluster = ClusterRelease::of_cluster_version(&value);
            assert_eq!(cluster.max_release(), None, "{value}");
            let message = cluster.last_completed().unwrap_err();
            assert!(message.contains(problem), "{message}");
        }
    }

    #[test]
    fn completed_entry_without_version_hides_the_desired_one() {
        let entries = json!([{}, {"version": ""}, {"version": 4.12}]);
        for entry in entries.as_array().unwrap() {
            let entry = with!(entry.clone() => |entry| entry["state"] = "Completed".into());
            let history = json!([{"state": "Partial", "version": "4.13.0"}, entry]);
            let value = json!({"status": {"history": history, "desired": {"version": "4.13.0"}}});
            let cluster = ClusterRelease::of_cluster_version(&value);
            assert_eq!(cluster.running, None, "{value}");
            assert_rows!(cluster.last_completed().unwrap_err() => "the ClusterVersion has no version", "{value}");
            // It is an update nevertheless: an operator that does not support the target must not be installed.
            let is_update = cluster.is_installed && cluster.is_updating;
            assert_rows!((is_update, cluster.max_release()) => (true, Some(release("4.13"))), "{value}");
        }
    }

    #[test]
    fn placeholders_of_a_payload_are_ignored() {
        assert_rows!(["0.0.1-snapshot", " 0.0.1-snapshot\n", ""].map(is_placeholder) => [true; 3]);
        assert_rows!(["4.12.0", "4.12.0-snapshot"].map(is_placeholder) => [false; 2]);
    }

    // parity: max-olm-7
    #[test]
    fn versions_of_clusters_are_read_as_releases() {
        // The last two are E.2 rows 25 and 26.
        let versions = "4.12.0-0.nightly-2022-10-05-053337 4.12, 4.12.0-0.ci.test-2022 4.12, 4.12.0-rc.1 4.12, 4.12.3 4.12, \
                        4.12.0+abc 4.12, 4.12 4.12, v4.12.3 4.12, 4 4.0, 4.16.0-rc1 4.16, 4.23.0-rc1 4.23";
        for (version, expected) in ::tests::pairs(versions) {
            assert_rows!(ClusterRelease::of_release(version).running => Some(release(expected)), "{version}");
        }
        assert_eq!(ClusterRelease::of_release("garbage").running, None);
    }
}
