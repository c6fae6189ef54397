//! What an API server cannot know while it is only asked: the objects that would come first.

use std::collections::BTreeSet;

use super::{Cause, Failure};
use crate::plan::{Step, Wave};

/// What the same plan brings.
pub(super) struct Known<'a> {
    namespaces: BTreeSet<&'a str>,
    names: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    pub(super) fn of(steps: &[&'a Step]) -> Self {
        let namespaces = steps.iter().filter(|step| step.wave == Wave::Namespaces);
        Self {
            namespaces: namespaces.map(|step| step.object.name()).collect(),
            names: steps.iter().map(|step| step.object.name()).collect(),
        }
    }

    /// Whether a failure says no more than that something is missing which the plan brings, or that a webhook cannot
    /// be asked without consequences.
    pub(super) fn explains(&self, failure: &Failure) -> bool {
        let message = failure.message.as_str();
        match failure.cause {
            Cause::Namespace if message.contains("not found") => self
                .namespaces
                .contains(failure.identity.namespace.as_str()),
            _ if message.contains("does not support dry run") => true,
            // A role that a binding names, an account that a pod names.
            _ => missing(message).any(|name| self.names.contains(name)),
        }
    }
}

/// The names in `… "name" not found`.
fn missing(message: &str) -> impl Iterator<Item = &str> {
    message
        .match_indices("\" not found")
        .filter_map(|(end, _)| message.get(..end)?.rsplit('"').next())
}
