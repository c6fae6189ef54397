//! Numbers in place of strings. Pure; no I/O.

use serde_json::{Number, Value};

use super::maximum;
use crate::{object::shortened, yaml};

/// Maximum length of a spelling that a message repeats, in characters.
const MAX_SHOWN: usize = 40;
/// Maximum length of a number that is read again, in bytes.
const MAX_NUMBER: usize = 400;

/// A max OpenShift version that a file declares as an unquoted number.
///
/// The spelling decides, as [`maximum`] reads it: YAML and Go make 4.1 of `4.10`, and 4.8 of `+4.8`. Bundles and catalogs
/// share this decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unquoted(String);

impl Unquoted {
    /// Takes the spelling of the number in the file.
    pub fn new(spelling: &str) -> Self {
        Self(spelling.to_owned())
    }

    /// Returns the spelling of the number in the file.
    pub fn spelling(&self) -> &str {
        &self.0
    }

    /// Returns the JSON string with the spelling. Rendered and served catalogs have this value.
    pub fn to_json(&self) -> String {
        Value::from(self.spelling()).to_string()
    }

    /// Returns the message about the value of `subject`.
    ///
    /// ```
    /// use manifests::openshift::Unquoted;
    /// assert_eq!(
    ///     Unquoted::new("4.10").message("property a"),
    ///     "property a is the unquoted number 4.10; other programs read it as 4.1"
    /// );
    /// assert_eq!(Unquoted::new("4.8").message("property a"), "property a is the unquoted number 4.8");
    /// ```
    pub fn message(&self, subject: &str) -> String {
        let shown = shortened(self.spelling(), MAX_SHOWN);
        let read_as =
            number(self.spelling()).map(|number| shortened(&number.to_string(), MAX_SHOWN));
        match read_as.filter(|read_as| *read_as != shown) {
            Some(read_as) => format!(
                "{subject} is the unquoted number {shown}; other programs read it as {read_as}"
            ),
            None => format!("{subject} is the unquoted number {shown}"),
        }
    }

    /// Returns the imperative that follows the message. Quotes help only a number that is a release.
    ///
    /// ```
    /// use manifests::openshift::Unquoted;
    /// assert_eq!(Unquoted::new("4.10").remedy(), "write \"4.10\"");
    /// assert_eq!(Unquoted::new("+4.8").remedy(), "write a string such as \"4.16\"");
    /// ```
    pub fn remedy(&self) -> String {
        remedy(self.spelling())
    }
}

/// Returns the imperative for a value that is not a string.
pub(super) fn remedy(spelling: &str) -> String {
    match maximum(spelling) {
        Ok(_) => format!("write \"{}\"", spelling.trim()),
        Err(_) => "write a string such as \"4.16\"".to_owned(),
    }
}

/// Returns the number that YAML and JSON readers make of an unquoted scalar; `None` for any other text.
pub(super) fn number(spelling: &str) -> Option<Number> {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_');
    if spelling.len() > MAX_NUMBER || !spelling.bytes().all(is_plain) {
        return None;
    }
    match yaml::documents(spelling.as_bytes()).next()?.ok()? {
        Value::Number(number) => Some(number),
        _ => None,
    }
}
