//! Lenient parser of OLM v0 for `olm.maxOpenShiftVersion`.
//!
//! OLM v0 accepts more forms than [`super::maximum`], and blocks cluster upgrades for every form that it rejects. It reads
//! only one annotation. Callers compare both results to explain why OLM's ClusterOperator and the upgrade gate differ, and
//! the effect in OLM v0 of a value that is not `<major>.<minor>`. Pure; no I/O.

use std::fmt;

use serde_json::value::RawValue;

use super::{MAX_PROPERTY, Release, properties};
use crate::{object::truncate, version};

/// Maximum length of the quoted value, in characters.
const MAX_QUOTED: usize = 60;
/// Maximum length of a repeated error of OLM v0, in characters.
const MAX_ERROR: usize = 200;

/// Error with which OLM v0 rejects a value, in OLM's wording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OlmV0Error {
    /// The value is empty.
    #[error("value cannot be \"\" (an empty string)")]
    Empty,
    /// The value is not a version.
    #[error("failed to parse {text:?} as semver: {problem}")]
    NotSemver {
        /// The value, truncated.
        text: String,
        /// The error of the parser.
        problem: String,
    },
    /// The version has a patch or a pre-release.
    #[error(
        "property {MAX_PROPERTY} must specify only <major>.<minor> version, got invalid value {0}"
    )]
    NotMinor(String),
    /// The annotation is not a JSON object with a list of properties.
    #[error("failed to unmarshal properties annotation: {0}")]
    Malformed(String),
    /// The annotation declares several values.
    #[error("defining more than one {MAX_PROPERTY:?} property is not allowed")]
    Several,
}

/// Parses the JSON text of a property's value. `4`, `v4.8`, `4.08` and `4.8.0` are releases for OLM v0.
///
/// # Errors
/// Returns an error if the value is not a version, or has a patch other than 0 or a pre-release.
///
/// ```
/// use manifests::openshift::{Release, olm_v0};
/// assert_eq!(olm_v0::read("\"v4.8\""), Ok(Release::new(4, 8)));
/// assert!(olm_v0::read("\"4.8.1\"").is_err());
/// ```
pub fn read(json: &str) -> Result<Release, OlmV0Error> {
    let text = json.trim_matches('"');
    if text.is_empty() {
        return Err(OlmV0Error::Empty);
    }
    let version = version::parse_lenient(text).map_err(|error| OlmV0Error::NotSemver {
        text: truncate(text, MAX_QUOTED),
        problem: match error {
            version::Error::Version { problem, .. } => problem,
            kube @ version::Error::Kube { .. } => kube.to_string(),
        },
    })?;
    // Build metadata does not affect the precedence of versions.
    if version.patch != 0 || !version.pre.is_empty() {
        let version = truncate(&version.to_string(), MAX_QUOTED);
        return Err(OlmV0Error::NotMinor(version));
    }
    Ok(Release::new(version.major, version.minor))
}

/// Parses the value of [`INSTALLED_PROPERTIES_ANNOTATION`](super::INSTALLED_PROPERTIES_ANNOTATION), the only annotation
/// that OLM v0 reads. Returns `None` if it declares no max OpenShift version.
///
/// # Errors
/// Returns an error if the annotation is malformed, or declares several values or one that [`read`] rejects.
///
/// ```
/// use manifests::openshift::{Release, olm_v0};
/// let text = r#"{"properties": [{"type": "olm.maxOpenShiftVersion", "value": 4.10}]}"#;
/// assert_eq!(olm_v0::read_annotation(text), Ok(Some(Release::new(4, 10))));
/// assert_eq!(olm_v0::read_annotation("{}"), Ok(None));
/// ```
pub fn read_annotation(text: &str) -> Result<Option<Release>, OlmV0Error> {
    let list = properties::parse_installed(text);
    let list = list.map_err(|error| OlmV0Error::Malformed(error.to_string()))?;
    let mut declared = list
        .into_iter()
        .filter(|property| property.type_ == MAX_PROPERTY);
    match (declared.next(), declared.next()) {
        (None, _) => Ok(None),
        (Some(property), None) => {
            read(property.value.as_deref().map_or("", RawValue::get)).map(Some)
        }
        (Some(_), Some(_)) => Err(OlmV0Error::Several),
    }
}

/// Result of OLM v0 for the `olm.maxOpenShiftVersion` properties of one ClusterServiceVersion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OlmV0 {
    /// OLM v0 finds no value, and blocks no upgrades.
    Unspecified,
    /// OLM v0 reads this release, and blocks upgrades of the cluster beyond it.
    Release(Release),
    /// OLM v0 rejects the value with this error, and blocks every minor upgrade of the cluster.
    Invalid(String),
    /// OLM v0 fails to decode the ClusterServiceVersion, and does not install it.
    Undecodable,
}

impl OlmV0 {
    /// Parses the JSON texts of the values like OLM v0, with its error messages.
    ///
    /// ```
    /// use manifests::openshift::{OlmV0, Release};
    /// assert_eq!(OlmV0::read(["\"v4.8\""]), OlmV0::Release(Release::new(4, 8)));
    /// assert_eq!(OlmV0::read(["4"]), OlmV0::Release(Release::new(4, 0)));
    /// assert!(matches!(OlmV0::read(["\"4.8.1\""]), OlmV0::Invalid(_)));
    /// assert!(matches!(OlmV0::read(["\"4.8\"", "\"4.8\""]), OlmV0::Invalid(_)));
    /// ```
    pub fn read<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (None, _) => Self::Unspecified,
            (Some(json), None) => match read(json) {
                Ok(release) => Self::Release(release),
                Err(error) => Self::from(&error),
            },
            (Some(_), Some(_)) => Self::from(&OlmV0Error::Several),
        }
    }
}

impl From<&OlmV0Error> for OlmV0 {
    fn from(error: &OlmV0Error) -> Self {
        Self::Invalid(truncate(&error.to_string(), MAX_ERROR))
    }
}

impl fmt::Display for OlmV0 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspecified => f.write_str("OLM v0 ignores the value"),
            Self::Release(release) => write!(
                f,
                "OLM v0 reads {release} and blocks upgrades of the cluster beyond {release}"
            ),
            Self::Invalid(error) => write!(
                f,
                "OLM v0 rejects the value and blocks every minor upgrade of the cluster ({error})"
            ),
            Self::Undecodable => f.write_str("OLM v0 rejects the ClusterServiceVersion"),
        }
    }
}

#[cfg(test)]
mod tests {
    use ::tests::table::assert_outcome;

    use super::*;

    // parity: max-olm-1
    #[test]
    fn values_have_the_reading_of_olm_v0() {
        let patch = "property olm.maxOpenShiftVersion must specify only <major>.<minor> version, got invalid value *";
        for (values, expected) in ::tests::rows![
            &[r#""4.8""#, "4.8", r#"" 4.8 ""#, r#""4.8.0""#, r#""v4.8""#, r#""4.08""#, r#""04.8""#, r#""4.8.0+b""#][..]
                => Ok((4, 8));
            &["4.10"] => Ok((4, 10));
            &[r#""4""#, "4"] => Ok((4, 0));
            &["5.0"] => Ok((5, 0));
            &[r#""""#] => Err("value cannot be \"\" (an empty string)*");
            &[
                r#"" ""#, r#""4.8-rc""#, r#""4.8+b""#, r#""V4.8""#, r#""vv4.8""#, r#""4.x""#, r#""4.8.""#,
                r#""latest""#, "true", r#"["4.8"]"#, "4.8e0", "-4.8",
            ] => Err("failed to parse*");
            &[r#""4.8.1""#, r#""4.8.0-rc.1""#] => Err(patch);
            &["null"] => Err("failed to parse \"null\" as semver*");
        ] {
            let expected = expected.map(|(major, minor)| Release::new(major, minor));
            for &json in values {
                assert_outcome(read(json), expected, json);
            }
        }
    }

    #[test]
    fn annotations_declare_one_value_or_none() {
        let max =
            |value: &str| format!(r#"{{"type": "olm.maxOpenShiftVersion", "value": {value}}}"#);
        let list = |properties: &str| format!(r#"{{"properties": [{properties}]}}"#);
        // The tests of `properties` have more spellings and malformed lists.
        for (text, expected) in ::tests::rows![
            "{}".to_owned() => Ok(None);
            list(r#"{"value": 4.8}"#) => Ok(None);
            list(r#"{"type": "olm.package", "value": {}}"#) => Ok(None);
            list(&max("4.10")) => Ok(Some((4, 10)));
            list(&max("\"4.8.0\"")) => Ok(Some((4, 8)));
            // The last of equal fields is used.
            list(r#"{"type": "a", "Type": "olm.maxOpenShiftVersion", "Value": "4.9", "value": "4.8"}"#) => Ok(Some((4, 8)));
            list(&max("\"4.8.1\"")) => Err("property olm.maxOpenShiftVersion must*");
            list(r#"{"type": "olm.maxOpenShiftVersion"}"#) => Err("value cannot be \"\" (an empty string)*");
            list(&[max("4.8"), max("4.8")].join(","))
                => Err("defining more than one \"olm.maxOpenShiftVersion\" property is not allowed*");
            "garbage".to_owned() => Err("failed to unmarshal properties annotation: *");
            list(&"[".repeat(100_000)) => Err("failed to unmarshal properties annotation: *");
        ] {
            let release = |(major, minor)| Release::new(major, minor);
            let expected = expected.map(|declared: Option<_>| declared.map(release));
            let excerpt: String = text.chars().take(80).collect();
            assert_outcome(read_annotation(&text), expected, excerpt);
        }
    }

    #[test]
    fn errors_quote_values_in_part() {
        for hostile in [
            "x".repeat(100_000),
            format!("4.8.1-{}", "x".repeat(100_000)),
            "4.8\n\u{202e}".to_owned(),
        ] {
            let error = read(&hostile).unwrap_err().to_string();
            assert_rows!(error.len() < 300 && !error.contains(['\n', '\u{202e}']) => true, "{error}");
        }
    }

    #[test]
    fn messages_describe_what_olm_v0_blocks() {
        assert_each!(|values, expected| OlmV0::read(values.iter().copied()).to_string() => expected;
            &[][..] => "OLM v0 ignores the value";
            &["\"4.8.0\""] => "OLM v0 reads 4.8 and blocks upgrades of the cluster beyond 4.8";
            &["\"4\""] => "OLM v0 reads 4.0 and blocks upgrades of the cluster beyond 4.0";
            &["\"4.8.1\""]
                => "OLM v0 rejects the value and blocks every minor upgrade of the cluster (property olm.maxOpenShiftVersion \
                 must specify only <major>.<minor> version, got invalid value 4.8.1)";
            &["\"4.8\"", "4.8"]
                => "OLM v0 rejects the value and blocks every minor upgrade of the cluster (defining more than one \
                 \"olm.maxOpenShiftVersion\" property is not allowed)";
        );
        assert_rows!(OlmV0::read([&*format!("\"{}\"", "x".repeat(10_000))]).to_string().len() < 400 => true);
    }
}
