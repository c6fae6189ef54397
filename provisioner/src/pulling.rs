//! Pulling as the cluster does: on OpenShift, what the provisioner pulls itself follows the same objects as the nodes.
//!
//! ```text
//!  ImageDigestMirrorSets, ImageTagMirrorSets, ImageContentSourcePolicies ─┐
//!  Image "cluster" ── ConfigMap with authorities of registries ───────────┤ watches   configuration
//!  Proxy "cluster" ── ConfigMap with authorities of everything ───────────┼─────────> (pure) ──> Access of every source
//!  Secret openshift-config/pull-secret ───────────────────────────────────┘                └──> problems: log, metric, events
//! ```
//!
//! Only what is served is watched; definitions that come later are told by the watch of definitions. What cannot be read
//! is told, and everything else goes on without it. What flags say comes first, then what the Bundle says, then this.

mod configuration;
mod follow;
mod mirrors;
mod watch;

use std::{sync::Arc, time::Duration};

use futures::{Stream, stream};
use prometheus_client::encoding::EncodeLabelValue;
use tokio::{sync::watch as channel, time::timeout};
use tracing::warn;
use unpacker::{Access, web::Proxies};

pub use configuration::Configuration;
pub(crate) use follow::run;

/// How long a fetch waits for the first word of the cluster; a watch that hangs must not hold everything up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where something about pulling is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelValue)]
pub enum Source {
    /// `config.openshift.io/v1`.
    ImageDigestMirrorSet,
    /// `config.openshift.io/v1`.
    ImageTagMirrorSet,
    /// `operator.openshift.io/v1alpha1`.
    ImageContentSourcePolicy,
    /// `config.openshift.io/v1`, the one named `cluster`.
    Image,
    /// `config.openshift.io/v1`, the one named `cluster`.
    Proxy,
    /// The Secret that nodes pull with.
    PullSecret,
    /// The ConfigMap that the Image names.
    ImageAuthorities,
    /// The ConfigMap that the Proxy names.
    ProxyAuthorities,
}

impl Source {
    /// All of them.
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
}

/// Something that cannot be heeded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it is.
    pub source: Source,
    /// The object; empty if it is the only one, or all of them.
    pub object: String,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Problem {
    fn of(source: Source, object: &str, text: impl Into<String>) -> Self {
        Self {
            source,
            object: object.to_owned(),
            text: text.into(),
        }
    }
}

/// The latest that the cluster has said about pulling.
pub struct Pulling {
    state: channel::Sender<State>,
    /// Whether this process has proxies of its own.
    has_proxies: bool,
}

#[derive(Debug, Clone, Default)]
struct State {
    configuration: Arc<Configuration>,
    /// Whether the cluster is still to be heard.
    waits: bool,
}

impl Pulling {
    /// With what a source is reached: what was given, and what the cluster adds. Waits until the cluster was heard.
    pub async fn access(&self, given: &Access) -> Access {
        let mut state = self.state.subscribe();
        let heard = timeout(PATIENCE, state.wait_for(|state| !state.waits)).await;
        if heard.is_err() {
            warn!("pulling without knowing all that the cluster says about it: it does not answer");
        }
        let configuration = Arc::clone(&self.state.borrow().configuration);
        let mut access = configuration.add_to(given.clone());
        // What the environment names was given as flags are.
        if self.has_proxies {
            access.proxies.clone_from(&given.proxies);
        }
        access
    }

    /// Tells of every change.
    pub(crate) fn changes(&self) -> impl Stream<Item = ()> + Send + use<> {
        let state = self.state.subscribe();
        stream::unfold(state, |mut state| async {
            state.changed().await.ok()?;
            Some(((), state))
        })
    }

    /// From now on the cluster is to be heard before anything is pulled.
    pub(crate) fn begin(&self) {
        self.state.send_modify(|state| state.waits = true);
    }

    /// Notes what the cluster says. Whether it says something new.
    fn note(&self, configuration: Configuration, waits: bool) -> bool {
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

impl Default for Pulling {
    fn default() -> Self {
        Self {
            state: channel::Sender::default(),
            has_proxies: Proxies::from_environment().names_any(),
        }
    }
}
