//! Options of a conversion.

use manifests::{version::KubeVersion, yaml};

use crate::deployment_config::DeploymentConfig;

/// Format of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Format `registry+v1`: a ClusterServiceVersion with related objects.
    Registry,
    /// Format `plain+v0`: objects that are applied unchanged.
    Plain,
}

/// Whether the output contains the Namespace object of the install namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NamespaceObject {
    /// The Namespace is the first object.
    #[default]
    Emit,
    /// The namespace already exists, or another client creates it.
    Omit,
}

/// Options of a conversion. The defaults select the newest Kubernetes, and the namespace that the bundle suggests.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The format of the content, or `None` to detect it.
    pub class: Option<Class>,
    /// The install namespace, or `None` for the bundle's choice.
    pub install_namespace: Option<String>,
    /// Whether the Namespace object is emitted.
    pub namespace_object: NamespaceObject,
    /// The Kubernetes version of the target cluster.
    pub kube_version: KubeVersion,
    /// Changes by the admin to the operator's pods.
    pub deployment_config: Option<DeploymentConfig>,
    /// Whether the cluster supports OperatorConditions (`operators.coreos.com/v2`), so that a registry+v1 operator gets
    /// one.
    pub operator_condition: bool,
    /// Limits for the documents of a bundle; `values` applies to all of them together.
    pub limits: yaml::Limits,
}
