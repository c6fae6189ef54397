//! `PlatformOperator` (`platform.openshift.io/v1alpha1`): a package of a catalog that is part of the cluster.
//!
//! The group and the first field are OpenShift's own (4.12 to 4.16); everything else is optional and safe when absent.
//! Where a cluster has OpenShift's definition, that definition stays and drops what it does not know: all of
//! [`PlatformOperatorSpec`] but `package`, and all of [`PlatformOperatorStatus`] but `conditions` and
//! `activeBundleDeployment`. So nothing that a decision rests on is kept in the status alone: the conditions tell what
//! people need, and [`Kept`] stands in the annotation [`labels::KEPT_MINORS`](super::labels::KEPT_MINORS), too.

use std::{fmt, str::FromStr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    bounds,
    instance::{Override, ServiceAccountRef},
    labels, schema,
};
use crate::{
    names,
    object::shortened,
    openshift::Release,
    range::{self, Range},
};

/// Condition types besides [`condition::INSTALLED`](super::condition::INSTALLED).
pub mod condition {
    /// Whether what is installed runs on the next minor version of the cluster.
    pub const UPGRADEABLE: &str = "Upgradeable";
    /// Whether the catalog can be read.
    pub const CATALOG_AVAILABLE: &str = "CatalogAvailable";
}

/// Reasons of the condition Installed; besides these it has those of the BundleInstance.
pub mod reason {
    /// Everything is in the cluster.
    pub const INSTALL_SUCCESSFUL: &str = "InstallSuccessful";
    /// The BundleInstance could not be made.
    pub const INSTALL_FAILED: &str = "InstallFailed";
    /// The BundleInstance says nothing yet of installing.
    pub const INSTALL_PENDING: &str = "InstallPending";
    /// No bundle could be chosen.
    pub const SOURCE_FAILED: &str = "SourceFailed";
    /// The BundleInstance says nothing yet of its bundle.
    pub const UNPACK_PENDING: &str = "UnpackPending";
}

/// Which package, from where, and who decides about its upgrades.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "platform.openshift.io",
    version = "v1alpha1",
    kind = "PlatformOperator",
    plural = "platformoperators",
    status = "PlatformOperatorStatus",
    derive = "PartialEq",
    category = "rukpak",
    doc = "A package of a catalog that is part of the cluster: installed with it, upgraded with it, and able to keep it from being upgraded."
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::platform_operator()))]
pub struct PlatformOperatorSpec {
    /// The package. It cannot be changed: another package is another PlatformOperator.
    pub package: Package,
    /// The catalog to take it from; if there is none, the one with the highest priority that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogRef>,
    /// The channel to follow; the package's default channel if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = bounds::WORD), regex(pattern = schema::WORD))]
    pub channel: Option<String>,
    /// The versions that may be installed, as a range: `>=1.2.0 <2.0.0`. All of them if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = bounds::WORD), regex(pattern = schema::PRINTABLE))]
    pub version: Option<String>,
    /// Who decides about upgrades. `WithCluster`: patches of the installed minor version at once, a new minor version when
    /// the cluster has been upgraded to a new minor version, or when the installed one is what keeps the cluster from
    /// being upgraded and the new one, or one that it leads to, does not. `Automatic`: every upgrade at once. `Manual`: the
    /// one of approvedVersion.
    #[serde(default)]
    pub upgrade_approval: UpgradeApproval,
    /// With upgradeApproval `Manual`: the version that may be installed, and versions on the way to it. It binds
    /// the first installation, too; without it, that takes the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD), regex(pattern = schema::VERSION))]
    pub approved_version: Option<String>,
    /// Whether an upgrade that gains RBAC rules happens by itself (`Automatic`), or waits until the digest of these rules
    /// stands in approvedRights (`Manual`).
    #[serde(default)]
    pub approve_new_rights: RightsApproval,
    /// The digest in status.newRights, once somebody has read what it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD), regex(pattern = schema::DIGEST))]
    pub approved_rights: Option<String>,
    /// What is different from what the bundle chooses by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleOverrides>,
}

/// A package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Package {
    /// Its name in the catalog.
    #[schemars(length(min = 1, max = bounds::PACKAGE_NAME), regex(pattern = schema::NAMESPACE))]
    pub name: String,
}

/// A CatalogSource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogRef {
    /// Its name.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::NAME))]
    pub name: String,
    /// Its namespace, one of those that the provisioner takes catalogs from; the first of them that has a CatalogSource of
    /// that name, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = schema::NAMESPACE))]
    pub namespace: Option<String>,
}

/// Who decides about upgrades.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpgradeApproval {
    /// Patches at once, minor versions with the cluster's.
    #[default]
    WithCluster,
    /// Nobody: every upgrade happens.
    Automatic,
    /// Whoever writes `approvedVersion`.
    Manual,
}

/// Who decides about rights that an upgrade gains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RightsApproval {
    /// Nobody.
    #[default]
    Automatic,
    /// Whoever writes `approvedRights`.
    Manual,
}

/// What the admin decides instead of the bundle; it becomes part of the BundleInstance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::bundle_overrides()))]
pub struct BundleOverrides {
    /// Where namespaced objects go; the bundle's own choice if there is none. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = schema::NAMESPACE))]
    pub install_namespace: Option<String>,
    /// Whose rights the objects are applied with; the provisioner's own if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account: Option<ServiceAccountRef>,
    /// Constraints of one content that do not count here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::OVERRIDES))]
    pub overrides: Vec<Override>,
}

/// What has become of a PlatformOperator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlatformOperatorStatus {
    /// `Installed`, `Upgradeable`, `CatalogAvailable`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The BundleInstance that was installed for this package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_bundle_instance: Option<InstanceRef>,
    /// The same, where OpenShift's definition has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_bundle_deployment: Option<InstanceRef>,
    /// The bundle that was chosen: what is installed, or is being installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_bundle: Option<ChosenBundle>,
    /// The next bundle on the way, and what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_available: Option<NextBundle>,
    /// The minor version of the cluster with which the last minor version of the package was approved: `4.12`, or `1.31`
    /// where there is no OpenShift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub cluster_minor: Option<String>,
    /// The minor version of the package that was installed then: `2.5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub package_minor: Option<String>,
    /// What the next bundle may do and the installed one may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_rights: Option<NewRights>,
}

/// The name of a BundleInstance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceRef {
    /// Its name; OpenShift's objects may have it empty, which means none.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub name: String,
}

/// A bundle of a catalog, and why it was chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChosenBundle {
    /// Its name in the catalog, which is that of its ClusterServiceVersion: `etcdoperator.v0.9.4`.
    #[schemars(length(max = bounds::WORD))]
    pub name: String,
    /// Its version.
    #[schemars(length(max = bounds::WORD))]
    pub version: String,
    /// Which of several bundles for that version it is, where the catalog says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub release: Option<String>,
    /// The channel that led to it.
    #[schemars(length(max = bounds::WORD))]
    pub channel: String,
    /// The catalog it comes from: `namespace/name`.
    #[schemars(length(max = bounds::WORD))]
    pub catalog: String,
    /// Its image, as the catalog names it.
    #[schemars(length(max = bounds::REFERENCE))]
    pub image: String,
    /// Why this one and no other, step by step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FINDINGS), inner(length(max = bounds::LINE)))]
    pub why: Vec<String>,
}

/// A bundle that could be next.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextBundle {
    /// Its name in the catalog.
    #[schemars(length(max = bounds::WORD))]
    pub name: String,
    /// Its version.
    #[schemars(length(max = bounds::WORD))]
    pub version: String,
    /// What it waits for, in words; nothing while it is being installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::LINE))]
    pub waits_for: Option<String>,
}

/// Rights that a bundle has and its predecessor has not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewRights {
    /// What to write into spec.approvedRights to allow them: `sha256:…` of all of them.
    #[schemars(length(max = bounds::WORD))]
    pub digest: String,
    /// Who may do what, a rule a line; a last line counts what is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::FINDINGS), inner(length(max = bounds::LINE)))]
    pub rules: Vec<String>,
}

/// Why a PlatformOperator cannot be served, although the apiserver has taken it: OpenShift's own definition checks less.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// The BundleInstance has the same name.
    #[error(
        "PlatformOperator {name}: the name {problem}, for a BundleInstance is called the same; create it anew with \
         another name"
    )]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The package cannot exist.
    #[error(
        "PlatformOperator {name}: spec.package.name {package:?} {problem}; create it anew with the name of a package"
    )]
    Package {
        /// The PlatformOperator.
        name: String,
        /// What should be a package.
        package: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The range cannot be read.
    #[error(
        "PlatformOperator {name}: spec.version: {problem}; write one such as \">=1.2.0 <2.0.0\""
    )]
    Range {
        /// The PlatformOperator.
        name: String,
        /// What is wrong with it.
        problem: range::Error,
    },
}

impl PlatformOperator {
    /// Checks what another definition may have let through.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), Unserved> {
        let name = self.name_any();
        let most = bounds::INSTANCE_NAME as usize;
        if name.len() > most {
            return Err(Unserved::Name {
                problem: format!("has more than {most} characters"),
                name,
            });
        }
        let package = &self.spec.package.name;
        let longest = bounds::PACKAGE_NAME as usize;
        let problem = match names::dns_label(package) {
            Err(problem) => Some(problem.to_owned()),
            Ok(()) if package.len() > longest => {
                Some(format!("must be no more than {longest} characters"))
            }
            Ok(()) => None,
        };
        if let Some(problem) = problem {
            return Err(Unserved::Package {
                name,
                package: shortened(package, 80),
                problem,
            });
        }
        if let Some(text) = &self.spec.version
            && let Err(problem) = Range::parse(text)
        {
            return Err(Unserved::Range { name, problem });
        }
        Ok(())
    }

    /// The BundleInstance that was installed, as either definition keeps it.
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

    /// What was kept of the last approval: of the status, or of the annotation where the definition drops the former.
    pub fn kept(&self) -> Option<Kept> {
        let status = self.status.as_ref();
        let of_status = status.and_then(|status| {
            Some(Kept {
                cluster: Release::read(status.cluster_minor.as_deref()?)?,
                package: Release::read(status.package_minor.as_deref()?)?,
            })
        });
        of_status.or_else(|| self.annotations().get(labels::KEPT_MINORS)?.parse().ok())
    }
}

/// The minor versions of the cluster and of the package when a minor version was last approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The cluster's: OpenShift's, or Kubernetes' where there is none.
    pub cluster: Release,
    /// The package's.
    pub package: Release,
}

impl fmt::Display for Kept {
    /// `4.12 2.5`: what the annotation holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.cluster, self.package)
    }
}

impl FromStr for Kept {
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
