//! A namespace for the duration of a test.

use std::fmt;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Config, ResourceExt};

use crate::{Cluster, Error, Result, control_plane};

/// The namespace of one test. Dropping the value requests the deletion and does not wait for it.
#[derive(Debug)]
pub struct TempNamespace {
    name: String,
    config: Config,
    deleted: bool,
}

impl Cluster {
    /// Creates a namespace with a unique name that starts with `prefix`.
    pub async fn temp_namespace(&self, prefix: &str) -> Result<TempNamespace> {
        let mut namespace = Namespace::default();
        namespace.metadata.generate_name = Some(format!("{prefix}-"));
        let api: Api<Namespace> = Api::all(self.client()?);
        let created = api.create(&PostParams::default(), &namespace).await;
        let created = created.map_err(Error::api(format!("create a namespace {prefix}-…")))?;
        Ok(TempNamespace {
            name: created.name_any(),
            config: self.config().clone(),
            deleted: false,
        })
    }
}

impl TempNamespace {
    /// Returns the name of the namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests the deletion and returns its error, which a drop ignores.
    pub async fn delete(mut self) -> Result<()> {
        self.deleted = true;
        delete(&self.config, &self.name).await
    }
}

impl fmt::Display for TempNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Drop for TempNamespace {
    fn drop(&mut self) {
        if self.deleted {
            return;
        }
        // The test's runtime is busy with this drop, so the request needs another runtime in another thread.
        let delete = || delete_in_own_runtime(&self.config, &self.name);
        let outcome = std::thread::scope(|scope| scope.spawn(delete).join());
        if !matches!(outcome, Ok(Ok(()))) {
            eprintln!("cluster: failed to delete the namespace {}", self.name);
        }
    }
}

async fn delete(config: &Config, name: &str) -> Result<()> {
    let api: Api<Namespace> = Api::all(control_plane::client(config)?);
    let deleted = api.delete(name, &DeleteParams::default()).await;
    let doing = format!("delete the namespace {name}");
    deleted.map(drop).map_err(Error::api(doing))
}

fn delete_in_own_runtime(config: &Config, name: &str) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::io("start a runtime"))?
        .block_on(delete(config, name))
}
