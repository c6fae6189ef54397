//! A real Kubernetes control plane for the tests: etcd, kube-apiserver and kube-controller-manager, built from their Go
//! modules, started on free ports of this machine within seconds, and gone without a trace when the test is over.
//!
//! ```text
//!  test binary ─── Cluster ──┬── etcd ◄──── kube-apiserver ◄──── kube-controller-manager
//!       │                    │               ▲
//!       │ client(), apply()  └── folder: keys, kubeconfig, logs, data
//!       └────────────────────────────────────┘
//!  reaper (sh): sees the test binary end, however it ends; kills those three, removes the folder
//! ```
//!
//! One control plane serves a whole test binary; a test works in a namespace of its own. A test that changes what all
//! others see takes one out of a [`Pool`]:
//!
//! ```no_run
//! use cluster::{Cluster, DryRun};
//! use serde_json::json;
//!
//! # async fn test() -> anyhow::Result<()> {
//! let cluster = Cluster::shared().await?;
//! let namespace = cluster.temp_namespace("greeting").await?;
//! let config_map = json!({
//!     "apiVersion": "v1",
//!     "kind": "ConfigMap",
//!     "metadata": {"name": "greeting", "namespace": namespace.name()},
//!     "data": {"text": "hello"},
//! });
//! cluster.apply(&config_map, DryRun::No).await?;
//! # Ok(())
//! # }
//! ```

mod control_plane;
mod error;
mod faults;
mod keys;
pub mod machine;
mod namespace;
pub mod node;
mod objects;
mod pool;
mod run;
mod tools;
pub mod wait;
pub mod worker;

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use kube::{Client, Config};
use tokio::sync::OnceCell;

use crate::control_plane::ControlPlane;
use crate::objects::Kinds;
use crate::run::Run;
use crate::tools::Tools;

pub use crate::error::{Error, Result};
pub use crate::faults::Program;
pub use crate::namespace::TempNamespace;
pub use crate::objects::DryRun;
pub use crate::pool::{Lease, Pool};

/// Names a kubeconfig file, of a cluster to use instead of starting one.
pub const KUBECONFIG: &str = "RUKPAK_TEST_KUBECONFIG";

/// The file of a cluster's folder that has the requests of an [`Options::audit_policy`].
pub const AUDIT_LOG: &str = "audit.log";

/// A Kubernetes cluster to test against. One that was started here ends when this is dropped, or else with the process.
#[derive(Debug)]
pub struct Cluster {
    config: Config,
    kubeconfig: PathBuf,
    kinds: Kinds,
    controllers: Controllers,
    /// The folder with the programs, where this cluster was started here.
    tools: Option<PathBuf>,
    programs: Vec<PathBuf>,
    run: Option<Run>,
    /// Where etcd listens, where it was started here.
    etcd: Option<SocketAddr>,
    /// Whether the stand-in node was made.
    node: OnceCell<()>,
    /// Whether a test has stopped or replaced a program.
    is_altered: AtomicBool,
}

/// How to start a control plane.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the controllers run.
    pub controllers: Controllers,
    /// More flags for the API server. They come last, so they also override.
    pub apiserver_flags: Vec<String>,
    /// An audit policy. The API server logs the requests that the policy names into the file [`AUDIT_LOG`] of the
    /// cluster's folder; without a policy, none.
    pub audit_policy: Option<&'static str>,
    /// Whether pods run.
    pub nodes: Nodes,
}

/// Whether a node runs pods: a kubelet, containerd, kube-proxy, a scheduler and DNS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// There is none.
    #[default]
    None,
    /// There is one, see [`worker`]. Only on a [`machine`] of its own.
    One,
}

/// Whether kube-controller-manager runs: service accounts, garbage collection and the end of a namespace are its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// It runs, unless the folder named by `KUBEBUILDER_ASSETS` has none.
    #[default]
    On,
    /// It does not run.
    Off,
}

// === impl Options ===

impl Options {
    /// Returns the default options with or without controllers, and with an audit policy or without.
    pub const fn new(controllers: Controllers, audit_policy: Option<&'static str>) -> Self {
        Self {
            controllers,
            apiserver_flags: Vec::new(),
            audit_policy,
            nodes: Nodes::None,
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// The one cluster of this test binary. Whoever asks first starts it.
    ///
    /// # Errors
    ///
    /// Fails as [`Cluster::start`] does, and then for every caller: a second try would fail the same way, later.
    pub async fn shared() -> Result<&'static Self, &'static Error> {
        static SHARED: OnceCell<Result<Cluster>> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await.as_ref()
    }

    /// Starts a cluster with the default options, or uses the one that `RUKPAK_TEST_KUBECONFIG` names.
    ///
    /// # Errors
    ///
    /// Fails when the control plane cannot be built, one of its processes dies, or it is not ready in time.
    pub async fn start() -> Result<Self> {
        match env::var_os(KUBECONFIG).filter(|path| !path.is_empty()) {
            Some(path) => Self::existing(path.into()).await,
            None => Self::start_with(&Options::default()).await,
        }
    }

    /// Starts a control plane of its own, for a test that breaks it or needs other options.
    ///
    /// # Errors
    ///
    /// Fails when the control plane cannot be built, one of its processes dies, or it is not ready in time.
    pub async fn start_with(options: &Options) -> Result<Self> {
        let tools = Tools::find().await?;
        let mut plane = control_plane::start(&tools, options).await?;
        let mut programs = vec![tools.folder().to_owned()];
        if options.nodes == Nodes::One {
            programs.extend(worker::start(&mut plane).await?);
        }
        let ControlPlane {
            run,
            etcd,
            config,
            kubeconfig,
            controllers,
        } = plane;
        Ok(Self {
            config,
            kubeconfig,
            kinds: Kinds::default(),
            controllers,
            tools: Some(tools.folder().to_owned()),
            programs,
            run: Some(run),
            etcd: Some(etcd),
            node: OnceCell::new(),
            is_altered: AtomicBool::new(false),
        })
    }

    async fn existing(kubeconfig: PathBuf) -> Result<Self> {
        let config = control_plane::read_kubeconfig(&kubeconfig).await?;
        control_plane::client(&config)?
            .apiserver_version()
            .await
            .map_err(Error::api(format!(
                "reach the cluster of {}",
                kubeconfig.display()
            )))?;
        Ok(Self {
            config,
            kubeconfig,
            kinds: Kinds::default(),
            controllers: Controllers::On,
            tools: None,
            programs: Vec::new(),
            run: None,
            etcd: None,
            node: OnceCell::new(),
            is_altered: AtomicBool::new(false),
        })
    }

    /// A client with the administrator's rights. It works in the runtime it was made in only, so make one in each test.
    ///
    /// # Errors
    ///
    /// Fails when the kubeconfig's credentials cannot be used.
    pub fn client(&self) -> Result<Client> {
        control_plane::client(&self.config)
    }

    /// The configuration that [`Cluster::client`] uses, to make clients with less rights from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A kubeconfig file with the administrator's credentials, for kubectl and our own binaries.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder with kubectl and the other programs, unless this is a cluster that was not started here.
    pub fn tools(&self) -> Option<&Path> {
        self.tools.as_deref()
    }

    /// All folders with programs of this cluster, for a `PATH`: where there is a node, also those with `ctr` and the like.
    pub fn programs(&self) -> Vec<PathBuf> {
        self.programs.clone()
    }

    /// The temporary folder with the logs of the control plane, unless this is a cluster that was not started here.
    pub fn folder(&self) -> Option<&Path> {
        self.run.as_ref().map(Run::folder)
    }

    /// Whether the controllers of Kubernetes run in this cluster.
    pub fn controllers(&self) -> Controllers {
        self.controllers
    }

    /// Returns whether a test has stopped or replaced a program of this cluster.
    pub(crate) fn is_altered(&self) -> bool {
        self.is_altered.load(Ordering::Relaxed)
    }
}
