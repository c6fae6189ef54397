//! What has to be done so that the cluster holds an instance's objects: a value that can be printed, and nothing done yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::core::GroupVersionKind;
use manifests::object::{Identity, Object};
use serde::Serialize;

use crate::{inventory::Inventory, kinds::Kind};

/// The instance that objects belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// What is applied together. A wave begins when the one before is in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Wave {
    /// Namespaces.
    Namespaces,
    /// CustomResourceDefinitions; in place when Established.
    Definitions,
    /// ServiceAccounts, rights, configuration, Services.
    Configuration,
    /// What runs.
    Workloads,
    /// Custom resources of definitions in the same bundle.
    Resources,
}

/// One object to apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// When.
    pub wave: Wave,
    /// The object as it is sent: with namespace, owner labels and, where legal, owner reference.
    pub object: Object,
    /// How to address it.
    pub kind: Arc<Kind>,
}

/// An object that leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leaving {
    /// Which.
    pub identity: Identity,
    /// The API version it was applied in.
    pub version: String,
}

/// A kind that is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Absent {
    /// Group, version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// All that need it.
    pub needed_by: Vec<Identity>,
}

/// What has to be done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What is applied, in this order.
    pub steps: Vec<Step>,
    /// What is deleted afterwards, in this order.
    pub leaving: Vec<Leaving>,
    /// Optional APIs that are not served: their objects wait.
    pub waiting: Vec<Absent>,
    /// Other APIs that are not served: nothing can be applied without them.
    pub missing: Vec<Absent>,
}

/// Makes the plan. `kinds` answers for every kind of the objects.
pub fn new(
    objects: Vec<Object>,
    kinds: &BTreeMap<GroupVersionKind, Option<Arc<Kind>>>,
    inventory: &Inventory,
    owner: &Owner,
    namespace: &str,
    optional: &BTreeSet<String>,
) -> Plan {
    todo!()
}
