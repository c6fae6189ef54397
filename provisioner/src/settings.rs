//! What the provisioner was told at its start.

use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr, time::Duration};

use manifests::{
    api::{bundle::Pull, install},
    yaml,
};

/// The values of a bundle's manifests, by default. The largest of a hundred real bundles has 53,000.
pub const MAX_VALUES: usize = 250_000;

/// Everything that flags decide and that more than one part needs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where Secrets, ConfigMaps and uploads live, and the provisioner itself.
    pub system_namespace: String,
    /// What contentURLs begin with: `https://core.rukpak-system.svc`.
    pub external_address: String,
    /// Kinds that a cluster may lack without harm, as `kind.group`, any version: `ServiceMonitor.monitoring.coreos.com`.
    pub optional_kinds: BTreeSet<String>,
    /// How much a bundle may hold.
    pub unpack: unpacker::Options,
    /// The limits of its manifests.
    pub manifests: yaml::Limits,
    /// With what every source is reached: authorities to believe, patience, mirrors. Credentials come from Secrets, for
    /// each source its own.
    pub access: unpacker::Access,
    /// Whether images are pulled as the cluster's nodes pull them, where it is an OpenShift.
    pub follow_openshift: bool,
    /// How often objects that nothing wakes are looked at again.
    pub resync: Duration,
    /// How many objects of one instance are applied at once.
    pub concurrency: usize,
    /// Whether the store survives the pod: uploads that are too large for the cluster need that.
    pub persistent_store: bool,
    /// How nodes pull images.
    pub jobs: Jobs,
    /// Of which namespaces CatalogSources count, the first ones first. Whoever may write there decides what is installed
    /// with the provisioner's rights.
    pub catalog_namespaces: Vec<String>,
    /// Who runs what CatalogSources declare.
    pub catalog_server: CatalogServer,
    /// How catalogs are served where no OLM does it; nothing if they are not.
    pub serving: Option<Serving>,
    /// Whether this is a part of OpenShift's release payload: then the cluster-version operator makes our ClusterOperators.
    pub release_payload: bool,
    /// What that payload says of its version.
    pub release: Option<String>,
}

/// Who runs what CatalogSources declare, and writes their status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogServer {
    /// OLM where its catalog-operator runs, else the provisioner.
    Auto,
    /// The provisioner.
    Own,
    /// OLM, whether it is seen or not.
    Olm,
}

// === impl Settings ===

impl Settings {
    /// Reports whether CatalogSources of a namespace count for platform operators.
    pub fn counts(&self, namespace: &str) -> bool {
        self.catalog_namespaces.iter().any(|it| it == namespace)
    }
}

/// How catalogs are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// Where this pod is reached.
    pub address: IpAddr,
    /// The ports for catalogs.
    pub ports: Ports,
    /// Of which namespaces catalogs are served. They feed nothing by that.
    pub namespaces: Namespaces,
    /// Whether each catalog has a pod of its own, and not only those that say how it has to be.
    pub pods: bool,
    /// How much the catalogs of one namespace may take, where they feed nothing.
    pub share: Share,
}

/// How much of what there is for serving catalogs those of one namespace may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// How many there may be.
    pub catalogs: usize,
    /// Bytes of the files that they are served from.
    pub bytes: u64,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            catalogs: 100,
            bytes: 1 << 30,
        }
    }
}

/// Ports, a catalog each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// Whichever is free.
    Any,
    /// From the first to the last one.
    Range {
        /// Not 0.
        first: u16,
        /// Not before the first.
        last: u16,
    },
}

/// Some namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// Every one.
    All,
    /// These.
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
            _ => Err("write FIRST-LAST, two ports from 1024 to 65535"),
        }
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("of this machine"),
            Self::Range { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

// === impl Namespaces ===

impl Namespaces {
    /// Reports whether this is one of them.
    pub fn has(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(some) => some.contains(namespace),
        }
    }
}

/// How nodes pull images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jobs {
    /// Who pulls for Bundles that do not say.
    pub pull: Pull,
    /// The image with the program `/unpack`.
    pub image: String,
    /// How that program gets to see a bundle's files.
    pub mode: Mode,
    /// How long a Job may take, the pulling included.
    pub deadline: Duration,
}

/// How the program gets to see a bundle's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As the version of the cluster allows.
    Auto,
    /// The bundle's image is a volume, read-only; nothing of it runs.
    ImageVolume,
    /// The program is copied into a container of the bundle's image.
    InitContainer,
}

/// The kinds that clusters may lack: monitoring, the console of OpenShift, the vertical autoscaler.
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
            optional_kinds: OPTIONAL_KINDS.iter().map(|&kind| kind.to_owned()).collect(),
            unpack: unpacker::Options::default(),
            manifests: yaml::Limits::with_values(MAX_VALUES),
            access: unpacker::Access::default(),
            follow_openshift: true,
            resync: Duration::from_secs(600),
            concurrency: 16,
            persistent_store: false,
            jobs: Jobs::default(),
            catalog_namespaces: Vec::new(),
            catalog_server: CatalogServer::Auto,
            serving: None,
            release_payload: false,
            release: None,
        }
    }
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            pull: Pull::Registry,
            image: install::Options::default().image,
            mode: Mode::Auto,
            deadline: Duration::from_secs(600),
        }
    }
}
