//! Unquoted numbers where strings are expected. Pure; no I/O.

use serde_json::{Number, Value};

use super::maximum;
use crate::{object::truncate, yaml};

/// Maximum length of a spelling in a message, in characters.
const MAX_SHOWN: usize = 40;
/// Maximum length of a number that is parsed, in bytes.
const MAX_NUMBER: usize = 400;

/// A max OpenShift version that a file declares as an unquoted number.
///
/// [`maximum`] parses the spelling, because YAML and Go convert `4.10` to 4.1, and `+4.8` to 4.8. Bundles and catalogs
/// share this behavior.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unquoted(String);

impl Unquoted {
    /// Creates a value from the spelling of the number in the file.
    pub fn new(spelling: &str) -> Self {
        Self(spelling.to_owned())
    }

    /// Returns the spelling of the number in the file.
    pub fn spelling(&self) -> &str {
        &self.0
    }

    /// Returns the spelling as a JSON string, which rendered and served catalogs contain.
    pub fn to_json(&self) -> String {
        Value::from(self.spelling()).to_string()
    }

    /// Returns the message for the value of `subject`.
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
        let spelling = truncate(self.spelling(), MAX_SHOWN);
        let read_as =
            number(self.spelling()).map(|number| truncate(&number.to_string(), MAX_SHOWN));
        match read_as.filter(|read_as| *read_as != spelling) {
            Some(read_as) => format!(
                "{subject} is the unquoted number {spelling}; other programs read it as {read_as}"
            ),
            None => format!("{subject} is the unquoted number {spelling}"),
        }
    }

    /// Returns the remedy that follows the message, in the imperative. Quotes are suggested only for a number that is a
    /// release.
    ///
    /// ```
    /// use manifests::openshift::Unquoted;
    /// assert_eq!(Unquoted::new("4.10").remedy(), "use \"4.10\"");
    /// assert_eq!(Unquoted::new("+4.8").remedy(), "use a string such as \"4.16\"");
    /// ```
    pub fn remedy(&self) -> String {
        remedy(self.spelling())
    }
}

/// Returns the remedy for a value that is not a string.
pub(super) fn remedy(spelling: &str) -> String {
    match maximum(spelling) {
        Ok(_) => format!("use \"{}\"", spelling.trim()),
        Err(_) => "use a string such as \"4.16\"".to_owned(),
    }
}

/// Returns the number to which YAML and JSON parsers convert an unquoted scalar, or `None` for any other text.
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
