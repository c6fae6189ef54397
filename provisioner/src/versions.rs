//! The versions of Kubernetes and, where there is one, of OpenShift; and whether a bundle runs on them.

mod verdict;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use convert::facts::Facts;
use kube::Client;
use manifests::{
    api::instance::{BundleInstance, Constraint, Enforcement},
    openshift::{self, MaxOpenShiftVersion, Spelling},
    version::{self, KubeVersion, Version},
};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};

use apply::preflight::Findings;

use crate::overrides::Digests;
pub use manifests::openshift::Cluster as OpenShift;

/// How long an answer counts.
const FRESH: Duration = Duration::from_secs(60);
/// How long the API server may take.
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

    /// What was learned may be wrong: the cluster was upgraded, or the API server was started again.
    pub fn doubt(&self) {
        forget(&self.kubernetes);
        forget(&self.is_openshift);
        self.changes.send_modify(|it| *it = it.wrapping_add(1));
    }

    /// Of the API server.
    ///
    /// # Errors
    /// When it does not answer, or with something that is no version.
    pub async fn kubernetes(&self) -> Result<KubeVersion, kube::Error> {
        let release = self.kubernetes_release().await?;
        Ok(KubeVersion::new(release.major, release.minor))
    }

    /// Of the API server, with the patch release. What vendors append (`-gke.100`, `+k3s1`) is left out.
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

    /// The release payload that this is a part of, if it is and says so.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Of OpenShift, as its ClusterVersion tells; nothing on other clusters.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn openshift(&self) -> Result<Option<OpenShift>, kube::Error> {
        if !self.is_openshift().await? {
            return Ok(None);
        }
        let version = self
            .get("/apis/config.openshift.io/v1/clusterversions/version")
            .await?;
        let version = version.unwrap_or_default();
        Ok(Some(told(&version, self.release())))
    }

    /// Reports whether ClusterVersions are served, which is what makes an OpenShift.
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

/// What the ClusterVersion tells. The payload of the next release starts this anew long before the update to it is complete,
/// so what the payload says of itself counts only where the ClusterVersion says nothing at all.
fn told(cluster_version: &Value, release: Option<&str>) -> OpenShift {
    let told = OpenShift::of_cluster_version(cluster_version);
    match release {
        Some(release) if told.highest().is_none() => OpenShift::of_release(release),
        _ => told,
    }
}

/// Returns the max OpenShift version that counts: that of the catalog, unless it cannot be determined and that of the bundle
/// can. `said` is the text that the catalog declares.
pub fn that_counts(
    of_bundle: Option<MaxOpenShiftVersion>,
    said: Option<&str>,
) -> Option<MaxOpenShiftVersion> {
    let of_catalog = said.map(|text| MaxOpenShiftVersion::new(text, Spelling::CatalogProperties));
    match (of_catalog, of_bundle) {
        (Some(of_catalog), Some(of_bundle))
            if of_catalog.version.is_err() && of_bundle.version.is_ok() =>
        {
            Some(of_bundle)
        }
        (of_catalog, of_bundle) => of_catalog.or(of_bundle),
    }
}

/// A bundle that is about to be installed.
pub struct Candidate<'a> {
    /// The spec decides whether the check counts, the status says what is installed.
    pub instance: &'a BundleInstance,
    /// The digests that identify the content of the bundle.
    pub digests: Digests<'a>,
    /// The constraints of the bundle.
    pub facts: &'a Facts,
}

/// Compares the constraints of a bundle with the versions of the cluster.
///
/// # Errors
/// Returns an error if the API server does not answer; the check is retried.
pub async fn check(input: &Candidate<'_>, versions: &Versions) -> Result<Findings, kube::Error> {
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
        && let Some(cluster) = versions.openshift().await?
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
        let cluster = versions.kubernetes_release().await?;
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

/// Reports whether this very content is in the cluster.
fn is_installed(input: &Candidate<'_>) -> bool {
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_catalog_counts_before_the_bundle_if_it_names_a_release() {
        for (bundle, catalog, expected) in [
            (None, None, None),
            (Some("4.12"), None, Some("4.12")),
            (None, Some("\"4.13\""), Some("4.13")),
            (None, Some("4.10"), Some("4.10")),
            (Some("4.12"), Some("\"4.13\""), Some("4.13")),
            (Some("4.12"), Some("\"4.11\""), Some("4.11")),
            (Some("4.12"), Some("\"4.13.1\""), Some("4.12")),
            (Some("4.12"), Some("4.12, 4.13"), Some("4.12")),
            (Some("4.12"), Some("v4.13"), Some("4.12")),
            (Some("garbage"), Some("\"4.13.1\""), Some("4.13.1")),
            (None, Some("\"4.13.1\""), Some("4.13.1")),
        ] {
            let bundle =
                bundle.map(|text| MaxOpenShiftVersion::new(text, Spelling::BundleProperties));
            let counts = that_counts(bundle.clone(), catalog);
            let text = counts.map(|declared| declared.text());
            assert_eq!(text.as_deref(), expected, "{bundle:?} {catalog:?}");
        }
    }

    #[test]
    fn a_new_payload_is_no_completed_update() {
        let entry = |state: &str, version: &str| json!({"state": state, "version": version});
        let (old, new) = (entry("Completed", "4.12.9"), entry("Partial", "4.13.0"));
        let during = json!({"status": {"history": [new, old], "desired": {"version": "4.13.0"}}});
        let odd = json!({"status": {"history": [{"state": "Completed"}], "desired": {"version": "4.13.0"}}});
        for (version, release, running, highest) in [
            (&during, Some("4.13.0"), Some("4.12"), Some("4.13")),
            // The former one is still there.
            (&during, Some("4.12.9"), Some("4.12"), Some("4.13")),
            (&during, None, Some("4.12"), Some("4.13")),
            (&Value::Null, Some("4.13.0"), Some("4.13"), Some("4.13")),
            (&Value::Null, None, None, None),
            (&odd, Some("4.13.0"), None, Some("4.13")),
        ] {
            let told = told(version, release);
            let found = [told.running, told.highest()].map(|it| it.map(|it| it.to_string()));
            let found = found.each_ref().map(Option::as_deref);
            assert_eq!(found, [running, highest], "{version} {release:?}");
        }
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
