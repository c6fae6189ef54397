//! Settings of the provisioner, derived from its flags.

use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr, time::Duration};

use manifests::{
    api::{bundle::PullMode, install},
    yaml,
};

/// Default maximum number of values in the manifests of a bundle. The largest of a hundred real bundles has 53,000.
pub const MAX_VALUES: usize = 250_000;

/// Settings of the flags that several modules need.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Namespace of the provisioner, with its Secrets, ConfigMaps and uploads.
    pub system_namespace: String,
    /// Prefix of contentURLs: `https://core.rukpak-system.svc`.
    pub external_address: String,
    /// Address to which the pods of unpack Jobs send content and their tokens: `https://core.rukpak-system.svc`.
    pub content_address: String,
    /// Kinds that the cluster need not serve, as `kind.group` in any version: `ServiceMonitor.monitoring.coreos.com`.
    pub optional_kinds: BTreeSet<String>,
    /// Options and limits for unpacking bundles.
    pub unpack: unpacker::Options,
    /// Limits of the manifests of a bundle.
    pub manifests: yaml::Limits,
    /// Access that applies to every source: CAs, timeouts and mirrors. Credentials come from the Secret of each source.
    pub access: unpacker::Access,
    /// True if images are pulled with the pull configuration of the nodes, on OpenShift.
    pub follow_openshift: bool,
    /// Resync interval for objects without events.
    pub resync: Duration,
    /// Maximum number of objects of one instance that are applied concurrently.
    pub concurrency: usize,
    /// True if the store outlives the pod, which uploads that are too large for the cluster require.
    pub persistent_store: bool,
    /// Settings of unpack Jobs.
    pub jobs: UnpackJobs,
    /// Namespaces whose CatalogSources are available to platform operators, in order of preference. A user who may write
    /// there decides what is installed with the permissions of the provisioner.
    pub catalog_namespaces: Vec<String>,
    /// Component that serves CatalogSources.
    pub catalog_server: CatalogServer,
    /// Settings for serving catalogs without OLM. `None` disables it.
    pub serving: Option<Serving>,
    /// True if this process is a part of the OpenShift release payload, and the cluster-version operator creates the
    /// ClusterOperators.
    pub release_payload: bool,
    /// Version of that payload, if any.
    pub release: Option<String>,
}

/// Component that serves CatalogSources and writes their status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogServer {
    /// OLM if its catalog-operator runs, otherwise the provisioner.
    Auto,
    /// The provisioner, even if OLM runs.
    Own,
    /// OLM, even if it is not detected.
    Olm,
}

// === impl Settings ===

impl Settings {
    /// Reports whether CatalogSources of a namespace are available to platform operators.
    pub fn is_selectable_namespace(&self, namespace: &str) -> bool {
        self.catalog_namespaces
            .iter()
            .any(|selected| selected == namespace)
    }
}

/// Settings for serving catalogs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// Address of this pod for clients.
    pub address: IpAddr,
    /// Ports of the catalogs.
    pub ports: Ports,
    /// Namespaces whose catalogs are served. That does not make them available to platform operators.
    pub namespaces: Namespaces,
    /// True if each catalog is served from its own pod, and not only catalogs that configure their pod.
    pub pods: bool,
    /// Quota of each namespace whose catalogs are not available to platform operators.
    pub share: NamespaceQuota,
}

/// Quota of the served catalogs of one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceQuota {
    /// Maximum number of catalogs.
    pub catalogs: usize,
    /// Maximum total size of the files that they are served from, in bytes.
    pub bytes: u64,
}

impl Default for NamespaceQuota {
    fn default() -> Self {
        Self {
            catalogs: 100,
            bytes: 1 << 30,
        }
    }
}

/// Ports for catalogs, one per catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Any free port.
    Any,
    /// Ports of a range, both ends included.
    Range {
        /// First port, which is not 0.
        first: u16,
        /// Last port, which is not less than `first`.
        last: u16,
    },
}

/// Selection of namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// All namespaces of the cluster.
    All,
    /// Only these namespaces.
    Some(BTreeSet<String>),
}

// === impl Ports ===

impl FromStr for Ports {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let range = text.split_once('-');
        let range = range.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
        match range {
            Some((first, last)) if first >= 1024 && first <= last => {
                Ok(Self::Range { first, last })
            }
            _ => Err("use FIRST-LAST, two ports from 1024 to 65535"),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("the ephemeral port range of this machine"),
            Self::Range { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

// === impl Namespaces ===

impl Namespaces {
    /// Reports whether a namespace is selected.
    pub fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(some) => some.contains(namespace),
        }
    }
}

/// Settings of unpack Jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackJobs {
    /// Component that pulls images of Bundles without `pull`.
    pub pull: PullMode,
    /// Image with the program `/unpack`.
    pub image: String,
    /// Access of the program to the files of a bundle.
    pub mode: UnpackMode,
    /// Timeout of a Job, including the pull of the image.
    pub deadline: Duration,
}

/// Access of the unpack program to the files of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpackMode {
    /// Depends on the version of the cluster.
    Auto,
    /// The bundle image is mounted as a read-only volume. None of its programs run.
    ImageVolume,
    /// The program is copied into a container of the bundle image.
    InitContainer,
}

/// Default kinds that a cluster need not serve: monitoring, the console of OpenShift, the vertical autoscaler.
pub const OPTIONAL_KINDS: &[&str] = &[
    "ServiceMonitor.monitoring.coreos.com",
    "PodMonitor.monitoring.coreos.com",
    "PrometheusRule.monitoring.coreos.com",
    "ConsoleCLIDownload.console.openshift.io",
    "ConsoleExternalLogLink.console.openshift.io",
    "ConsoleLink.console.openshift.io",
    "ConsoleNotification.console.openshift.io",
    "ConsolePlugin.console.openshift.io",
    "ConsoleQuickStart.console.openshift.io",
    "ConsoleSample.console.openshift.io",
    "ConsoleYAMLSample.console.openshift.io",
    "VerticalPodAutoscaler.autoscaling.k8s.io",
    "VerticalPodAutoscalerCheckpoint.autoscaling.k8s.io",
];

impl Default for Settings {
    fn default() -> Self {
        Self {
            system_namespace: "rukpak-system".to_owned(),
            external_address: "https://core.rukpak-system.svc".to_owned(),
            content_address: "https://core.rukpak-system.svc".to_owned(),
            optional_kinds: OPTIONAL_KINDS.iter().map(|&kind| kind.to_owned()).collect(),
            unpack: unpacker::Options::default(),
            manifests: yaml::Limits::with_values(MAX_VALUES),
            access: unpacker::Access::default(),
            follow_openshift: true,
            resync: Duration::from_secs(600),
            concurrency: 16,
            persistent_store: false,
            jobs: UnpackJobs::default(),
            catalog_namespaces: Vec::new(),
            catalog_server: CatalogServer::Auto,
            serving: None,
            release_payload: false,
            release: None,
        }
    }
}

impl Default for UnpackJobs {
    fn default() -> Self {
        Self {
            pull: PullMode::Registry,
            image: install::Options::default().image,
            mode: UnpackMode::Auto,
            deadline: Duration::from_secs(600),
        }
    }
}
