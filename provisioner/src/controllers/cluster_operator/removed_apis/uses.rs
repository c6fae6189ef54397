//! The uses of APIs that the next minor version of Kubernetes removes, by one instance.

use std::collections::BTreeSet;

use convert::removed_apis::request_counts::ApiCalls;
use manifests::{api::bundle_instance::RemovedApi, version::KubeVersion};

use crate::controllers::cluster_operator::instance::ObservedInstance;

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
    instance: &ObservedInstance,
    calls: &ApiCalls,
    running: KubeVersion,
) -> Removed {
    let next = running.next();
    let removed_in = next.to_string();
    let removed = instance.removed_apis.iter();
    let removed = removed.filter(|removed| removed.removed_in == removed_in);
    let uses: BTreeSet<&str> = removed.map(|removed| removed.message.as_str()).collect();
    let called = calls.removed_api_calls(instance.accounts.lines(), running, next);
    let uses = uses.into_iter().map(str::to_owned);
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
        is_incomplete: instance.has_unlisted_uses,
    }
}
