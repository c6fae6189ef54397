//! The max OpenShift version that a bundle declares, decided from all of its spellings. Folders, images, catalogs of any kind
//! and installed ClusterServiceVersions use this one decision, so that the same bundle declares the same version everywhere.
//! Pure; no I/O.
//!
//! The first list of properties with a valid value counts, in the order of [`Spelling`]. The key and the annotation of the
//! enhancement count if they are lower, or if no property is valid: the lower version protects the cluster.

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
use crate::object::shortened;

/// Values of one spelling that are kept.
const MAX_VALUES: usize = 10;
/// Characters of a value that are kept.
const MAX_VALUE: usize = 1000;

/// A place that can declare the max OpenShift version of a bundle. The order is the order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spelling {
    /// The properties of a bundle: `metadata/properties.yaml`, and the annotation `olm.properties`.
    BundleProperties,
    /// The properties of a bundle in a catalog.
    CatalogProperties,
    /// The key `operators.coreos.com/maxOpenShiftVersion` of a bundle in a catalog.
    CatalogKey,
    /// The annotation `operatorframework.io/properties`, which OLM writes when it installs.
    InstalledProperties,
    /// The annotation `olm.properties`, where no other list of properties declares a value.
    PropertiesAnnotation,
    /// The annotation `operators.coreos.com/maxOpenShiftVersion`.
    Annotation,
}

impl Spelling {
    /// Returns the key of the annotation; `None` for properties.
    pub const fn annotation(self) -> Option<&'static str> {
        match self {
            Self::BundleProperties | Self::CatalogProperties | Self::CatalogKey => None,
            Self::InstalledProperties => Some(INSTALLED_PROPERTIES_ANNOTATION),
            Self::PropertiesAnnotation => Some(PROPERTIES_ANNOTATION),
            Self::Annotation => Some(MAX_ANNOTATION),
        }
    }

    /// Reports whether the value counts only if the value is lower than that of the properties, or alone valid.
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
    /// A string.
    String(Cow<'a, str>),
    /// The spelling of a value of another kind.
    Other(Cow<'a, str>),
}

/// A declared max OpenShift version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaxOpenShiftVersion {
    /// The value as it was written, without the quotes of a JSON string.
    pub raw: String,
    /// The place of the value.
    pub source: Spelling,
    /// The release, or the reason why it cannot be determined.
    pub version: Result<Release, ParseMaximumError>,
}

impl MaxOpenShiftVersion {
    /// Parses the JSON text of a property's value, the spelling of a number, or the text of an annotation.
    pub fn new(text: &str, source: Spelling) -> Self {
        Self {
            raw: shortened(&value::decoded(text), MAX_VALUE),
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

    /// Returns the text for a status, of which [`maximum`] makes the same release or also an error.
    pub fn text(&self) -> String {
        match &self.version {
            Ok(release) => release.to_string(),
            // A JSON string within a JSON string, for example.
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

/// All values that a bundle declares, by their spelling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declarations(BTreeMap<Spelling, Declared>);

/// The values of one spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Declared {
    /// The texts of the values; never empty.
    Values(Vec<String>),
    /// The annotation, which is not JSON of properties, and the error of OLM v0.
    Malformed { text: String, error: OlmV0Error },
    /// The spelling of an annotation that is not a string.
    NotAString(String),
}

impl Declarations {
    /// Adds the JSON text of a property's value, the spelling of a number in YAML, or the text of the annotation. Two
    /// properties in one list are invalid even if their values are equal, as they are for OLM.
    pub fn add(&mut self, spelling: Spelling, text: &str) {
        // No release is longer, and texts may have megabytes.
        let text = shortened(text.trim(), MAX_VALUE);
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
                let declared = Declared::NotAString(shortened(&spelling, MAX_VALUE));
                self.0.entry(Spelling::Annotation).or_insert(declared);
            }
        }
    }

    /// Adds the spellings of `other` that are missing here.
    pub fn complete_with(&mut self, other: Self) {
        for (spelling, declared) in other.0 {
            self.0.entry(spelling).or_insert(declared);
        }
    }

    /// Decides which value counts.
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
                let text = shortened(text, MAX_VALUE);
                let error = OlmV0Error::Malformed(error.to_string());
                let malformed = Declared::Malformed { text, error };
                self.0.entry(spelling).or_insert(malformed);
                return;
            }
        };
        let list = list.iter();
        let mut seen = BTreeSet::new();
        for property in list.filter(|property| property.type_ == MAX_PROPERTY) {
            let value = property.value.as_deref().map_or("", RawValue::get);
            // opm counts equal texts of the bundle author once; OLM rejects two properties that it has written.
            let is_new = seen.insert(value.to_owned());
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
                    // opm sorts properties; the message is the same for each source.
                    several.sort_unstable();
                    let raw = shortened(&several.join(", "), MAX_VALUE);
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

    /// Returns the reading of OLM v0: of the properties that opm takes into a catalog, where numbers are shortened, and of the
    /// annotation that OLM v0 writes. OLM v0 ignores all other annotations and the key.
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

/// The value that counts, and what is wrong with the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// The value that counts; `None` if the bundle declares none.
    pub declared: Option<MaxOpenShiftVersion>,
    /// The values that are invalid, or differ from the one that counts.
    pub problems: Vec<Problem>,
}

/// A value that its author has to correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The version cannot be determined from this value.
    Undeterminable {
        /// The declared value and its place.
        declared: MaxOpenShiftVersion,
        /// Reason why the value is not a release.
        error: ParseMaximumError,
        /// The reading of OLM v0.
        olm_v0: OlmV0,
    },
    /// A property and the key or the annotation differ.
    Differs {
        /// The lower value, which counts.
        lower: MaxOpenShiftVersion,
        /// The higher value, which is ignored.
        higher: MaxOpenShiftVersion,
    },
    /// OLM v0 rejects the value, for its white space as an example.
    OlmV0Rejects {
        /// The declared value and its place.
        declared: MaxOpenShiftVersion,
        /// The reading of OLM v0.
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
        let counts = match (current.release(), next.release()) {
            // A catalog was rendered from the author's list, and its maintainer may have changed the value since.
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
            // The list repeats one of the several values, and a key does not make one of several properties.
            (None, Some(_)) if current.is_several() && next.source != Spelling::Annotation => {
                current
            }
            (None, Some(_)) => next,
            (_, None) => {
                self.report(&next, olm_v0);
                current
            }
        };
        self.declared = Some(counts);
    }

    /// Reports an invalid value, once for all spellings that repeat it.
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
    /// Returns the value that its author has to correct.
    pub fn declared(&self) -> &MaxOpenShiftVersion {
        match self {
            Self::Undeterminable { declared, .. } | Self::OlmV0Rejects { declared, .. } => declared,
            Self::Differs { higher, .. } => higher,
        }
    }

    /// Returns the problem of the annotation [`MAX_ANNOTATION`] with this spelling in the file, which is not a string.
    pub fn not_a_string(spelling: &str) -> Self {
        let declared = Declared::NotAString(shortened(spelling, MAX_VALUE));
        let source = Spelling::Annotation;
        Self::Undeterminable {
            declared: declared.read(source),
            error: ParseMaximumError::NotAString(value::quotable(spelling)),
            olm_v0: declared.olm_v0(source),
        }
    }

    /// Returns the imperative that follows the message.
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
                    "write a JSON list of objects with `type` and `value`"
                }
                _ => "write one property olm.maxOpenShiftVersion with a string such as \"4.16\"",
            }
            .into(),
            Self::OlmV0Rejects { declared, .. } => {
                let version = declared.text();
                format!("write the string \"{version}\" without white space").into()
            }
            Self::Differs { lower, higher } => {
                let is_key =
                    [lower, higher].map(|declared| declared.source == Spelling::CatalogKey);
                let place = if is_key.contains(&true) {
                    "key"
                } else {
                    "annotation"
                };
                format!("write the intended release in the property and remove the {place}").into()
            }
        }
    }

    /// Returns the message with the reading of OLM v0.
    pub fn explained(&self) -> String {
        match self {
            Self::Undeterminable {
                declared, olm_v0, ..
            } if declared.source == Spelling::InstalledProperties => format!(
                "{self}; OLM v0 overwrites the annotation when OLM v0 installs from a catalog; otherwise {olm_v0}"
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
                "max OpenShift version is {} ({}) and {} ({}); the lower version counts",
                lower.raw, lower.source, higher.raw, higher.source
            ),
        }
    }
}

#[cfg(test)]
mod tests;
