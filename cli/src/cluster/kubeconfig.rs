//! Client configuration from kubeconfigs, by the rules of kubectl.

use std::{env, path::PathBuf, time::Duration};

use anyhow::{Context, anyhow, bail};
use http::{HeaderValue, header::USER_AGENT};
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use crate::args::ClusterArgs;

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the configuration that flags and environment variables select.
pub(super) async fn read(args: &ClusterArgs) -> anyhow::Result<Config> {
    let mut config = match files(args)? {
        Some(file) => {
            let options = KubeConfigOptions {
                context: args.context.clone(),
                cluster: args.cluster.clone(),
                user: args.user.clone(),
            };
            let contexts = contexts(&file);
            Config::from_custom_kubeconfig(file, &options)
                .await
                .map_err(|error| explain(error, &contexts))?
        }
        None => Config::incluster().map_err(|_| {
            anyhow!(
                "no kubeconfig found; set --kubeconfig or $KUBECONFIG, or create ~/.kube/config"
            )
        })?,
    };
    let agent = HeaderValue::from_static(concat!("rukpak/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let timeout = Some(args.request_timeout).filter(|timeout| !timeout.is_zero());
    config.read_timeout = timeout;
    config.write_timeout = timeout;
    // Idle time before a request does not count for the read timeout.
    config.reset_reader_on_write = true;
    if let Some(user) = &args.as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups =
            Some(args.as_groups.clone()).filter(|groups| !groups.is_empty());
    }
    Ok(config)
}

/// Reads and merges all kubeconfigs; `None` if no file exists.
fn files(args: &ClusterArgs) -> anyhow::Result<Option<Kubeconfig>> {
    if let Some(path) = &args.kubeconfig {
        let file = Kubeconfig::read_from(path);
        return Ok(Some(file.map_err(|error| explain(error, &[]))?));
    }
    let listed: Vec<PathBuf> = env::var_os("KUBECONFIG")
        .map(|value| env::split_paths(&value).collect())
        .unwrap_or_default();
    let mut paths: Vec<PathBuf> = listed
        .into_iter()
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if paths.is_empty() {
        let home = env::home_dir().filter(|home| !home.as_os_str().is_empty());
        paths.extend(home.map(|home| home.join(".kube/config")));
    }
    let mut merged: Option<Kubeconfig> = None;
    // Like in kubectl, some of several files may be missing.
    for path in paths.iter().filter(|path| path.exists()) {
        let file = Kubeconfig::read_from(path).map_err(|error| explain(error, &[]))?;
        merged = Some(match merged {
            Some(before) => before.merge(file).context("failed to merge kubeconfigs")?,
            None => file,
        });
    }
    if merged.is_none() && env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
        bail!("none of the files in $KUBECONFIG exists; correct the variable, or set --kubeconfig");
    }
    Ok(merged)
}

fn contexts(file: &Kubeconfig) -> Vec<String> {
    let contexts = file.contexts.iter();
    contexts.map(|context| context.name.clone()).collect()
}

fn explain(error: KubeconfigError, contexts: &[String]) -> anyhow::Error {
    let available = || match contexts {
        [] => "available: none".to_owned(),
        some => format!("available: {}", some.join(", ")),
    };
    match error {
        KubeconfigError::CurrentContextNotSet => anyhow!(
            "the kubeconfig has no current context; set --context ({})",
            available()
        ),
        KubeconfigError::LoadContext(name) => anyhow!(
            "the kubeconfig has no context {name:?}; set another --context ({})",
            available()
        ),
        KubeconfigError::LoadClusterOfContext(name) => {
            anyhow!(
                "the kubeconfig has no cluster {name:?}; correct the kubeconfig, or set another --cluster"
            )
        }
        KubeconfigError::ReadConfig(error, path) => {
            anyhow!("failed to read the kubeconfig {}: {error}", path.display())
        }
        error => anyhow!("invalid kubeconfig: {error}"),
    }
}
