//! `PlatformOperator` (`platform.openshift.io/v1alpha1`): a package of a catalog that is part of the cluster.
//!
//! The group and the first field are OpenShift's own (4.12 to 4.16). All other fields are optional and safe when absent.
//! OpenShift's CRD is kept where a cluster has it. It drops all of [`PlatformOperatorSpec`] except `package`,
//! and all of [`PlatformOperatorStatus`] except `conditions` and `activeBundleDeployment`. Therefore, no decision depends
//! only on the status: the conditions inform users, and the annotation [`labels::APPROVED_MINORS`](super::labels::APPROVED_MINORS)
//! also stores [`ApprovedMinors`].

use std::{fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    bundle_instance::{Override, ServiceAccountRef},
    labels, limits, schema,
};
use crate::{
    names,
    object::truncate,
    openshift::Release,
    version_range::{self, Range},
};

/// Condition types besides [`condition::INSTALLED`](super::condition::INSTALLED).
pub mod condition {
    /// The installed bundle supports the next minor version of the cluster.
    pub const UPGRADEABLE: &str = "Upgradeable";
    /// The catalog can be read.
    pub const CATALOG_AVAILABLE: &str = "CatalogAvailable";
}

/// Reasons of the condition Installed, in addition to those of the BundleInstance.
pub mod reason {
    /// All objects are installed.
    pub const INSTALL_SUCCESSFUL: &str = "InstallSuccessful";
    /// The BundleInstance could not be created.
    pub const INSTALL_FAILED: &str = "InstallFailed";
    /// The BundleInstance does not report an installation yet.
    pub const INSTALL_PENDING: &str = "InstallPending";
    /// The resolution found no bundle.
    pub const SOURCE_FAILED: &str = "SourceFailed";
    /// The BundleInstance does not report a Bundle yet.
    pub const UNPACK_PENDING: &str = "UnpackPending";
}

/// The package, its source, and its upgrade policy.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "platform.openshift.io",
    version = "v1alpha1",
    kind = "PlatformOperator",
    plural = "platformoperators",
    status = "PlatformOperatorStatus",
    derive = "PartialEq",
    category = "rukpak",
    doc = "A package of a catalog that is part of the cluster: installed and upgraded with it, and able to block cluster \
           upgrades."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::platform_operator()))]
pub struct PlatformOperatorSpec {
    /// The package. Immutable: create another PlatformOperator for another package.
    pub package: Package,
    /// The catalog of the package; if unset, the one with the highest priority that has the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogRef>,
    /// The channel to follow; the package's default channel if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::WORD), regex(pattern = schema::WORD))]
    pub channel: Option<String>,
    /// The range of versions to install: `>=1.2.0 <2.0.0`. All versions if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::WORD), regex(pattern = schema::PRINTABLE))]
    pub version: Option<String>,
    /// Approval of upgrades. `WithCluster`: patches of the installed minor version immediately; a new minor version after
    /// an upgrade of the cluster to a new minor version, or if the installed version blocks cluster upgrades, and the new
    /// version or a later one on its upgrade path does not. `Automatic`: every upgrade immediately. `Manual`: the one in
    /// approvedVersion.
    #[serde(default)]
    pub upgrade_approval: UpgradeApproval,
    /// With upgradeApproval `Manual`: the version to install, including versions on the upgrade path to it. It also applies
    /// to the first installation, which otherwise uses the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD), regex(pattern = schema::VERSION))]
    pub approved_version: Option<String>,
    /// Approval of upgrades that gain RBAC rules: upgrade without approval (`Automatic`), or wait until the digest of these
    /// rules is set in approvedRights (`Manual`).
    #[serde(default)]
    pub approve_new_rights: RightsApproval,
    /// The digest in status.newRights, which approves its rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD), regex(pattern = schema::DIGEST))]
    pub approved_rights: Option<String>,
    /// Overrides of the bundle's own choices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleOverrides>,
}

/// A reference to a package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Package {
    /// The name of the package in the catalog.
    #[schemars(length(min = 1, max = limits::PACKAGE_NAME), regex(pattern = schema::NAMESPACE))]
    pub name: String,
}

/// A reference to a CatalogSource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogRef {
    /// The name of the CatalogSource.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::NAME))]
    pub name: String,
    /// The namespace, one of the provisioner's catalog namespaces; if unset, the first of them that has a CatalogSource of
    /// that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::NAMESPACE))]
    pub namespace: Option<String>,
}

/// Approval of upgrades.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeApproval {
    /// Patches are approved immediately, minor versions with those of the cluster.
    #[default]
    WithCluster,
    /// All upgrades are approved.
    Automatic,
    /// Upgrades are approved by `approvedVersion`.
    Manual,
}

/// Approval of permissions that an upgrade gains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RightsApproval {
    /// All permissions are approved.
    #[default]
    Automatic,
    /// Permissions are approved by `approvedRights`.
    Manual,
}

/// Decisions of the admin that override the bundle's. They become part of the BundleInstance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::bundle_overrides()))]
pub struct BundleOverrides {
    /// The namespace of namespaced objects; the bundle's choice if unset. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = schema::NAMESPACE))]
    pub install_namespace: Option<String>,
    /// ServiceAccount used to apply the objects; the provisioner's own if unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,
    /// Constraints to ignore for one content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::OVERRIDES))]
    pub overrides: Vec<Override>,
}

/// Observed state of the PlatformOperator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlatformOperatorStatus {
    /// `Installed`, `Upgradeable`, `CatalogAvailable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The BundleInstance of the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_bundle_instance: Option<InstanceRef>,
    /// The BundleInstance, for OpenShift's CRD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_bundle_deployment: Option<InstanceRef>,
    /// The chosen bundle, which is installed or being installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_bundle: Option<ChosenBundle>,
    /// The next bundle of the upgrade path, and its blocker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_available: Option<NextBundle>,
    /// The minor version of the cluster when a minor version of the package was last approved: `4.12`, or `1.31` without
    /// OpenShift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub cluster_minor: Option<String>,
    /// The minor version of the package at that time: `2.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub package_minor: Option<String>,
    /// The permissions that the next bundle gains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_rights: Option<NewRights>,
}

/// A reference to a BundleInstance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceRef {
    /// The name. Objects of OpenShift may have an empty name, which means none.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub name: String,
}

/// A bundle of a catalog, with the reasons for its choice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChosenBundle {
    /// The name in the catalog, which is that of the ClusterServiceVersion: `etcdoperator.v0.9.4`.
    #[schemars(length(max = limits::WORD))]
    pub name: String,
    /// The version of the bundle.
    #[schemars(length(max = limits::WORD))]
    pub version: String,
    /// The release among several bundles of that version, if the catalog declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub release: Option<String>,
    /// The channel of the bundle.
    #[schemars(length(max = limits::WORD))]
    pub channel: String,
    /// The catalog of the bundle: `namespace/name`.
    #[schemars(length(max = limits::WORD))]
    pub catalog: String,
    /// The image, as the catalog declares it.
    #[schemars(length(max = limits::REFERENCE))]
    pub image: String,
    /// The reasons for the choice, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::FINDINGS), inner(length(max = limits::LINE)))]
    pub why: Vec<String>,
}

/// The next bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextBundle {
    /// The name in the catalog.
    #[schemars(length(max = limits::WORD))]
    pub name: String,
    /// The version of the bundle.
    #[schemars(length(max = limits::WORD))]
    pub version: String,
    /// The reason for waiting; unset during the installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::LINE))]
    pub waits_for: Option<String>,
}

/// Permissions of a bundle that its predecessor lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewRights {
    /// The value of spec.approvedRights that approves them: `sha256:…` of all rules.
    #[schemars(length(max = limits::WORD))]
    pub digest: String,
    /// The gained rules, one per line; a last line counts omitted ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::FINDINGS), inner(length(max = limits::LINE)))]
    pub rules: Vec<String>,
}

/// Reason why a PlatformOperator is invalid, although the API server accepted it: OpenShift's CRD checks less.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidOperator {
    /// The name is invalid for the BundleInstance, which has the same name.
    #[error(
        "PlatformOperator {name}: the name {problem}, because a BundleInstance has the same name; recreate the \
         PlatformOperator with another name"
    )]
    Name {
        /// Name of the PlatformOperator.
        name: String,
        /// Description of the problem.
        problem: String,
    },
    /// The package name is invalid.
    #[error(
        "PlatformOperator {name}: spec.package.name {package:?} {problem}; recreate the PlatformOperator with the name of a \
         package"
    )]
    Package {
        /// Name of the PlatformOperator.
        name: String,
        /// The invalid package name.
        package: String,
        /// Description of the problem.
        problem: String,
    },
    /// The version range is malformed.
    #[error(
        "PlatformOperator {name}: spec.version: {problem}; use a range such as \">=1.2.0 <2.0.0\""
    )]
    Range {
        /// Name of the PlatformOperator.
        name: String,
        /// Description of the problem.
        problem: version_range::Error,
    },
}

impl PlatformOperator {
    /// Validates fields that another CRD may not check.
    ///
    /// # Errors
    /// Returns the first problem.
    pub fn check(&self) -> Result<(), InvalidOperator> {
        let name = self.name_any();
        let max_length = limits::INSTANCE_NAME as usize;
        if name.len() > max_length {
            return Err(InvalidOperator::Name {
                problem: format!("has more than {max_length} characters"),
                name,
            });
        }
        let package = &self.spec.package.name;
        let max_length = limits::PACKAGE_NAME as usize;
        let problem = match names::dns_label(package) {
            Err(problem) => Some(problem.to_owned()),
            Ok(()) if package.len() > max_length => {
                Some(format!("must be no more than {max_length} characters"))
            }
            Ok(()) => None,
        };
        if let Some(problem) = problem {
            return Err(InvalidOperator::Package {
                name,
                package: truncate(package, 80),
                problem,
            });
        }
        if let Some(text) = &self.spec.version
            && let Err(problem) = Range::parse(text)
        {
            return Err(InvalidOperator::Range { name, problem });
        }
        Ok(())
    }

    /// Returns the name of the installed BundleInstance, from the field of either CRD.
    pub fn active_instance(&self) -> Option<&str> {
        let status = self.status.as_ref()?;
        [
            &status.active_bundle_instance,
            &status.active_bundle_deployment,
        ]
        .into_iter()
        .flatten()
        .map(|reference| reference.name.as_str())
        .find(|name| !name.is_empty())
    }

    /// Returns the record of the last approval: from the status, or from the annotation if the CRD drops those fields.
    pub fn approved_minors(&self) -> Option<ApprovedMinors> {
        let status = self.status.as_ref();
        let of_status = status.and_then(|status| {
            Some(ApprovedMinors {
                cluster: Release::read(status.cluster_minor.as_deref()?)?,
                package: Release::read(status.package_minor.as_deref()?)?,
            })
        });
        of_status.or_else(|| {
            self.annotations()
                .get(labels::APPROVED_MINORS)?
                .parse()
                .ok()
        })
    }
}

/// Minor versions of cluster and package when a minor version was last approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovedMinors {
    /// Minor version of OpenShift, or of Kubernetes without OpenShift.
    pub cluster: Release,
    /// Minor version of the package.
    pub package: Release,
}

impl fmt::Display for ApprovedMinors {
    /// Formats the value of the annotation: `4.12 2.5`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.cluster, self.package)
    }
}

impl FromStr for ApprovedMinors {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (cluster, package) = text.split_once(' ').ok_or(())?;
        Ok(Self {
            cluster: Release::read(cluster).ok_or(())?,
            package: Release::read(package).ok_or(())?,
        })
    }
}

#[cfg(test)]
mod tests;
