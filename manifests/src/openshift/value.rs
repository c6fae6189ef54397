//! The value of a max OpenShift version. Pure; no I/O.

use std::borrow::Cow;

use super::{MAX_PROPERTY, Release};
use crate::object::shortened;

/// Characters of a value that an error repeats.
const MAX_QUOTED: usize = 60;

/// An error of a value from which no max OpenShift version can be determined. Every command and condition shows this text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMaximumError {
    /// The value has no characters but white space.
    #[error("max OpenShift version cannot be determined: the value is empty")]
    Empty,
    /// The value has another form.
    #[error("max OpenShift version cannot be determined: {0:?} is not <major>.<minor>")]
    NotARelease(String),
    /// Several properties declare different values.
    #[error(
        "max OpenShift version cannot be determined: more than one {MAX_PROPERTY} property: {0:?}"
    )]
    Several(String),
    /// The annotation that lists the properties is malformed.
    #[error("max OpenShift version cannot be determined: the annotation is not JSON of properties")]
    Unreadable,
    /// The annotation has another kind of value, which is spelled like this.
    #[error(
        "max OpenShift version cannot be determined: {0} is not a string, and annotations must be strings"
    )]
    NotAString(String),
}

/// Parses a max OpenShift version: the JSON text of a property's value, or the text of an annotation. Strings and numbers
/// mean the same, `4.10` stays 4.10, and white space around the release is ignored.
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

/// Decodes a JSON string; returns any other text unchanged.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    let bare = text.trim();
    let string = bare
        .starts_with('"')
        .then(|| serde_json::from_str::<String>(bare).ok());
    string.flatten().map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns as much of a value as an error repeats.
pub(super) fn quotable(text: &str) -> String {
    shortened(text, MAX_QUOTED)
}
