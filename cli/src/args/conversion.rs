//! Flags of the conversion.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use convert::{NamespaceObject, deployment_config::DeploymentConfig};
use manifests::{names, version::KubeVersion, yaml};
use serde_json::Value;

use super::{LimitArgs, values::file};

/// Format of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BundleClass {
    /// registry+v1: a ClusterServiceVersion with its objects
    Registry,
    /// plain+v0: a directory of manifests
    Plain,
}

/// Inputs of a conversion besides the bundle.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conversion")]
pub(crate) struct Conversion {
    /// Install into this namespace instead of the one that the bundle suggests.
    #[arg(short = 'n', long, visible_alias = "namespace", value_name = "NAME", value_parser = namespace)]
    install_namespace: Option<String>,
    /// Omit the Namespace object of the install namespace.
    #[arg(long)]
    no_namespace: bool,
    /// Kubernetes release of the target cluster.
    #[arg(long, visible_alias = "kubernetes-version", value_name = "VERSION", default_value_t = KubeVersion::NEWEST)]
    kube_version: KubeVersion,
    /// YAML or JSON file with the deploymentConfig that overrides the operator's pods, as in a Subscription's spec.config.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = file())]
    config: Option<PathBuf>,
    /// Format of the bundle. Default: detected from its content.
    #[arg(long, value_enum)]
    class: Option<BundleClass>,
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
                BundleClass::Registry => convert::Class::Registry,
                BundleClass::Plain => convert::Class::Plain,
            }),
            install_namespace: install_namespace.clone(),
            namespace_object: if *no_namespace {
                NamespaceObject::Omit
            } else {
                NamespaceObject::Emit
            },
            kube_version: *kube_version,
            deployment_config: config.as_ref().map(deployment_config).transpose()?,
            // No cluster is involved, so that its OperatorCondition API is unknown.
            operator_condition: false,
            limits: limits.yaml(),
        })
    }
}

fn deployment_config(path: &PathBuf) -> anyhow::Result<DeploymentConfig> {
    let failed = || format!("failed to read the configuration {}", path.display());
    let bytes = std::fs::read(path).with_context(failed)?;
    let mut documents = yaml::documents(&bytes);
    let value = documents
        .next()
        .transpose()
        .with_context(failed)?
        .unwrap_or(Value::Null);
    if documents.next().is_some() {
        anyhow::bail!(
            "the configuration {} has more than one document; keep one",
            path.display()
        );
    }
    DeploymentConfig::try_from(value).with_context(failed)
}

fn namespace(text: &str) -> Result<String, &'static str> {
    names::dns_label(text).map(|()| text.to_owned())
}
