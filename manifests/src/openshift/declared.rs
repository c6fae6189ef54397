//! The max OpenShift version that a bundle declares, decided from all of its spellings. Folders, images, catalogs of any kind
//! and installed ClusterServiceVersions use this one decision, so that the same bundle declares the same version everywhere.
//! Pure; no I/O.
//!
//! The first list of properties with a valid value counts, in the order of [`Spelling`]. The annotation of the enhancement
//! counts if it is lower, or if no property is valid: the lower version protects the cluster.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
};

use serde::{Deserialize, Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::RawValue;

use super::{
    INSTALLED_PROPERTIES_ANNOTATION, MAX_ANNOTATION, MAX_PROPERTY, OlmV0, PROPERTIES_ANNOTATION,
    ParseMaximumError, Release, maximum, value,
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
            Self::BundleProperties | Self::CatalogProperties => None,
            Self::InstalledProperties => Some(INSTALLED_PROPERTIES_ANNOTATION),
            Self::PropertiesAnnotation => Some(PROPERTIES_ANNOTATION),
            Self::Annotation => Some(MAX_ANNOTATION),
        }
    }
}

impl fmt::Display for Spelling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.annotation() {
            Some(annotation) => write!(f, "annotation {annotation}"),
            None if *self == Self::BundleProperties => f.write_str("bundle properties"),
            None => f.write_str("catalog properties"),
        }
    }
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
    /// Parses the JSON text of a property's value, or the text of an annotation.
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
    /// The annotation, which is not JSON of properties.
    Malformed {
        annotation: &'static str,
        text: String,
    },
}

impl Declarations {
    /// Adds the JSON text of a property's value, or the text of the annotation. Two properties in one list are invalid even if
    /// their values are equal, as they are for OLM.
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
                Declared::Malformed { .. } => {}
            },
        }
    }

    /// Adds the declarations in the annotations of a ClusterServiceVersion.
    pub fn add_annotations<'a>(&mut self, annotation: impl Fn(&str) -> Option<Cow<'a, str>>) {
        if let Some(text) = annotation(INSTALLED_PROPERTIES_ANNOTATION) {
            let list = installed(&text);
            let spelling = Spelling::InstalledProperties;
            self.add_list(spelling, INSTALLED_PROPERTIES_ANNOTATION, &text, list);
        }
        if let Some(text) = annotation(PROPERTIES_ANNOTATION) {
            let list = serde_json::from_str::<Option<Vec<_>>>(&text);
            let is_empty = text.trim().is_empty();
            let list = list.or_else(|error| if is_empty { Ok(None) } else { Err(error) });
            let spelling = Spelling::PropertiesAnnotation;
            self.add_list(spelling, PROPERTIES_ANNOTATION, &text, list);
        }
        if let Some(text) = annotation(MAX_ANNOTATION) {
            self.add(Spelling::Annotation, &text);
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
        annotation: &'static str,
        text: &str,
        list: Result<Option<Vec<Property>>, serde_json::Error>,
    ) {
        let Ok(list) = list else {
            let text = shortened(text, MAX_VALUE);
            let malformed = Declared::Malformed { annotation, text };
            self.0.entry(spelling).or_insert(malformed);
            return;
        };
        let list = list.into_iter().flatten();
        let mut seen = BTreeSet::new();
        for property in list.filter(|property| property.type_ == MAX_PROPERTY) {
            let value = property.value.get();
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
                    let several: Vec<_> = several.iter().map(|text| value::decoded(text)).collect();
                    let raw = shortened(&several.join(", "), MAX_VALUE);
                    MaxOpenShiftVersion {
                        version: Err(ParseMaximumError::Several(value::quotable(&raw))),
                        raw,
                        source,
                    }
                }
            },
            Self::Malformed { annotation, text } => MaxOpenShiftVersion {
                raw: text.clone(),
                source,
                version: Err(ParseMaximumError::Unreadable(annotation)),
            },
        }
    }

    /// OLM v0 reads the properties that come from the catalog, and overwrites or ignores all annotations.
    fn olm_v0(&self, spelling: Spelling) -> OlmV0 {
        match (self, spelling) {
            (Self::Values(values), Spelling::BundleProperties | Spelling::CatalogProperties) => {
                OlmV0::read(values.iter().map(String::as_str))
            }
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
    /// A property and the annotation differ.
    Differs {
        /// The lower value, which counts.
        lower: MaxOpenShiftVersion,
        /// The higher value, which is ignored.
        higher: MaxOpenShiftVersion,
    },
}

impl Decision {
    fn consider(&mut self, next: MaxOpenShiftVersion, olm_v0: OlmV0) {
        let Some(current) = self.declared.take() else {
            self.report(&next, olm_v0);
            self.declared = Some(next);
            return;
        };
        let is_annotation = next.source == Spelling::Annotation;
        let counts = match (current.release(), next.release()) {
            // A catalog was rendered from the author's list, and its maintainer may have changed the value since.
            (Some(_), _) if !is_annotation => current,
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
            // The list repeats one of the several values.
            (None, Some(_)) if current.is_several() && !is_annotation => current,
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
        if let (Err(error), false) = (&invalid.version, is_reported) {
            self.problems.push(Problem::Undeterminable {
                declared: invalid.clone(),
                error: error.clone(),
                olm_v0,
            });
        }
    }
}

impl Problem {
    /// Returns the value that its author has to correct.
    pub fn declared(&self) -> &MaxOpenShiftVersion {
        match self {
            Self::Undeterminable { declared, .. } => declared,
            Self::Differs { higher, .. } => higher,
        }
    }

    /// Returns the imperative that follows the message.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Undeterminable { .. } => {
                "write one property olm.maxOpenShiftVersion with a string such as \"4.16\""
            }
            Self::Differs { .. } => {
                "write the intended release in the property and remove the annotation"
            }
        }
    }

    /// Returns the message with the reading of OLM v0.
    pub fn explained(&self) -> String {
        match self {
            Self::Undeterminable { olm_v0, .. } => format!("{self}; {olm_v0}"),
            Self::Differs { .. } => self.to_string(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undeterminable {
                declared, error, ..
            } => write!(f, "{error} ({})", declared.source),
            Self::Differs { lower, higher } => write!(
                f,
                "max OpenShift version is {} ({}) and {} ({}); the lower version counts",
                lower.raw, lower.source, higher.raw, higher.source
            ),
        }
    }
}

/// A property in a list. Another property without a value hides none that has one.
#[derive(Deserialize)]
struct Property {
    #[serde(rename = "type", default)]
    type_: String,
    #[serde(default = "null")]
    value: Box<RawValue>,
}

fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

/// Reads `{"properties": [{"type": …, "value": …}]}`.
fn installed(text: &str) -> Result<Option<Vec<Property>>, serde_json::Error> {
    // serde reads a struct from a list, too.
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text)?;
    let list = fields.remove("properties");
    list.map_or(Ok(None), |list| serde_json::from_str(list.get()))
}

#[cfg(test)]
mod tests;
