//! Everything that can be known to go wrong before anything is changed, all of it at once.

pub mod crd;
pub mod versions;

use kube::Client;
use manifests::api::instance::BundleInstance;

use crate::{
    inventory::Inventory,
    kinds::Kinds,
    plan::{Owner, Plan},
};

/// What the checks look at.
pub struct Input<'a> {
    /// Its spec and annotations decide which checks count.
    pub instance: &'a BundleInstance,
    /// The same, as owner.
    pub owner: &'a Owner,
    /// What is about to be done.
    pub plan: &'a Plan,
    /// What the instance has already.
    pub inventory: &'a Inventory,
    /// What the bundle says of itself.
    pub facts: &'a convert::facts::Facts,
    /// With the rights that objects are applied with.
    pub client: &'a Client,
    /// With the provisioner's own rights.
    pub own: &'a Client,
    /// Which APIs are served.
    pub kinds: &'a Kinds,
    /// Of the cluster and of OpenShift.
    pub versions: &'a versions::Versions,
    /// The label and the namespace of the provisioner's own objects, which no bundle may touch.
    pub system_namespace: &'a str,
    /// How many requests at once.
    pub concurrency: usize,
}

/// Which check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// An object belongs to somebody else, or is our own.
    Ownership,
    /// An API is not served.
    Apis,
    /// A definition's new version is not safe.
    DefinitionUpgrade,
    /// The cluster is too old or too new.
    ClusterVersion,
    /// The account may not.
    Rights,
    /// A namespace is terminating.
    Namespace,
    /// The apiserver finds an object invalid.
    Invalid,
}

/// Something that is in the way, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Which check found it.
    pub check: Check,
    /// Object, problem and remedy, in one sentence or a few.
    pub message: String,
}

/// What the checks found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Nothing is applied while there is one.
    pub problems: Vec<Problem>,
    /// Worth knowing.
    pub warnings: Vec<Problem>,
}

/// Runs all checks.
///
/// # Errors
/// When the apiserver cannot be asked; to be tried again.
pub async fn run(input: &Input<'_>) -> Result<Findings, kube::Error> {
    todo!()
}
