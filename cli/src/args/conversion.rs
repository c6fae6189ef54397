//! What the result of a conversion should be like.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use convert::{NamespaceObject, overlay::DeploymentConfig};
use manifests::{names, version::KubeVersion, yaml};
use serde_json::Value;

use super::LimitArgs;

/// Which kind of bundle it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Class {
    /// registry+v1: a ClusterServiceVersion with what belongs to it
    Registry,
    /// plain+v0: a folder of manifests
    Plain,
}

/// What a conversion depends on besides the bundle.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conversion")]
pub(crate) struct Conversion {
    /// Install into this namespace rather than the one that the bundle suggests.
    #[arg(long, value_name = "NAME", value_parser = namespace)]
    install_namespace: Option<String>,
    /// Leave out the install namespace's own object.
    #[arg(long)]
    no_namespace: bool,
    /// Release of the cluster that will run the result.
    #[arg(long, value_name = "VERSION", default_value_t = KubeVersion::NEWEST)]
    kube_version: KubeVersion,
    /// YAML or JSON file with the deploymentConfig to lay over the operator's pods, as in a Subscription's spec.config.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Format of the bundle; told by its content when not given.
    #[arg(long, value_enum)]
    class: Option<Class>,
}

impl Conversion {
    pub(crate) fn options(&self, limits: LimitArgs) -> anyhow::Result<convert::Options> {
        let Self {
            install_namespace,
            no_namespace,
            kube_version,
            config,
            class,
        } = self;
        Ok(convert::Options {
            class: class.map(|class| match class {
                Class::Registry => convert::Class::Registry,
                Class::Plain => convert::Class::Plain,
            }),
            install_namespace: install_namespace.clone(),
            namespace_object: if *no_namespace {
                NamespaceObject::Omit
            } else {
                NamespaceObject::Emit
            },
            kube_version: *kube_version,
            deployment_config: config.as_ref().map(deployment_config).transpose()?,
            // What a cluster has is known where there is one.
            operator_condition: false,
            limits: limits.yaml(),
        })
    }
}

fn deployment_config(path: &PathBuf) -> anyhow::Result<DeploymentConfig> {
    let about = || format!("failed to read the configuration {}", path.display());
    let bytes = std::fs::read(path).with_context(about)?;
    let mut documents = yaml::documents(&bytes);
    let value = documents
        .next()
        .transpose()
        .with_context(about)?
        .unwrap_or(Value::Null);
    if documents.next().is_some() {
        anyhow::bail!(
            "the configuration {} has more than one document; keep one",
            path.display()
        );
    }
    DeploymentConfig::try_from(value).with_context(about)
}

fn namespace(text: &str) -> Result<String, &'static str> {
    names::dns_label(text).map(|()| text.to_owned())
}
