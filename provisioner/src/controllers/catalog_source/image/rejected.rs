//! Images that can never be catalogs. Reading one may take minutes while other catalogs wait, so a rejected
//! image is not read again.

use apply::api_error;
use catalog::{registry, sqlite};

use super::Error;
use crate::controllers::catalog_source::registry_server;

/// Image that cannot be used as a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::controllers::catalog_source) struct RejectedImage {
    /// Digest of the image in its registry.
    digest: String,
    /// True if the catalog was also to be served. Some catalogs can be read, but not served.
    for_serving: bool,
    reason: String,
}

// === impl RejectedImage ===

impl RejectedImage {
    /// Returns the rejection to record for an error, or `None` if the error is not terminal.
    pub(in crate::controllers::catalog_source) fn from_error(
        error: &Error,
        digest: Option<String>,
        for_serving: bool,
    ) -> Option<Self> {
        let digest = digest.filter(|_| error.is_terminal())?;
        Some(Self {
            digest,
            for_serving,
            reason: api_error::chain(error),
        })
    }

    /// Returns the same error again, or `None` if the image or its use has changed.
    pub(in crate::controllers::catalog_source) fn same_error(
        &self,
        digest: &str,
        for_serving: bool,
    ) -> Option<Error> {
        let is_same = self.digest == digest && self.for_serving == for_serving;
        is_same.then(|| Error::Rejected(self.reason.clone()))
    }
}

// === impl Error ===

impl Error {
    /// Reports whether the same image fails in the same way each time.
    pub(in crate::controllers::catalog_source) fn is_terminal(&self) -> bool {
        match self {
            Self::Rejected(_) | Self::Empty { .. } => true,
            Self::Unpack(error) => is_of_content(error),
            Self::Catalog(error) => is_of_catalog(error),
            Self::Database(error) => error.is_terminal(),
            Self::Serving(error) => is_unservable(error),
            Self::Reference { .. }
            | Self::Access(_)
            | Self::Store(_)
            | Self::Tar(_)
            | Self::Cancelled => false,
        }
    }
}

/// Reports whether the cause is the content of the image and not its registry or the disk.
fn is_of_content(error: &unpacker::Error) -> bool {
    use unpacker::Error as E;
    match error {
        E::Unpack { source, .. } | E::Layer { source, .. } => is_of_content(source),
        E::Shared(error) => is_of_content(error),
        E::Content(_)
        | E::Name { .. }
        | E::NotArchive { .. }
        | E::Corrupt { .. }
        | E::Refused { .. }
        | E::ImageTooLarge { .. }
        | E::TooLong { .. }
        | E::Oci(_) => error.is_terminal(),
        _ => false,
    }
}

fn is_of_catalog(error: &catalog::Error) -> bool {
    !matches!(error, catalog::Error::Directory { .. })
}

/// Reports whether the cause is the content of the catalog.
fn is_unservable(error: &registry_server::Error) -> bool {
    use registry::{Error as E, StoreError};
    match error {
        registry_server::Error::Empty { .. } => true,
        registry_server::Error::Database(error) => sqlite::Error::is_terminal(error),
        registry_server::Error::Catalog(E::Source(error)) => is_of_catalog(error),
        // A store that was just built is damaged, or the store exceeds the global limit. Exceeded quotas are other errors.
        registry_server::Error::Catalog(E::Store(error)) => matches!(
            error,
            StoreError::Damaged { .. } | StoreError::TooLarge { .. }
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn empty() -> Error {
        let (catalog, found) = ("a/b".to_owned(), String::new());
        Error::Empty { catalog, found }
    }

    #[test]
    fn content_errors_are_terminal_and_others_transient() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let within = |source| {
            let (name, source) = ("a".to_owned(), Box::new(source));
            unpacker::Error::Layer { name, source }
        };
        let serving = |error| Error::Serving(registry_server::Error::Catalog(error));
        let (path, total) = (std::path::PathBuf::from("a"), std::time::Duration::ZERO);
        assert_each!(|error, expected| error.is_terminal() => expected;
            empty() => true;
            Error::Rejected("no".to_owned()) => true;
            catalog::Error::TooLarge { limit: 1, unit: "bytes" }.into() => true;
            catalog::Error::Directory { path: path.clone(), source: full() }.into() => false;
            unpacker::Error::TooLong { limit: 1 }.into() => true;
            within(unpacker::Error::TooLong { limit: 1 }).into() => true;
            unpacker::Error::Timeout { what: "a".to_owned(), total }.into() => false;
            within(unpacker::Error::Spool { directory: path.clone(), source: full() }).into() => false;
            unpacker::Error::Empty.into() => false;
            registry_server::Error::Empty { left_out: None }.into() => true;
            serving(catalog::Error::TooLarge { limit: 1, unit: "bytes" }.into()) => true;
            serving(catalog::Error::Directory { path: path.clone(), source: full() }.into()) => false;
            serving(registry::StoreError::Damaged { path: path.clone(), problem: "its index lies outside the file" }.into()) => true;
            serving(registry::StoreError::TooLarge { most: 1 }.into()) => true;
            serving(registry::StoreError::File { action: "write", path, source: full() }.into()) => false;
            registry_server::Error::ShuttingDown.into() => false;
            full().into() => false;
            Error::Cancelled => false;
        );
    }

    #[test]
    fn unchanged_image_stays_rejected() {
        let digest = || Some("sha256:a".to_owned());
        let rejected = RejectedImage::from_error(&empty(), digest(), true).unwrap();
        let again = rejected.same_error("sha256:a", true).unwrap();
        assert_rows! {
            RejectedImage::from_error(&empty(), None, true) => None;
            RejectedImage::from_error(&Error::Cancelled, digest(), true) => None;
            (again.to_string(), again.is_terminal()) => (empty().to_string(), true);
            rejected.same_error("sha256:b", true).is_none() => true;
            rejected.same_error("sha256:a", false).is_none() => true;
        }
    }
}
