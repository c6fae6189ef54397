//! The max OpenShift version of a bundle, determined from all of its declarations. Directories, images, catalogs of any
//! kind and installed ClusterServiceVersions share this decision, so that a bundle has the same version everywhere. Pure;
//! no I/O.
//!
//! The first list of properties with a valid value takes precedence, in the order of [`Spelling`]. The key and the
//! annotation of the enhancement take effect if they are lower, or if no property is valid: the lower version protects the
//! cluster.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
};

use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::RawValue;

use super::{
    INSTALLED_PROPERTIES_ANNOTATION, MAX_ANNOTATION, MAX_PROPERTY, OlmV0, PROPERTIES_ANNOTATION,
    ParseMaximumError, Release, maximum,
    olm_v0::OlmV0Error,
    properties::{self, Property},
    unquoted, value,
};
use crate::object::truncate;

/// Maximum number of stored values of one spelling.
const MAX_VALUES: usize = 10;
/// Maximum length of a stored value, in characters.
const MAX_VALUE: usize = 1000;

/// A location that can declare the max OpenShift version of a bundle, in the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spelling {
    /// The properties of a bundle: `metadata/properties.yaml`, and the annotation `olm.properties`.
    BundleProperties,
    /// The properties of a bundle in a catalog.
    CatalogProperties,
    /// The key `operators.coreos.com/maxOpenShiftVersion` of a bundle in a catalog.
    CatalogKey,
    /// The annotation `operatorframework.io/properties`, which OLM writes during the installation.
    InstalledProperties,
    /// The annotation `olm.properties`, if no other list of properties declares a value.
    PropertiesAnnotation,
    /// The annotation `operators.coreos.com/maxOpenShiftVersion`.
    Annotation,
}

impl Spelling {
    /// Returns the key of the annotation, or `None` for properties.
    pub const fn annotation(self) -> Option<&'static str> {
        match self {
            Self::BundleProperties | Self::CatalogProperties | Self::CatalogKey => None,
            Self::InstalledProperties => Some(INSTALLED_PROPERTIES_ANNOTATION),
            Self::PropertiesAnnotation => Some(PROPERTIES_ANNOTATION),
            Self::Annotation => Some(MAX_ANNOTATION),
        }
    }

    /// Reports whether the value takes effect only if it is lower than that of the properties, or the only valid one.
    const fn is_subordinate(self) -> bool {
        matches!(self, Self::CatalogKey | Self::Annotation)
    }
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.annotation()) {
            (_, Some(annotation)) => write!(f, "annotation {annotation}"),
            (Self::BundleProperties, None) => f.write_str("bundle properties"),
            (Self::CatalogKey, None) => write!(f, "key {MAX_ANNOTATION}"),
            (_, None) => f.write_str("catalog properties"),
        }
    }
}

/// The value of an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Annotation<'a> {
    /// The text of a string.
    String(Cow<'a, str>),
    /// The spelling of a value that is not a string.
    Other(Cow<'a, str>),
}

/// A declared max OpenShift version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxOpenShiftVersion {
    /// The value in its original form, without the quotes of a JSON string.
    pub raw: String,
    /// The location of the value.
    pub source: Spelling,
    /// The release, or the reason why it cannot be determined.
    pub version: Result<Release, ParseMaximumError>,
}

impl MaxOpenShiftVersion {
    /// Parses the JSON text of a property's value, the spelling of a number, or the text of an annotation.
    pub fn new(text: &str, source: Spelling) -> Self {
        Self {
            raw: truncate(&value::decoded(text), MAX_VALUE),
            source,
            version: maximum(text),
        }
    }

    fn is_several(&self) -> bool {
        matches!(self.version, Err(ParseMaximumError::Several(_)))
    }

    /// Returns the release, if it can be determined.
    pub fn release(&self) -> Option<Release> {
        self.version.as_ref().ok().copied()
    }

    /// Returns the text for a status. [`maximum`] parses it to the same release, or also to an error.
    pub fn text(&self) -> String {
        match &self.version {
            Ok(release) => release.to_string(),
            // For example, a JSON string within a JSON string.
            Err(error) if maximum(&self.raw).is_ok() => error.to_string(),
            Err(_) => self.raw.clone(),
        }
    }
}

impl Serialize for MaxOpenShiftVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("MaxOpenShiftVersion", 3)?;
        out.serialize_field("raw", &self.raw)?;
        out.serialize_field("source", &self.source.to_string())?;
        match &self.version {
            Ok(version) => out.serialize_field("version", version)?,
            Err(problem) => out.serialize_field("problem", &problem.to_string())?,
        }
        out.end()
    }
}

/// All values that a bundle declares, by location.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declarations(BTreeMap<Spelling, Declared>);

/// The values of one location.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Declared {
    /// The texts of the values; never empty.
    Values(Vec<String>),
    /// An annotation that is not a JSON list of properties, with the error of OLM v0.
    Malformed { text: String, error: OlmV0Error },
    /// The spelling of an annotation that is not a string.
    NotAString(String),
}

impl Declarations {
    /// Adds the JSON text of a property's value, the spelling of a number in YAML, or the text of the annotation. Two
    /// properties in one list are invalid even if their values are equal, as in OLM.
    pub fn add(&mut self, spelling: Spelling, text: &str) {
        // Every release is shorter, and the text may have megabytes.
        let text = truncate(text.trim(), MAX_VALUE);
        match self.0.entry(spelling) {
            Entry::Vacant(entry) => {
                entry.insert(Declared::Values(vec![text]));
            }
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Declared::Values(values) => {
                    if values.len() < MAX_VALUES {
                        values.push(text);
                    }
                }
                Declared::Malformed { .. } | Declared::NotAString(_) => {}
            },
        }
    }

    /// Adds the declarations in the annotations of a ClusterServiceVersion.
    pub fn add_annotations<'a>(&mut self, annotation: impl Fn(&str) -> Option<Annotation<'a>>) {
        if let Some(Annotation::String(text) | Annotation::Other(text)) =
            annotation(INSTALLED_PROPERTIES_ANNOTATION)
        {
            let list = properties::parse_installed(&text);
            self.add_list(Spelling::InstalledProperties, &text, list);
        }
        if let Some(Annotation::String(text) | Annotation::Other(text)) =
            annotation(PROPERTIES_ANNOTATION)
        {
            let list = if text.trim().is_empty() {
                Ok(Vec::new())
            } else {
                properties::parse_list(&text)
            };
            self.add_list(Spelling::PropertiesAnnotation, &text, list);
        }
        match annotation(MAX_ANNOTATION) {
            None => {}
            Some(Annotation::String(text)) => self.add(Spelling::Annotation, &text),
            Some(Annotation::Other(spelling)) => {
                let declared = Declared::NotAString(truncate(&spelling, MAX_VALUE));
                self.0.entry(Spelling::Annotation).or_insert(declared);
            }
        }
    }

    /// Adds the locations of `other` that are missing here.
    pub fn complete_with(&mut self, other: Self) {
        for (spelling, declared) in other.0 {
            self.0.entry(spelling).or_insert(declared);
        }
    }

    /// Chooses the effective value.
    pub fn decide(&self) -> Decision {
        let mut decision = Decision::default();
        for (spelling, declared) in &self.0 {
            decision.consider(declared.read(*spelling), declared.olm_v0(*spelling));
        }
        decision
    }

    fn add_list(
        &mut self,
        spelling: Spelling,
        text: &str,
        list: Result<Vec<Property>, serde_json::Error>,
    ) {
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                let text = truncate(text, MAX_VALUE);
                let error = OlmV0Error::Malformed(error.to_string());
                let malformed = Declared::Malformed { text, error };
                self.0.entry(spelling).or_insert(malformed);
                return;
            }
        };
        let list = list.iter();
        let mut values = BTreeSet::new();
        for property in list.filter(|property| property.type_ == MAX_PROPERTY) {
            let value = property.value.as_deref().map_or("", RawValue::get);
            // opm deduplicates equal properties of the bundle author; OLM rejects two properties that it wrote itself.
            let is_new = values.insert(value.to_owned());
            if is_new || spelling != Spelling::PropertiesAnnotation {
                self.add(spelling, value);
            }
        }
    }
}

impl Declared {
    fn read(&self, source: Spelling) -> MaxOpenShiftVersion {
        match self {
            Self::Values(values) => match values.as_slice() {
                [one] => MaxOpenShiftVersion::new(one, source),
                several => {
                    let several = several.iter().map(|text| value::decoded(text));
                    let mut several: Vec<_> = several.collect();
                    // opm sorts properties, so the message is the same for each source.
                    several.sort_unstable();
                    let raw = truncate(&several.join(", "), MAX_VALUE);
                    MaxOpenShiftVersion {
                        version: Err(ParseMaximumError::Several(value::quotable(&raw))),
                        raw,
                        source,
                    }
                }
            },
            Self::Malformed { text, .. } => MaxOpenShiftVersion {
                raw: text.clone(),
                source,
                version: Err(ParseMaximumError::Unreadable),
            },
            Self::NotAString(spelling) => MaxOpenShiftVersion {
                raw: spelling.clone(),
                source,
                version: Err(ParseMaximumError::NotAString(value::quotable(spelling))),
            },
        }
    }

    /// Returns the interpretation of OLM v0: of the properties that opm adds to a catalog, with shortened numbers, and of
    /// the annotation that OLM v0 writes. OLM v0 ignores all other annotations and the key.
    fn olm_v0(&self, spelling: Spelling) -> OlmV0 {
        match (self, spelling) {
            (Self::NotAString(_), _) => OlmV0::Undecodable,
            (Self::Values(values), Spelling::BundleProperties | Spelling::CatalogProperties) => {
                let numbers = values.iter().map(|text| unquoted::number(text));
                let texts: Vec<_> = (values.iter().zip(numbers))
                    .map(|(text, number)| number.map_or(text.clone(), |number| number.to_string()))
                    .collect();
                OlmV0::read(texts.iter().map(String::as_str))
            }
            (Self::Values(values), Spelling::InstalledProperties) => {
                OlmV0::read(values.iter().map(String::as_str))
            }
            (Self::Malformed { error, .. }, Spelling::InstalledProperties) => OlmV0::from(error),
            _ => OlmV0::Unspecified,
        }
    }
}

/// The effective value, and the problems of all other values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The effective value, or `None` if the bundle declares no value.
    pub declared: Option<MaxOpenShiftVersion>,
    /// The values that are invalid, or differ from the effective value.
    pub problems: Vec<Problem>,
}

/// A value that its author must correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The version cannot be determined from this value.
    Undeterminable {
        /// The declared value and its location.
        declared: MaxOpenShiftVersion,
        /// Reason why the value is not a release.
        error: ParseMaximumError,
        /// The interpretation of OLM v0.
        olm_v0: OlmV0,
    },
    /// A property and the key or the annotation differ.
    Differs {
        /// The lower value, which is effective.
        lower: MaxOpenShiftVersion,
        /// The higher value, which is ignored.
        higher: MaxOpenShiftVersion,
    },
    /// OLM v0 rejects the value, for example because of white space.
    OlmV0Rejects {
        /// The declared value and its location.
        declared: MaxOpenShiftVersion,
        /// The interpretation of OLM v0.
        olm_v0: OlmV0,
    },
}

impl Decision {
    fn consider(&mut self, next: MaxOpenShiftVersion, olm_v0: OlmV0) {
        let Some(current) = self.declared.take() else {
            self.report(&next, olm_v0);
            self.declared = Some(next);
            return;
        };
        let effective = match (current.release(), next.release()) {
            // A catalog was rendered from the author's list, and its maintainer may have changed the value afterwards.
            (Some(_), _) if !next.source.is_subordinate() => current,
            (Some(a), Some(b)) if a.normalized() != b.normalized() => {
                let is_lower = b.normalized() < a.normalized();
                let (lower, higher) = if is_lower {
                    (next, current)
                } else {
                    (current, next)
                };
                self.problems.push(Problem::Differs {
                    lower: lower.clone(),
                    higher,
                });
                lower
            }
            (Some(_), Some(_)) => current,
            // The annotation repeats one of several values. A key does not resolve the ambiguity between several
            // properties.
            (None, Some(_)) if current.is_several() && next.source != Spelling::Annotation => {
                current
            }
            (None, Some(_)) => next,
            (_, None) => {
                self.report(&next, olm_v0);
                current
            }
        };
        self.declared = Some(effective);
    }

    /// Reports an invalid value once for all locations that repeat it.
    fn report(&mut self, invalid: &MaxOpenShiftVersion, olm_v0: OlmV0) {
        let is_reported = self.problems.iter().any(|problem| {
            matches!(problem, Problem::Undeterminable { declared, .. } if declared.raw == invalid.raw)
        });
        match (&invalid.version, olm_v0) {
            (Err(error), olm_v0) if !is_reported => self.problems.push(Problem::Undeterminable {
                declared: invalid.clone(),
                error: error.clone(),
                olm_v0,
            }),
            (Ok(_), olm_v0 @ OlmV0::Invalid(_)) => self.problems.push(Problem::OlmV0Rejects {
                declared: invalid.clone(),
                olm_v0,
            }),
            _ => {}
        }
    }
}

impl Problem {
    /// Returns the value that its author must correct.
    pub fn declared(&self) -> &MaxOpenShiftVersion {
        match self {
            Self::Undeterminable { declared, .. } | Self::OlmV0Rejects { declared, .. } => declared,
            Self::Differs { higher, .. } => higher,
        }
    }

    /// Returns the problem of the annotation [`MAX_ANNOTATION`] with a value that is not a string, as spelled in the file.
    pub fn not_a_string(spelling: &str) -> Self {
        let declared = Declared::NotAString(truncate(spelling, MAX_VALUE));
        let source = Spelling::Annotation;
        Self::Undeterminable {
            declared: declared.read(source),
            error: ParseMaximumError::NotAString(value::quotable(spelling)),
            olm_v0: declared.olm_v0(source),
        }
    }

    /// Returns the remedy that follows the message, in the imperative.
    pub fn remedy(&self) -> Cow<'static, str> {
        match self {
            Self::Undeterminable {
                error: ParseMaximumError::NotAString(spelling),
                ..
            } => unquoted::remedy(spelling).into(),
            Self::Undeterminable {
                declared, error, ..
            } => match (declared.source, error) {
                (Spelling::InstalledProperties, _) => "remove the annotation; OLM writes it",
                (Spelling::CatalogKey, _) => "remove the key",
                (_, ParseMaximumError::Unreadable) => {
                    "set it to a JSON list of objects with `type` and `value`"
                }
                _ => "set one property olm.maxOpenShiftVersion to a string such as \"4.16\"",
            }
            .into(),
            Self::OlmV0Rejects { declared, .. } => {
                let version = declared.text();
                format!("use the string \"{version}\" without whitespace").into()
            }
            Self::Differs { lower, higher } => {
                let is_key =
                    [lower, higher].map(|declared| declared.source == Spelling::CatalogKey);
                let place = if is_key.contains(&true) {
                    "key"
                } else {
                    "annotation"
                };
                format!("set the property to the intended release and remove the {place}").into()
            }
        }
    }

    /// Returns the message with the interpretation of OLM v0.
    pub fn explained(&self) -> String {
        match self {
            Self::Undeterminable {
                declared, olm_v0, ..
            } if declared.source == Spelling::InstalledProperties => format!(
                "{self}; OLM v0 overwrites the annotation when it installs the bundle from a catalog; otherwise {olm_v0}"
            ),
            Self::Undeterminable { olm_v0, .. } => format!("{self}; {olm_v0}"),
            Self::Differs { .. } | Self::OlmV0Rejects { .. } => self.to_string(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undeterminable {
                declared, error, ..
            } => write!(f, "{error} ({})", declared.source),
            Self::OlmV0Rejects { declared, olm_v0 } => write!(
                f,
                "max OpenShift version is {} ({}), but {olm_v0}",
                declared.text(),
                declared.source
            ),
            Self::Differs { lower, higher } => write!(
                f,
                "max OpenShift version is {} ({}) and {} ({}); the lower version is used",
                lower.raw, lower.source, higher.raw, higher.source
            ),
        }
    }
}

#[cfg(test)]
mod tests;
