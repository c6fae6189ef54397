//! What a caller may choose.

use manifests::{version::KubeVersion, yaml};

use crate::overlay::DeploymentConfig;

/// Which format the content is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// `registry+v1`: a ClusterServiceVersion with what belongs to it.
    Registry,
    /// `plain+v0`: objects to apply as they are.
    Plain,
}

/// Whether the install namespace's own object is part of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NamespaceObject {
    /// It comes first.
    #[default]
    Emit,
    /// The namespace exists, or somebody else makes it.
    Omit,
}

/// How to convert a bundle. The default converts for the newest Kubernetes into the namespace the bundle suggests.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The format; `None` tells it by the content.
    pub class: Option<Class>,
    /// Where namespaced objects go; `None` follows the bundle.
    pub install_namespace: Option<String>,
    /// Whether the Namespace object is emitted.
    pub namespace_object: NamespaceObject,
    /// The cluster that will run the result.
    pub kube_version: KubeVersion,
    /// What the admin changes in the operator's pods.
    pub deployment_config: Option<DeploymentConfig>,
    /// Whether the cluster has OperatorConditions (`operators.coreos.com/v2`), so that a registry+v1 operator gets one.
    pub operator_condition: bool,
    /// How much a bundle's documents may demand; `values` counts for all of them together.
    pub limits: yaml::Limits,
}
