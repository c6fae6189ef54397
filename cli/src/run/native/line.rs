//! The line of versions that a new one comes after: a plain function of what was run and what is installed.

use manifests::version::Version;

/// A version of the package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member<T> {
    /// The name of its ClusterServiceVersion.
    pub(super) name: String,
    pub(super) version: Version,
    /// What else there is of it.
    pub(super) bundle: T,
}

/// Why a new version does not come after those before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error(
        "the history of BundleInstance {instance} does not have {installed:?}, which is installed; its annotation \
         operators.operatorframework.io/injected-bundles names {known}: correct the annotation, or remove it, so that the \
         history is told from what is installed"
    )]
    Lying {
        instance: String,
        installed: String,
        known: String,
    },
    #[error(
        "version {new} is not newer than {installed}, which is installed; give the bundle a higher version, or take it \
         nevertheless with --force"
    )]
    NotNewer { new: Version, installed: Version },
}

/// The part of the history that the new version follows. What was tried after the installed version and never ran does not
/// count; with force, neither does what is not older than the new version.
pub(super) fn before<T>(
    mut history: Vec<Member<T>>,
    instance: &str,
    installed: &str,
    new: &Version,
    force: bool,
) -> Result<Vec<Member<T>>, Refusal> {
    let Some(at) = history.iter().rposition(|it| it.name == installed) else {
        let known: Vec<String> = history.iter().map(|it| format!("{:?}", it.name)).collect();
        return Err(Refusal::Lying {
            instance: instance.to_owned(),
            installed: installed.to_owned(),
            known: known.join(", "),
        });
    };
    history.truncate(at + 1);
    let last = history.last().map(|it| &it.version);
    if let Some(last) = last
        && new.cmp_precedence(last).is_le()
        && !force
    {
        return Err(Refusal::NotNewer {
            new: new.clone(),
            installed: last.clone(),
        });
    }
    if force {
        history.retain(|it| it.version.cmp_precedence(new).is_lt());
    }
    Ok(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(versions: &[&str]) -> Vec<Member<()>> {
        let member = |version: &&str| Member {
            name: format!("tide.v{version}"),
            version: version.parse().unwrap(),
            bundle: (),
        };
        versions.iter().map(member).collect()
    }

    // parity: sdk-32
    #[test]
    fn a_version_follows_what_is_installed() {
        for (history, installed, new, force, expected) in ::tests::rows![
            &["0.0.1"][..], "0.0.1", "0.0.2", false => Ok(&["0.0.1"][..]);
            &["0.0.1", "0.0.2"], "0.0.2", "0.0.10", false => Ok(&["0.0.1", "0.0.2"]);
            // What has failed was never installed.
            &["0.0.1", "0.0.2"], "0.0.1", "0.0.2", false => Ok(&["0.0.1"]);
            &["0.0.1", "0.0.2"], "0.0.1", "0.0.3", false => Ok(&["0.0.1"]);
            &["0.0.1"], "0.0.1", "0.0.1", false => Err("version 0.0.1 is not newer than 0.0.1, which is installed*");
            &["0.0.2"], "0.0.2", "0.0.2-rc.1", false => Err("version 0.0.2-rc.1 is not newer*");
            &["0.0.2"], "0.0.2", "0.0.2+build", false => Err("version 0.0.2+build is not newer*");
            // A rebuild takes the place of what it was built from, and so does an older version.
            &["0.0.1", "0.0.2"], "0.0.2", "0.0.2", true => Ok(&["0.0.1"]);
            &["0.0.1", "0.0.2"], "0.0.2", "0.0.1", true => Ok(&[]);
            &["0.0.1", "0.0.2"], "0.0.2", "0.0.3", true => Ok(&["0.0.1", "0.0.2"]);
            &["0.0.1", "0.0.2"], "0.0.9", "0.0.10", true
                => Err("the history of BundleInstance tide does not have \"tide.v0.0.9\", which is installed*");
            &[], "0.0.9", "0.0.10", false => Err("the history of BundleInstance tide*");
        ] {
            let installed = format!("tide.v{installed}");
            let new = new.parse().unwrap();
            let found = before(line(history), "tide", &installed, &new, force);
            let expected = expected.map(line);
            ::tests::table::assert_outcome(found, expected, (history, new));
        }
    }
}
