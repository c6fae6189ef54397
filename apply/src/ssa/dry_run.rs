//! Filter for dry-run failures that only result from objects of the same plan that do not exist yet.

use std::collections::BTreeSet;

use super::{ApplyFailure, FailureKind};
use crate::plan::{ApplyStep, Wave};

/// Names of the objects in a plan.
pub(super) struct PlannedObjects<'a> {
    namespaces: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
}

impl<'a> PlannedObjects<'a> {
    pub(super) fn new(steps: &[&'a ApplyStep]) -> Self {
        let namespaces = steps.iter().filter(|step| step.wave == Wave::Namespaces);
        Self {
            namespaces: namespaces.map(|step| step.object.name()).collect(),
            names: steps.iter().map(|step| step.object.name()).collect(),
        }
    }

    /// Reports whether a failure only names a missing object that the plan creates, or a webhook that does not support dry
    /// runs.
    pub(super) fn is_expected(&self, failure: &ApplyFailure) -> bool {
        let message = failure.message.as_str();
        match failure.cause {
            FailureKind::Namespace if message.contains("not found") => self
                .namespaces
                .contains(failure.identity.namespace.as_str()),
            _ if message.contains("does not support dry run") => true,
            // For example the role of a binding, or the account of a pod.
            _ => missing_names(message).any(|name| self.names.contains(name)),
        }
    }
}

/// Returns the names in `… "name" not found`.
fn missing_names(message: &str) -> impl Iterator<Item = &str> {
    message
        .match_indices("\" not found")
        .filter_map(|(end, _)| message.get(..end)?.rsplit('"').next())
}
