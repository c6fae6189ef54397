//! Selection of the earlier versions that a new version follows. Pure; no I/O.

use manifests::version::Version;

/// Version of the package in its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HistoryEntry<T> {
    /// Name of its ClusterServiceVersion.
    pub(super) name: String,
    pub(super) version: Version,
    /// Data of the caller for this version.
    pub(super) bundle: T,
}

/// Reason why a new version cannot follow the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OrderError {
    #[error(
        "the history of BundleInstance {instance} does not contain the installed {installed:?}: annotation \
         operators.operatorframework.io/injected-bundles names {known}; correct the annotation, or remove it to use the \
         installed bundle"
    )]
    HistoryMismatch {
        instance: String,
        installed: String,
        known: String,
    },
    #[error(
        "version {new} is not newer than the installed version {installed}; set a higher version in the bundle, or use \
         --force to install it anyway"
    )]
    NotNewer { new: Version, installed: Version },
}

/// Returns the part of the history that the new version follows. Versions after the installed one never ran and are
/// dropped. With `force`, versions that are not older than the new one are dropped, too.
pub(super) fn predecessors<T>(
    mut history: Vec<HistoryEntry<T>>,
    instance: &str,
    installed: &str,
    new: &Version,
    force: bool,
) -> Result<Vec<HistoryEntry<T>>, OrderError> {
    let Some(at) = history.iter().rposition(|entry| entry.name == installed) else {
        let names: Vec<String> = history
            .iter()
            .map(|entry| format!("{:?}", entry.name))
            .collect();
        return Err(OrderError::HistoryMismatch {
            instance: instance.to_owned(),
            installed: installed.to_owned(),
            known: names.join(", "),
        });
    };
    history.truncate(at + 1);
    let last = history.last().map(|entry| &entry.version);
    if let Some(last) = last
        && new.cmp_precedence(last).is_le()
        && !force
    {
        return Err(OrderError::NotNewer {
            new: new.clone(),
            installed: last.clone(),
        });
    }
    if force {
        history.retain(|entry| entry.version.cmp_precedence(new).is_lt());
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(versions: &[&str]) -> Vec<HistoryEntry<()>> {
        let member = |version: &&str| HistoryEntry {
            name: format!("tide.v{version}"),
            version: version.parse().unwrap(),
            bundle: (),
        };
        versions.iter().map(member).collect()
    }

    // parity: sdk-32
    #[test]
    fn version_must_follow_the_installed_one() {
        for (history, installed, new, force, expected) in ::tests::rows![
            &["0.0.1"][..], "0.0.1", "0.0.2", false => Ok(&["0.0.1"][..]);
            &["0.0.1", "0.0.2"], "0.0.2", "0.0.10", false => Ok(&["0.0.1", "0.0.2"]);
            // A version that failed was never installed.
            &["0.0.1", "0.0.2"], "0.0.1", "0.0.2", false => Ok(&["0.0.1"]);
            &["0.0.1", "0.0.2"], "0.0.1", "0.0.3", false => Ok(&["0.0.1"]);
            &["0.0.1"], "0.0.1", "0.0.1", false => Err("version 0.0.1 is not newer than the installed version 0.0.1*");
            &["0.0.2"], "0.0.2", "0.0.2-rc.1", false => Err("version 0.0.2-rc.1 is not newer*");
            &["0.0.2"], "0.0.2", "0.0.2+build", false => Err("version 0.0.2+build is not newer*");
            // A rebuild and an older version replace the entries from their version on.
            &["0.0.1", "0.0.2"], "0.0.2", "0.0.2", true => Ok(&["0.0.1"]);
            &["0.0.1", "0.0.2"], "0.0.2", "0.0.1", true => Ok(&[]);
            &["0.0.1", "0.0.2"], "0.0.2", "0.0.3", true => Ok(&["0.0.1", "0.0.2"]);
            &["0.0.1", "0.0.2"], "0.0.9", "0.0.10", true
                => Err("the history of BundleInstance tide does not contain the installed \"tide.v0.0.9\"*");
            &[], "0.0.9", "0.0.10", false => Err("the history of BundleInstance tide*");
        ] {
            let installed = format!("tide.v{installed}");
            let new = new.parse().unwrap();
            let found = predecessors(line(history), "tide", &installed, &new, force);
            ::tests::table::assert_outcome(found, expected.map(line), (history, new));
        }
    }
}
