//! Kubernetes and OpenShift versions of the cluster, and the check whether a bundle supports them.

mod verdict;

use std::time::{Duration, Instant};

use convert::bundle_info::BundleInfo;
use kube::Client;
use manifests::{
    api::bundle_instance::{BundleInstance, CheckMode, Constraint},
    openshift::{self, MaxOpenShiftVersion, Spelling},
    version::{self, KubeVersion, Version},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{sync::watch, time::timeout};

use apply::preflight::Findings;

use super::overrides::ContentDigests;
pub use manifests::openshift::ClusterRelease as OpenShift;

/// Lifetime of a cached version.
const CACHE_TTL: Duration = Duration::from_secs(60);
/// Timeout of one request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Versions of the cluster, queried on demand and cached.
pub struct Versions {
    client: Client,
    /// Version of the release payload, or `None` if it is a placeholder.
    release: Option<String>,
    kubernetes: Mutex<Option<(Instant, Version)>>,
    is_openshift: Mutex<Option<(Instant, bool)>>,
    changes: watch::Sender<u64>,
}

impl Versions {
    /// Returns an empty cache. `release` is the version of the release payload that this process is a part of.
    pub fn new(client: Client, release: Option<String>) -> Self {
        Self {
            client,
            release: release.filter(|release| !openshift::is_placeholder(release)),
            kubernetes: Mutex::default(),
            is_openshift: Mutex::default(),
            changes: watch::Sender::default(),
        }
    }

    /// Returns a watch that counts the changes, including potential ones.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Invalidates the cache: the cluster may be upgraded, or the API server has restarted.
    pub fn doubt(&self) {
        invalidate(&self.kubernetes);
        invalidate(&self.is_openshift);
        self.changes
            .send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    /// Returns the Kubernetes version of the API server.
    ///
    /// # Errors
    /// Returns an error if the API server does not respond, or its version is malformed.
    pub async fn kubernetes(&self) -> Result<KubeVersion, kube::Error> {
        let release = self.kubernetes_release().await?;
        Ok(KubeVersion::new(release.major, release.minor))
    }

    /// Returns the Kubernetes version of the API server with the patch release, without vendor suffixes (`-gke.100`,
    /// `+k3s1`).
    ///
    /// # Errors
    /// Returns an error if the API server does not respond, or its version is malformed.
    pub async fn kubernetes_release(&self) -> Result<Version, kube::Error> {
        if let Some(version) = cached(&self.kubernetes) {
            return Ok(version);
        }
        let info = with_timeout(self.client.apiserver_version()).await?;
        let version = read_kubernetes(&info.git_version, &info.major, &info.minor)
            .map_err(|error| kube::Error::Service(Box::new(error)))?;
        store(&self.kubernetes, version.clone());
        Ok(version)
    }

    /// Returns the release payload that this process is a part of.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Returns the OpenShift version of the ClusterVersion, or `None` if the cluster is not OpenShift.
    ///
    /// # Errors
    /// Returns an error if the API server does not respond.
    pub async fn openshift(&self) -> Result<Option<OpenShift>, kube::Error> {
        if !self.is_openshift().await? {
            return Ok(None);
        }
        let version = self
            .get("/apis/config.openshift.io/v1/clusterversions/version")
            .await?;
        let version = version.unwrap_or_default();
        Ok(Some(openshift_version(&version, self.release())))
    }

    /// Reports whether the cluster serves ClusterVersions, which identifies OpenShift.
    async fn is_openshift(&self) -> Result<bool, kube::Error> {
        if let Some(is_openshift) = cached(&self.is_openshift) {
            return Ok(is_openshift);
        }
        let group = self.get("/apis/config.openshift.io/v1").await?;
        let is_openshift = group
            .as_ref()
            .and_then(|group| group.get("resources")?.as_array())
            .into_iter()
            .flatten()
            .any(|resource| {
                resource
                    .get("name")
                    .is_some_and(|name| name == "clusterversions")
            });
        store(&self.is_openshift, is_openshift);
        Ok(is_openshift)
    }

    async fn get(&self, path: &str) -> Result<Option<Value>, kube::Error> {
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(kube::Error::HttpError)?;
        match with_timeout(self.client.request(request)).await {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the OpenShift version of the ClusterVersion. The payload of the next release restarts this process long before
/// the update is complete. Therefore the version of the payload is used only for a ClusterVersion without a version.
fn openshift_version(cluster_version: &Value, release: Option<&str>) -> OpenShift {
    let openshift_version = OpenShift::of_cluster_version(cluster_version);
    match release {
        Some(release) if openshift_version.max_release().is_none() => {
            OpenShift::of_release(release)
        }
        _ => openshift_version,
    }
}

/// Returns the effective max OpenShift version: that of the catalog, unless it is invalid and that of the bundle is valid.
/// `declared` is the text that the catalog declares.
pub fn that_counts(
    of_bundle: Option<MaxOpenShiftVersion>,
    declared: Option<&str>,
) -> Option<MaxOpenShiftVersion> {
    let of_catalog =
        declared.map(|text| MaxOpenShiftVersion::new(text, Spelling::CatalogProperties));
    match (of_catalog, of_bundle) {
        (Some(of_catalog), Some(of_bundle))
            if of_catalog.version.is_err() && of_bundle.version.is_ok() =>
        {
            Some(of_bundle)
        }
        (of_catalog, of_bundle) => of_catalog.or(of_bundle),
    }
}

/// A bundle to be installed.
pub struct Candidate<'a> {
    /// The spec decides whether violations block the installation. The status contains the installed bundle.
    pub instance: &'a BundleInstance,
    /// Digests that identify the content of the bundle.
    pub digests: ContentDigests<'a>,
    /// Constraints of the bundle.
    pub facts: &'a BundleInfo,
}

/// Compares the constraints of a bundle with the versions of the cluster.
///
/// # Errors
/// Returns an error if the API server does not respond; the check is retried.
pub async fn check(input: &Candidate<'_>, versions: &Versions) -> Result<Findings, kube::Error> {
    let preflight = input.instance.spec.preflight.as_ref();
    if preflight.is_some_and(|preflight| preflight.cluster_version == CheckMode::Off) {
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
    // Versions are queried only for declared constraints, which most bundles lack.
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

/// Reports whether the content of the candidate is installed.
fn is_installed(input: &Candidate<'_>) -> bool {
    let status = input.instance.status.as_ref();
    let status = status.filter(|status| status.installed_bundle_name.is_some());
    status.is_some_and(|status| {
        status.content_digest.is_some() && ContentDigests::of_installed(status) == input.digests
    })
}

/// Parses `gitVersion`. API servers that were built manually have no usable one, and `major` and `minor` are used.
fn read_kubernetes(git: &str, major: &str, minor: &str) -> Result<Version, version::Error> {
    let bare = git.split(['-', '+']).next().unwrap_or_default();
    match version::parse_lenient(bare) {
        Ok(version) if version.major > 0 => Ok(version),
        _ => {
            let version: KubeVersion = format!("{major}.{minor}").parse()?;
            Ok(Version::new(version.major, version.minor, 0))
        }
    }
}

async fn with_timeout<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    timeout(REQUEST_TIMEOUT, request)
        .await
        .map_err(|elapsed| kube::Error::Service(Box::new(elapsed)))?
}

fn cached<T: Clone>(cache: &Mutex<Option<(Instant, T)>>) -> Option<T> {
    let cache = cache.lock();
    cache
        .as_ref()
        .filter(|(since, _)| since.elapsed() < CACHE_TTL)
        .map(|(_, value)| value.clone())
}

fn invalidate<T>(cache: &Mutex<Option<(Instant, T)>>) {
    *cache.lock() = None;
}

fn store<T>(cache: &Mutex<Option<(Instant, T)>>, value: T) {
    *cache.lock() = Some((Instant::now(), value));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn catalog_value_that_names_a_release_precedes_the_bundle() {
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
            assert_rows!(counts.map(|declared| declared.text()).as_deref() => expected, "{bundle:?} {catalog:?}");
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
            // The former version is still in the history.
            (&during, Some("4.12.9"), Some("4.12"), Some("4.13")),
            (&during, None, Some("4.12"), Some("4.13")),
            (&Value::Null, Some("4.13.0"), Some("4.13"), Some("4.13")),
            (&Value::Null, None, None, None),
            (&odd, Some("4.13.0"), None, Some("4.13")),
        ] {
            let openshift_version = openshift_version(version, release);
            let found = [openshift_version.running, openshift_version.max_release()]
                .map(|version| version.map(|version| version.to_string()));
            assert_rows!(found.each_ref().map(Option::as_deref) => [running, highest], "{version} {release:?}");
        }
    }

    #[test]
    fn server_version_formats_are_parsed() {
        assert_each!(|git, major, minor, version| read_kubernetes(git, major, minor).ok() => version;
            "v1.36.3", "1", "36" => Some(Version::new(1, 36, 3));
            "v1.27.4-gke.900", "1", "27+" => Some(Version::new(1, 27, 4));
            "v1.30.1+k3s1", "1", "30" => Some(Version::new(1, 30, 1));
            "v0.0.0-master+$Format:%H$", "1", "36+" => Some(Version::new(1, 36, 0));
            "", "1", "29" => Some(Version::new(1, 29, 0));
            "v0.0.0-master", "", "" => None;
        );
    }
}
