//! The result of a fetch.

use std::collections::BTreeMap;

use crate::{Digest, Source, Tree};

/// A completely fetched and verified source.
#[derive(Debug)]
pub struct Fetched {
    /// The source with a digest or commit, if it can be pinned.
    pub resolved: Source,
    /// Digest of the transferred data: of the image manifest, or of the archive as received.
    pub digest: Option<Digest>,
    /// Regular files, and the entries that are not regular files.
    pub tree: Tree,
    /// Number of entries that are not selected.
    pub unselected: usize,
    /// Labels of an image, if they determined the selection ([`crate::Selection::Default`]); otherwise empty.
    pub labels: BTreeMap<String, String>,
}
