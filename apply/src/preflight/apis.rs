//! APIs that nobody serves.

use super::{Check, Problem, words};
use crate::plan::Absent;

/// Every API that is missing, with all that need it. The words are those that rukpak's users know.
pub(super) fn check(missing: &[Absent]) -> impl Iterator<Item = Problem> {
    missing.iter().map(|absent| {
        let Absent {
            api_version,
            kind,
            needed_by,
        } = absent;
        Problem {
            check: Check::Apis,
            message: format!(
                "required resource not found: no matches for kind {kind:?} in version {api_version:?}, needed by {}: \
                 install what serves it; the installation goes on by itself then",
                words::some(needed_by)
            ),
        }
    })
}
