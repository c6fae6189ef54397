//! Connection of a command to its cluster.
//!
//! Commands that need no cluster read no kubeconfig, start no runtime and send no requests.

mod api_error;
pub(crate) mod content_service;
pub(crate) mod desired;
mod kubeconfig;
pub(crate) mod live;
pub(crate) mod revisions;
pub(crate) mod watch;

use std::{fmt::Display, future::Future};

use anyhow::{Context, anyhow, bail};
use apply::revision::{
    Revision,
    store::{self, Reference, Store},
};
use futures::{StreamExt as _, stream};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{Patch, PatchParams},
};
use manifests::api::{
    bundle::Bundle,
    bundle_instance::{BundleInstance, RevisionStatus},
    owner::InstanceOwner,
    revision::RevisionDetails,
};
use serde_json::Value;

use crate::{
    ExitStatus,
    args::ClusterArgs,
    output::{interrupt, progress},
};

/// Field manager of the changes to BundleInstances.
pub(crate) const FIELD_MANAGER: &str = "rukpak-cli";

/// Maximum number of attempts of a patch that conflicts with changes by other clients.
pub(crate) const MAX_ATTEMPTS: usize = 10;

/// Maximum number of concurrent requests.
const MAX_CONCURRENT_REQUESTS: usize = 8;

/// A cluster, with a client and its configuration.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) config: Config,
    /// Namespace of the provisioner.
    pub(crate) system_namespace: String,
}

/// Runs a future that uses the cluster. A signal cancels it and calls `interrupted`, which reports the state of the
/// command.
pub(crate) fn run(
    args: &ClusterArgs,
    interrupted: impl FnOnce(),
    work: impl AsyncFnOnce(&Cluster) -> anyhow::Result<ExitStatus>,
) -> anyhow::Result<ExitStatus> {
    block_on(interrupted, async {
        let cluster = Cluster::connect(args).await?;
        work(&cluster).await
    })
}

/// Runs a future, which connects to the cluster itself. Signals are handled as in [`run`].
pub(crate) fn block_on(
    interrupted: impl FnOnce(),
    work: impl Future<Output = anyhow::Result<ExitStatus>>,
) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to create the Kubernetes client")?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = work => result,
            code = interrupt::wait_for_signal() => {
                progress::clear();
                interrupted();
                Ok(ExitStatus::Code(code))
            }
        }
    });
    progress::clear();
    // A credential plugin or a name resolver may hang in a thread; the process does not wait for it.
    runtime.shutdown_background();
    result
}

impl Cluster {
    /// Reads the kubeconfig, and creates a client with its credentials.
    pub(crate) async fn connect(args: &ClusterArgs) -> anyhow::Result<Self> {
        let problem = "failed to prepare the connection";
        let config = kubeconfig::read(args)?;
        let settings = config.clone();
        // A credential plugin blocks its thread, and may wait for the user.
        let client = tokio::task::spawn_blocking(|| Client::try_from(settings)).await;
        let client = client
            .context(problem)?
            .map_err(|error| api_error::explain(problem, &error, ""))?;
        Ok(Self {
            client,
            config,
            system_namespace: args.system_namespace.clone(),
        })
    }

    /// Reads the record of a revision.
    ///
    /// # Errors
    /// Returns an error if the record is missing, altered, or the record of another BundleInstance.
    pub(crate) async fn record(
        &self,
        instance: &BundleInstance,
        revision: &RevisionStatus,
    ) -> Result<Revision<RevisionDetails>, store::Error> {
        let owner = InstanceOwner {
            name: instance.name_any(),
            uid: instance.uid().unwrap_or_default(),
        };
        let store = Store {
            client: &self.client,
            namespace: &self.system_namespace,
            owner: &owner,
        };
        let reference = Reference {
            number: revision.number,
            parts: revision.parts,
            checksum: &revision.checksum,
        };
        store.read(reference).await
    }

    pub(crate) fn instances(&self) -> Api<BundleInstance> {
        Api::all(self.client.clone())
    }

    pub(crate) fn bundles(&self) -> Api<Bundle> {
        Api::all(self.client.clone())
    }

    /// Describes the error of a request: the failed action, the reason and the remedy.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the caller has no use for the error afterwards"
    )]
    pub(crate) fn explain(&self, doing: impl Display, error: kube::Error) -> anyhow::Error {
        api_error::explain(doing, &error, &self.config.cluster_url.to_string())
    }

    /// Describes the error of reading a record, as [`explain`](Self::explain) does if a request failed.
    pub(crate) fn explain_record(&self, doing: impl Display, error: store::Error) -> anyhow::Error {
        match error {
            store::Error::Request {
                verb,
                namespace,
                name,
                source,
            } => self.explain(
                format!("{doing}: failed to {verb} Secret {namespace}/{name}"),
                *source,
            ),
            // The text of the source is a part of the message.
            error => anyhow!("{doing}: {error}"),
        }
    }

    /// Reads a BundleInstance; returns an error if it does not exist.
    pub(crate) async fn instance(&self, name: &str) -> anyhow::Result<BundleInstance> {
        let found = self.instances().get(name).await;
        found.map_err(|error| self.explain(format!("failed to read BundleInstance {name}"), error))
    }

    /// Reads a BundleInstance; `None` if it does not exist.
    pub(crate) async fn get_instance_opt(
        &self,
        name: &str,
    ) -> anyhow::Result<Option<BundleInstance>> {
        match self.instances().get(name).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if api_error::is_absent(&error) => Ok(None),
            Err(error) => Err(self.explain(format!("failed to read BundleInstance {name}"), error)),
        }
    }

    /// Patches a BundleInstance, and repeats that with its latest version while other clients change it. `patch` returns the
    /// patch of a version, which has to contain its resourceVersion, or `None` if that version needs no patch.
    pub(crate) async fn patch_instance(
        &self,
        mut instance: BundleInstance,
        doing: &str,
        patch: impl Fn(&BundleInstance) -> anyhow::Result<Option<Value>>,
    ) -> anyhow::Result<BundleInstance> {
        let name = instance.name_any();
        let params = PatchParams::apply(FIELD_MANAGER);
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 {
                instance = self.instance(&name).await?;
            }
            let Some(patch) = patch(&instance)? else {
                return Ok(instance);
            };
            let patched = self
                .instances()
                .patch(&name, &params, &Patch::Merge(patch))
                .await;
            match patched {
                Ok(changed) => return Ok(changed),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(self.explain(format!("{doing} {name}"), error)),
            }
        }
        bail!("too many concurrent changes to BundleInstance {name}; retry")
    }

    /// Reports whether the object does not exist, while its API is served.
    pub(crate) fn is_absent(error: &kube::Error) -> bool {
        api_error::is_absent(error)
    }
}

/// Sends requests concurrently, and returns their results in order.
pub(crate) async fn join<T>(requests: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let requests: Vec<_> = requests.collect();
    stream::iter(requests)
        .buffered(MAX_CONCURRENT_REQUESTS)
        .collect()
        .await
}

/// Waits for a future up to a limit, or without a limit if it is zero; `None` after the limit.
pub(crate) async fn with_timeout<T>(
    limit: std::time::Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    if limit.is_zero() {
        Some(work.await)
    } else {
        tokio::time::timeout(limit, work).await.ok()
    }
}
