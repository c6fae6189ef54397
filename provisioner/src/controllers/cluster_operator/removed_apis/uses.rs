//! The uses of APIs that the next minor version of Kubernetes removes, by one instance.

use std::collections::BTreeSet;

use convert::removed_apis::request_counts::ApiCalls;
use manifests::{
    api::{
        bundle_instance::{BundleInstance, BundleInstanceStatus, InventoryKind, RemovedApi},
        inventory_format,
    },
    version::KubeVersion,
};

/// Maximum number of messages about one instance.
const MAX_MESSAGES: usize = RemovedApi::MAX;

/// Uses of removed APIs by one instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Messages, one for each known use.
    pub messages: Vec<String>,
    /// Whether more uses may exist: a live revision does not list its uses.
    pub is_incomplete: bool,
}

impl Removed {
    /// Returns an incomplete result without known uses.
    pub(super) fn unknown() -> Self {
        Self {
            messages: Vec::new(),
            is_incomplete: true,
        }
    }
}

/// Returns the uses by an instance.
pub(super) fn removed(
    instance: &BundleInstance,
    calls: &ApiCalls,
    running: KubeVersion,
) -> Removed {
    let Some(status) = &instance.status else {
        return Removed::default();
    };
    let next = running.next();
    let removed_in = next.to_string();
    let mut is_incomplete =
        status.live().next().is_none() && status.installed_bundle_name.is_some();
    let mut uses = BTreeSet::new();
    for revision in status.live() {
        is_incomplete |= revision.removed_apis.is_none();
        let removed = revision.removed_apis.iter().flatten();
        let removed = removed.filter(|removed| removed.removed_in == removed_in);
        uses.extend(removed.map(|removed| removed.message.clone()));
    }
    let accounts = accounts(status, calls);
    let called = calls.removed_api_calls(accounts.iter().map(String::as_str), running, next);
    let messages = called.iter().map(ToString::to_string).chain(uses);
    let mut messages: Vec<String> = messages.collect();
    if messages.len() > MAX_MESSAGES {
        let more = messages.len() - MAX_MESSAGES;
        messages.truncate(MAX_MESSAGES);
        messages.push(format!(
            "{more} more uses of APIs that Kubernetes {removed_in} does not serve"
        ));
    }
    Removed {
        messages,
        is_incomplete,
    }
}

/// Returns the ServiceAccounts of an instance, as `namespace:name`, if any calls were counted.
fn accounts(status: &BundleInstanceStatus, calls: &ApiCalls) -> Vec<String> {
    let inventory = status.inventory.as_ref().filter(|_| !calls.is_empty());
    let kinds = inventory.map_or(&[][..], |inventory| &inventory.kinds);
    let accounts = kinds.iter().filter(|kind| lists_accounts(kind));
    accounts
        .flat_map(|kind| inventory_format::entries(std::slice::from_ref(kind)))
        .map(|(identity, _)| format!("{}:{}", identity.namespace, identity.name))
        .collect()
}

/// Reports whether a part of an inventory lists ServiceAccounts.
pub fn lists_accounts(kind: &InventoryKind) -> bool {
    kind.api_version == "v1" && kind.kind == "ServiceAccount"
}
