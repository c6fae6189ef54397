//! A real Kubernetes control plane for the tests: etcd, kube-apiserver and kube-controller-manager, built from their Go
//! modules, started on free ports of this machine within seconds, and removed completely after the tests.
//!
//! ```text
//!  test binary ─── Cluster ──┬── etcd ◄──── kube-apiserver ◄──── kube-controller-manager
//!       │                    │               ▲
//!       │ client(), apply()  └── directory: keys, kubeconfig, logs, data
//!       └────────────────────────────────────┘
//!  reaper (sh): waits for the end of the test binary, also by a signal; kills the three, removes the directory
//! ```
//!
//! One control plane serves a whole test binary; each test works in its own namespace. A test that changes
//! cluster-scoped objects takes a control plane from a [`Pool`]:
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

mod binaries;
mod control_plane;
mod error;
pub mod fake_node;
mod faults;
mod namespace;
pub mod node;
mod objects;
mod permissions;
mod pki;
mod pool;
mod processes;
pub mod sandbox;
pub mod wait;

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use kube::{Client, Config};
use tokio::sync::OnceCell;

use crate::binaries::Tools;
use crate::objects::Kinds;
use crate::processes::Run;

pub use crate::error::{Error, Result};
pub use crate::faults::Program;
pub use crate::namespace::TempNamespace;
pub use crate::objects::DryRun;
pub use crate::pool::{Lease, Pool};

/// The environment variable with the kubeconfig file of a cluster to use instead of starting one.
pub const KUBECONFIG: &str = "RUKPAK_TEST_KUBECONFIG";

/// The file in a cluster's directory with the requests that an [`Options::audit_policy`] names.
pub const AUDIT_LOG: &str = "audit.log";

/// A Kubernetes cluster for tests. A cluster that this process started ends when the value is dropped, or with the process.
#[derive(Debug)]
pub struct Cluster {
    config: Config,
    kubeconfig: PathBuf,
    kinds: Kinds,
    /// The directories with programs, first the one with kubectl; none if another process started the cluster.
    programs: Vec<PathBuf>,
    run: Option<Run>,
    /// The address of etcd; `None` if another process started the cluster.
    etcd: Option<SocketAddr>,
    /// Whether the stand-in node was created.
    node: OnceCell<()>,
    /// Whether a test has stopped or replaced a program.
    is_altered: AtomicBool,
}

/// The options of a new control plane.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the controllers run.
    pub controllers: Controllers,
    /// More flags for the API server. They are the last ones, so they override others.
    pub apiserver_flags: Vec<String>,
    /// An audit policy. The API server logs the requests that the policy names into the file [`AUDIT_LOG`] of the
    /// cluster's directory; without a policy, none.
    pub audit_policy: Option<&'static str>,
    /// Whether pods run.
    pub nodes: Nodes,
}

/// Whether a node runs pods: a kubelet, containerd, kube-proxy, a scheduler and DNS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nodes {
    /// The cluster has no node.
    #[default]
    None,
    /// The cluster has one node, see [`worker`]. Requires a [`machine`].
    One,
}

/// Whether kube-controller-manager runs: it creates service accounts, collects garbage and deletes namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// The controllers run, unless the directory named by `KUBEBUILDER_ASSETS` lacks the program.
    #[default]
    On,
    /// The controllers do not run.
    Off,
}

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

impl Cluster {
    /// Returns the cluster of this test binary. The first call starts it.
    ///
    /// # Errors
    ///
    /// Returns the error of [`Cluster::start`] to every caller: a second attempt would fail in the same way.
    pub async fn shared() -> Result<&'static Self, &'static Error> {
        static SHARED: OnceCell<Result<Cluster>> = OnceCell::const_new();
        SHARED.get_or_init(Self::start).await.as_ref()
    }

    /// Starts a cluster with the default options, or uses the one that `RUKPAK_TEST_KUBECONFIG` names.
    pub async fn start() -> Result<Self> {
        match env::var_os(KUBECONFIG).filter(|path| !path.is_empty()) {
            Some(path) => Self::existing(path.into()).await,
            None => Self::start_with(&Options::default()).await,
        }
    }

    /// Starts a separate control plane, for a test that breaks it or needs other options.
    pub async fn start_with(options: &Options) -> Result<Self> {
        let tools = Tools::find().await?;
        let mut plane = control_plane::start(&tools, options).await?;
        let mut programs = vec![tools.dir().to_owned()];
        if options.nodes == Nodes::One {
            programs.extend(node::start(&mut plane).await?);
        }
        Ok(Self {
            programs,
            run: Some(plane.run),
            etcd: Some(plane.etcd),
            ..Self::new(plane.config, plane.kubeconfig)
        })
    }

    /// Returns a cluster that another process started.
    fn new(config: Config, kubeconfig: PathBuf) -> Self {
        Self {
            config,
            kubeconfig,
            kinds: Kinds::default(),
            programs: Vec::new(),
            run: None,
            etcd: None,
            node: OnceCell::new(),
            is_altered: AtomicBool::new(false),
        }
    }

    async fn existing(kubeconfig: PathBuf) -> Result<Self> {
        let config = control_plane::read_kubeconfig(&kubeconfig).await?;
        let version = control_plane::client(&config)?.apiserver_version().await;
        let doing = format!("reach the cluster of {}", kubeconfig.display());
        version.map_err(Error::api(doing))?;
        Ok(Self::new(config, kubeconfig))
    }

    /// Returns a client with cluster-admin permissions. A client works only in the runtime that created it, so each test needs
    /// its own.
    pub fn client(&self) -> Result<Client> {
        control_plane::client(&self.config)
    }

    /// Returns the configuration of [`Cluster::client`], for clients with fewer permissions.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns a kubeconfig file with cluster-admin credentials, for kubectl and the project's binaries.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the directory with kubectl and the other programs; `None` if another process started the cluster.
    pub fn tools(&self) -> Option<&Path> {
        self.programs.first().map(PathBuf::as_path)
    }

    /// Returns all directories with programs of this cluster, for a `PATH`; with a node, also those with programs like `ctr`.
    pub fn programs(&self) -> Vec<PathBuf> {
        self.programs.clone()
    }

    /// Returns the temporary directory with the control plane's logs; `None` if another process started the cluster.
    pub fn dir(&self) -> Option<&Path> {
        self.run.as_ref().map(Run::dir)
    }

    pub(crate) fn is_altered(&self) -> bool {
        self.is_altered.load(Ordering::Relaxed)
    }
}
