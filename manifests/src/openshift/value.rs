//! Value of a max OpenShift version. Pure; no I/O.

use std::borrow::Cow;

use super::{MAX_PROPERTY, Release};
use crate::object::truncate;

/// Maximum length of a value in an error, in characters.
const MAX_QUOTED: usize = 60;

/// Error of a value that is not a max OpenShift version. Every command and condition shows this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMaximumError {
    /// The value is empty, or white space.
    #[error("max OpenShift version cannot be determined: the value is empty")]
    Empty,
    /// The value is malformed.
    #[error("max OpenShift version cannot be determined: {0:?} is not <major>.<minor>")]
    NotARelease(String),
    /// Several properties declare different values.
    #[error(
        "max OpenShift version cannot be determined: more than one {MAX_PROPERTY} property: {0:?}"
    )]
    Several(String),
    /// The annotation that lists the properties is malformed.
    #[error(
        "max OpenShift version cannot be determined: the annotation is not a JSON list of properties"
    )]
    Unreadable,
    /// The annotation has a value of another type, with this spelling.
    #[error(
        "max OpenShift version cannot be determined: {0} is not a string, and annotations must be strings"
    )]
    NotAString(String),
}

/// Parses a max OpenShift version: the JSON text of a property's value, or the text of an annotation. Strings and numbers
/// are equivalent, `4.10` remains 4.10, and surrounding white space is ignored.
///
/// # Errors
/// Returns an error if the value is not `<major>.<minor>`: a patch release, a range, a leading `v` or zero.
///
/// ```
/// use manifests::openshift::{Release, maximum};
/// assert_eq!(maximum("4.10"), Ok(Release::new(4, 10)));
/// assert_eq!(maximum("\" 4.10 \""), Ok(Release::new(4, 10)));
/// assert_eq!(
///     maximum("\"v4.8\"").unwrap_err().to_string(),
///     "max OpenShift version cannot be determined: \"v4.8\" is not <major>.<minor>"
/// );
/// ```
pub fn maximum(text: &str) -> Result<Release, ParseMaximumError> {
    let decoded = decoded(text);
    let bare = decoded.trim();
    if bare.is_empty() {
        return Err(ParseMaximumError::Empty);
    }
    Release::read(bare).ok_or_else(|| ParseMaximumError::NotARelease(quotable(bare)))
}

/// Decodes a JSON string, and returns any other text unchanged.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    let bare = text.trim();
    let string = bare
        .starts_with('"')
        .then(|| serde_json::from_str::<String>(bare).ok());
    string.flatten().map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Truncates a value for an error.
pub(super) fn quotable(text: &str) -> String {
    truncate(text, MAX_QUOTED)
}
