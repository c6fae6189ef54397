//! Pull configuration of the cluster: on OpenShift, the provisioner pulls with the same settings as the nodes.
//!
//! ```text
//!  ImageDigestMirrorSets, ImageTagMirrorSets, ImageContentSourcePolicies ─┐
//!  Image "cluster" ── ConfigMap with CAs of registries ───────────────────┤ watches parse
//!  Proxy "cluster" ── ConfigMap with CAs for all servers ─────────────────┼──────> (pure) ──> Access of every source
//!  Secret openshift-config/pull-secret ───────────────────────────────────┘             └──> problems: log, metric, events
//! ```
//!
//! Only served kinds are watched; kinds that are added later are detected by the watch of CRDs. An unreadable object is
//! reported and ignored. Flags take precedence over settings of the Bundle, and those over the pull configuration.

mod controller;
mod mirrors;
mod parse;
mod watch;

use std::{sync::Arc, time::Duration};

use futures::{Stream, stream};
use tokio::{sync::watch as channel, time::timeout};
use tracing::warn;
use unpacker::{Access, http_client::Proxies};

pub(crate) use controller::PullConfigController;
pub use parse::PullSettings;

/// Maximum time that a fetch waits for the initial pull configuration. A hanging watch must not block all fetches.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// Object or kind that is part of the pull configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// ImageDigestMirrorSets of `config.openshift.io/v1`.
    ImageDigestMirrorSet,
    /// ImageTagMirrorSets of `config.openshift.io/v1`.
    ImageTagMirrorSet,
    /// ImageContentSourcePolicies of `operator.openshift.io/v1alpha1`.
    ImageContentSourcePolicy,
    /// Image `cluster` of `config.openshift.io/v1`.
    Image,
    /// Proxy `cluster` of `config.openshift.io/v1`.
    Proxy,
    /// Pull secret of the nodes.
    PullSecret,
    /// ConfigMap with CA certificates that the Image references.
    ImageAuthorities,
    /// ConfigMap with CA certificates that the Proxy references.
    ProxyAuthorities,
}

impl Source {
    /// All sources of the pull configuration.
    pub const ALL: [Self; 8] = [
        Self::ImageDigestMirrorSet,
        Self::ImageTagMirrorSet,
        Self::ImageContentSourcePolicy,
        Self::Image,
        Self::Proxy,
        Self::PullSecret,
        Self::ImageAuthorities,
        Self::ProxyAuthorities,
    ];

    /// Returns the label of the source in metrics.
    fn label(self) -> &'static str {
        match self {
            Self::ImageDigestMirrorSet => "ImageDigestMirrorSet",
            Self::ImageTagMirrorSet => "ImageTagMirrorSet",
            Self::ImageContentSourcePolicy => "ImageContentSourcePolicy",
            Self::Image => "Image",
            Self::Proxy => "Proxy",
            Self::PullSecret => "PullSecret",
            Self::ImageAuthorities => "ImageAuthorities",
            Self::ProxyAuthorities => "ProxyAuthorities",
        }
    }
}

/// Part of the pull configuration that is invalid or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// Source of the problem.
    pub source: Source,
    /// Name of the object; empty if the source has only one object, or if all objects are affected.
    pub object: String,
    /// Problem and remedy.
    pub text: String,
}

impl ConfigProblem {
    fn new(source: Source, object: &str, text: impl Into<String>) -> Self {
        Self {
            source,
            object: object.to_owned(),
            text: text.into(),
        }
    }
}

/// Latest pull configuration of the cluster.
pub struct PullConfig {
    state: channel::Sender<State>,
    /// True if the environment of this process configures proxies.
    has_proxies: bool,
}

#[derive(Debug, Clone, Default)]
struct State {
    configuration: Arc<PullSettings>,
    /// True while the initial configuration is incomplete.
    waits: bool,
}

impl PullConfig {
    /// Returns the given settings, extended by those of the cluster. Waits until the initial configuration is complete.
    pub async fn merged_access(&self, given: &Access) -> Access {
        let mut state = self.state.subscribe();
        let synced = timeout(SYNC_TIMEOUT, state.wait_for(|state| !state.waits)).await;
        if synced.is_err() {
            warn!("pull configuration incomplete: the API server does not respond");
        }
        let configuration = Arc::clone(&self.state.borrow().configuration);
        let mut access = configuration.add_to(given.clone());
        // Proxies from the environment take precedence like flags.
        if self.has_proxies {
            access.proxies.clone_from(&given.proxies);
        }
        access
    }

    /// Returns a stream of the changes.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let state = self.state.subscribe();
        stream::unfold(state, |mut state| async {
            state.changed().await.ok()?;
            Some(((), state))
        })
    }

    /// Makes pulls wait until the initial configuration is complete.
    pub(crate) fn require_sync(&self) {
        self.state.send_modify(|state| state.waits = true);
    }

    /// Records the configuration. Reports whether it has changed.
    fn record(&self, configuration: PullSettings, waits: bool) -> bool {
        let mut is_new = false;
        self.state.send_if_modified(|state| {
            is_new = *state.configuration != configuration;
            let changed = is_new || state.waits != waits;
            if is_new {
                state.configuration = Arc::new(configuration);
            }
            state.waits = waits;
            changed
        });
        is_new
    }
}

impl Default for PullConfig {
    fn default() -> Self {
        Self {
            state: channel::Sender::default(),
            has_proxies: Proxies::from_environment().names_any(),
        }
    }
}
