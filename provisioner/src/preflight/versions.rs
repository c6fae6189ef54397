//! The versions of Kubernetes and, where there is one, of OpenShift; and whether a bundle runs on them.

mod verdict;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use convert::maxocp::{self, MaxOpenShiftVersion};
use kube::Client;
use manifests::{
    api::instance::{Constraint, Enforcement},
    openshift,
    version::{self, KubeVersion, Version},
};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};

use super::{Findings, Input};
use crate::overrides::Digests;
pub use manifests::openshift::Cluster as OpenShift;

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(60);
/// How long the apiserver may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The versions of the cluster, asked for now and then.
pub struct Versions {
    client: Client,
    /// Of the release payload, unless it says nothing.
    release: Option<String>,
    kubernetes: Mutex<Option<(Instant, Version)>>,
    is_openshift: Mutex<Option<(Instant, bool)>>,
    changes: watch::Sender<u64>,
}

impl Versions {
    /// Knows nothing yet. `release` is the version of the release payload that this is a part of, if it is.
    pub fn new(client: Client, release: Option<String>) -> Self {
        Self {
            client,
            release: release.filter(|release| !openshift::is_placeholder(release)),
            kubernetes: Mutex::default(),
            is_openshift: Mutex::default(),
            changes: watch::Sender::default(),
        }
    }

    /// Counts the changes, and what may be some.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What was learned may be wrong: the cluster was upgraded, or the apiserver was started again.
    pub fn doubt(&self) {
        forget(&self.kubernetes);
        forget(&self.is_openshift);
        self.changes.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// Of the apiserver.
    ///
    /// # Errors
    /// When it does not answer, or with something that is no version.
    pub async fn kubernetes(&self) -> Result<KubeVersion, kube::Error> {
        let release = self.kubernetes_release().await?;
        Ok(KubeVersion::new(release.major, release.minor))
    }

    /// Of the apiserver, with the patch release. What vendors append (`-gke.100`, `+k3s1`) is left out.
    ///
    /// # Errors
    /// When it does not answer, or with something that is no version.
    pub async fn kubernetes_release(&self) -> Result<Version, kube::Error> {
        if let Some(version) = fresh(&self.kubernetes) {
            return Ok(version);
        }
        let info = in_time(self.client.apiserver_version()).await?;
        let version = read_kubernetes(&info.git_version, &info.major, &info.minor)
            .map_err(|error| kube::Error::Service(Box::new(error)))?;
        keep(&self.kubernetes, version.clone());
        Ok(version)
    }

    /// Of OpenShift; nothing on other clusters.
    ///
    /// # Errors
    /// When the apiserver cannot be asked.
    pub async fn openshift(&self) -> Result<Option<OpenShift>, kube::Error> {
        if !self.is_openshift().await? {
            return Ok(None);
        }
        if let Some(release) = &self.release {
            return Ok(Some(OpenShift::of_release(release)));
        }
        let version = self
            .get("/apis/config.openshift.io/v1/clusterversions/version")
            .await?;
        Ok(Some(OpenShift::of_cluster_version(
            &version.unwrap_or_default(),
        )))
    }

    /// Whether ClusterVersions are served, which is what makes an OpenShift.
    async fn is_openshift(&self) -> Result<bool, kube::Error> {
        if let Some(answer) = fresh(&self.is_openshift) {
            return Ok(answer);
        }
        let group = self.get("/apis/config.openshift.io/v1").await?;
        let answer = group
            .as_ref()
            .and_then(|group| group.get("resources")?.as_array())
            .into_iter()
            .flatten()
            .any(|resource| resource.get("name").is_some_and(|n| n == "clusterversions"));
        keep(&self.is_openshift, answer);
        Ok(answer)
    }

    async fn get(&self, path: &str) -> Result<Option<Value>, kube::Error> {
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        match in_time(self.client.request(request)).await {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What a catalog says of the newest OpenShift that a bundle runs on: the JSON text of each property. Nothing if it has
/// none.
pub fn said_by_catalog(listed: &[String]) -> Option<MaxOpenShiftVersion> {
    let raw = match listed {
        [] => return None,
        [only] => only.trim_matches('"').to_owned(),
        several => several.join(" and "),
    };
    let parsed = maxocp::parse(&raw);
    Some(MaxOpenShiftVersion {
        source: "the catalog".to_owned(),
        version: parsed.as_ref().ok().copied(),
        problem: parsed.err(),
        raw,
    })
}

/// Compares what the bundle demands of the cluster with the cluster.
///
/// # Errors
/// When the apiserver cannot be asked; to be tried again.
pub async fn check(input: &Input<'_>) -> Result<Findings, kube::Error> {
    let preflight = input.instance.spec.preflight.as_ref();
    if preflight.is_some_and(|preflight| preflight.cluster_version == Enforcement::Off) {
        return Ok(Findings::default());
    }
    let facts = input.facts;
    let bundle = match facts.name.as_str() {
        "" => "the bundle",
        name => name,
    };
    let mut findings = Findings::default();
    let is_installed = is_installed(input);
    let overridden = |constraint| {
        input
            .digests
            .find(&input.instance.spec.overrides, constraint)
    };
    // Nobody is asked who has nothing to say: most bundles run everywhere.
    if let Some(max) = &facts.max_open_shift_version
        && let Some(cluster) = input.versions.openshift().await?
    {
        verdict::openshift(bundle, max, &cluster).add_to(
            &mut findings,
            Constraint::MaxOpenShiftVersion,
            overridden(Constraint::MaxOpenShiftVersion),
            input.digests,
            is_installed,
        );
    }
    if let Some(min) = &facts.min_kube_version {
        let cluster = input.versions.kubernetes_release().await?;
        verdict::kubernetes(bundle, min, &cluster).add_to(
            &mut findings,
            Constraint::MinKubeVersion,
            overridden(Constraint::MinKubeVersion),
            input.digests,
            is_installed,
        );
    }
    Ok(findings)
}

/// Whether this very content is in the cluster.
fn is_installed(input: &Input<'_>) -> bool {
    let status = input.instance.status.as_ref();
    let status = status.filter(|it| it.installed_bundle_name.is_some());
    status
        .is_some_and(|it| it.content_digest.is_some() && Digests::of_installed(it) == input.digests)
}

/// `gitVersion`; servers that were built by hand have none worth the name.
fn read_kubernetes(git: &str, major: &str, minor: &str) -> Result<Version, version::Error> {
    let bare = git.split(['-', '+']).next().unwrap_or_default();
    match version::tolerant(bare) {
        Ok(version) if version.major > 0 => Ok(version),
        _ => {
            let version: KubeVersion = format!("{major}.{minor}").parse()?;
            Ok(Version::new(version.major, version.minor, 0))
        }
    }
}

async fn in_time<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    timeout(PATIENCE, request)
        .await
        .map_err(|elapsed| kube::Error::Service(Box::new(elapsed)))?
}

fn fresh<T: Clone>(cache: &Mutex<Option<(Instant, T)>>) -> Option<T> {
    let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    cache
        .as_ref()
        .filter(|(since, _)| since.elapsed() < FRESH)
        .map(|(_, value)| value.clone())
}

fn forget<T>(cache: &Mutex<Option<(Instant, T)>>) {
    *cache.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn keep<T>(cache: &Mutex<Option<(Instant, T)>>, value: T) {
    *cache.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_names_a_release_or_something_that_is_none() {
        let said = |listed: &[&str]| {
            let listed: Vec<String> = listed.iter().map(|&it| it.to_owned()).collect();
            said_by_catalog(&listed).map(|it| {
                (
                    it.raw.clone(),
                    it.version.map(|version| version.to_string()),
                )
            })
        };
        let of =
            |raw: &str, version: Option<&str>| Some((raw.to_owned(), version.map(str::to_owned)));
        assert_eq!(said(&[]), None);
        assert_eq!(said(&["\"4.12\""]), of("4.12", Some("4.12")));
        assert_eq!(said(&["4.10"]), of("4.10", Some("4.10")));
        assert_eq!(said(&["{}"]), of("{}", None));
        let both = said(&["\"4.12\"", "\"4.13\""]);
        assert_eq!(both, of("\"4.12\" and \"4.13\"", None));
    }

    #[test]
    fn servers_name_their_version_in_many_ways() {
        for (git, major, minor, version) in [
            ("v1.36.3", "1", "36", Some((1, 36, 3))),
            ("v1.27.4-gke.900", "1", "27+", Some((1, 27, 4))),
            ("v1.30.1+k3s1", "1", "30", Some((1, 30, 1))),
            ("v0.0.0-master+$Format:%H$", "1", "36+", Some((1, 36, 0))),
            ("", "1", "29", Some((1, 29, 0))),
            ("v0.0.0-master", "", "", None),
        ] {
            let read = read_kubernetes(git, major, minor).ok();
            let expected = version.map(|(major, minor, patch)| Version::new(major, minor, patch));
            assert_eq!(read, expected, "{git}");
        }
    }
}
