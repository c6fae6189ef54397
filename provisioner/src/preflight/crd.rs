//! Whether a definition's new version is safe for the custom resources there are, and for whoever uses them.

use super::{Findings, Input};

/// Compares every definition that is about to be applied with the one in the cluster.
///
/// # Errors
/// When the apiserver cannot be asked; to be tried again.
pub async fn check(input: &Input<'_>) -> Result<Findings, kube::Error> {
    todo!()
}
