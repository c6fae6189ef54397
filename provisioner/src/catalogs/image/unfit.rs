//! Images that can never be catalogs. What one has is looked at once: it may take minutes, and others wait meanwhile.

use catalog::{registry, sqlite};

use super::{Error, serving};

/// An image that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::catalogs) struct Unfit {
    /// As its registry names it.
    digest: String,
    /// Whether it was to be served, too: more can be read than that.
    is_served: bool,
    why: String,
}

// === impl Unfit ===

impl Unfit {
    /// What is to be kept in mind of a failure, if it is one for good.
    pub(in crate::catalogs) fn of(
        error: &Error,
        digest: Option<String>,
        is_served: bool,
    ) -> Option<Self> {
        let digest = digest.filter(|_| error.is_for_good())?;
        Some(Self {
            digest,
            is_served,
            why: unpacker::job::chain(error),
        })
    }

    /// The same failure, where an image is still the same.
    pub(in crate::catalogs) fn again(&self, digest: &str, is_served: bool) -> Option<Error> {
        let is_same = self.digest == digest && self.is_served == is_served;
        is_same.then(|| Error::Unfit(self.why.clone()))
    }
}

// === impl Error ===

impl Error {
    /// Reports whether the same image fails again however often it is read.
    pub(in crate::catalogs) fn is_for_good(&self) -> bool {
        match self {
            Self::Unfit(_) | Self::Empty { .. } => true,
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

/// Reports whether it is what an image has that cannot be unpacked: neither its registry, nor the disk.
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
    !matches!(error, catalog::Error::Folder { .. })
}

/// Reports whether it is what a catalog has that cannot be served.
fn is_unservable(error: &serving::Error) -> bool {
    use registry::{Error as E, StoreError};
    match error {
        serving::Error::Empty { .. } => true,
        serving::Error::Database(error) => sqlite::Error::is_terminal(error),
        serving::Error::Catalog(E::Source(error)) => is_of_catalog(error),
        // One that was just made, or is larger than anybody may have it: a namespace's share is told of in another way.
        serving::Error::Catalog(E::Store(error)) => matches!(
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
        Error::Empty {
            catalog: "a/b".to_owned(),
            found: String::new(),
        }
    }

    fn full() -> io::Error {
        io::ErrorKind::StorageFull.into()
    }

    #[test]
    fn what_an_image_has_is_looked_at_once_and_other_failures_may_pass() {
        let within = |source| unpacker::Error::Layer {
            name: "a".to_owned(),
            source: Box::new(source),
        };
        let serving = |error| Error::Serving(serving::Error::Catalog(error));
        let (path, total) = (std::path::PathBuf::from("a"), std::time::Duration::ZERO);
        for (error, expected) in ::tests::rows![
            empty() => true;
            Error::Unfit("no".to_owned()) => true;
            catalog::Error::TooLarge { limit: 1, unit: "bytes" }.into() => true;
            catalog::Error::Folder { path: path.clone(), source: full() }.into() => false;
            unpacker::Error::TooLong { limit: 1 }.into() => true;
            within(unpacker::Error::TooLong { limit: 1 }).into() => true;
            unpacker::Error::Slow { what: "a".to_owned(), total }.into() => false;
            within(unpacker::Error::Spool { folder: path.clone(), source: full() }).into() => false;
            unpacker::Error::Empty.into() => false;
            serving::Error::Empty { left_out: None }.into() => true;
            serving(catalog::Error::TooLarge { limit: 1, unit: "bytes" }.into()) => true;
            serving(catalog::Error::Folder { path: path.clone(), source: full() }.into()) => false;
            serving(registry::StoreError::Damaged { path: path.clone(), problem: "its index lies outside of it" }.into()) => true;
            serving(registry::StoreError::TooLarge { most: 1 }.into()) => true;
            serving(registry::StoreError::File { action: "write", path, source: full() }.into()) => false;
            serving::Error::Told("no".to_owned()).into() => false;
            serving::Error::Ended.into() => false;
            full().into() => false;
            Error::Cancelled => false;
        ] {
            assert_eq!(error.is_for_good(), expected, "{error:?}");
        }
    }

    #[test]
    fn an_image_that_is_still_the_same_is_still_unfit() {
        assert_eq!(Unfit::of(&empty(), None, true), None);
        assert_rows!(Unfit::of(&Error::Cancelled, Some("sha256:a".to_owned()), true) => None);
        let unfit = Unfit::of(&empty(), Some("sha256:a".to_owned()), true).unwrap();
        let again = unfit.again("sha256:a", true).unwrap();
        assert_eq!(again.to_string(), empty().to_string());
        assert!(again.is_for_good());
        assert!(unfit.again("sha256:b", true).is_none());
        assert!(unfit.again("sha256:a", false).is_none());
    }
}
