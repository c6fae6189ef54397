//! Deleting what leaves.
use super::{Apply, Pruned};
use crate::plan::{Leaving, Owner};
use manifests::api::instance::CrdDeletionPolicy;

pub(super) async fn run(
    _apply: &Apply<'_>,
    _leaving: &[Leaving],
    _owner: &Owner,
    _policy: CrdDeletionPolicy,
) -> Pruned {
    todo!()
}
