//! The max OpenShift version of a bundle, with findings for values that are invalid or differ.
//!
//! [`manifests::openshift`] chooses between the declared values; catalogs and clusters use the same decision.

use manifests::{
    openshift::{
        Annotation, Declarations, MAX_ANNOTATION, MAX_PROPERTY, MaxOpenShiftVersion,
        PROPERTIES_ANNOTATION, ParseMaximumError, Problem, Spelling, Unquoted,
    },
    path::Path,
};

use crate::{
    bundle::metadata::Metadata,
    csv::Csv,
    finding::{Findings, Level, Location, code::Code},
    property::Property,
};

/// Chooses the effective value. `properties` are those of the file and of the annotation `olm.properties`. `spelling` is
/// that of the annotation if it is not a string.
///
/// An invalid value is a finding of this level. A conversion succeeds with a warning, because the value blocks nothing. In
/// a validation, it is an error, because its author relies on a protection that does not exist.
pub(crate) fn resolve(
    properties: &[Property],
    metadata: &Metadata,
    csv: Option<Csv<'_>>,
    spelling: Option<&str>,
    level: Level,
    findings: &mut Findings,
) -> Option<MaxOpenShiftVersion> {
    let mut declarations = Declarations::default();
    let declared = properties
        .iter()
        .filter(|property| property.type_ == MAX_PROPERTY);
    for property in declared {
        let text = unquoted(property, metadata).map_or(property.value.get(), Unquoted::spelling);
        declarations.add(Spelling::BundleProperties, text);
    }
    if let Some(csv) = csv {
        declarations.add_annotations(|key| match spelling {
            Some(spelling) if key == MAX_ANNOTATION => Some(Annotation::Other(spelling.into())),
            _ => Some(Annotation::String(csv.annotation(key)?.into())),
        });
    }
    let decision = declarations.decide();
    for problem in &decision.problems {
        report(problem, metadata, csv, level, findings);
    }
    decision.declared
}

/// Returns the number that the file contains in place of a string.
fn unquoted<'m>(property: &Property, metadata: &'m Metadata) -> Option<&'m Unquoted> {
    let listed = metadata.properties.iter().flatten();
    let index = listed
        .enumerate()
        .find(|(_, listed)| *listed == property)?
        .0;
    metadata.unquoted.get(&index)
}

fn report(
    problem: &Problem,
    metadata: &Metadata,
    csv: Option<Csv<'_>>,
    level: Level,
    findings: &mut Findings,
) {
    let is_advice = level == Level::Error;
    let (level, message) = match problem {
        Problem::Undeterminable {
            declared, error, ..
        } if (declared.source, error)
            == (
                Spelling::PropertiesAnnotation,
                &ParseMaximumError::Unreadable,
            )
            || matches!(error, ParseMaximumError::NotAString(_)) =>
        {
            // Already reported while reading the annotation.
            return;
        }
        Problem::Undeterminable {
            error: ParseMaximumError::Unreadable,
            ..
        } => {
            // OLM wrote the annotation, and overwrites it.
            let message = if is_advice {
                problem.explained()
            } else {
                problem.to_string()
            };
            (Level::Warning, message)
        }
        Problem::Undeterminable { .. } if is_advice => (level, problem.explained()),
        Problem::Undeterminable { .. } => (level, problem.to_string()),
        Problem::Differs { .. } | Problem::OlmV0Rejects { .. } => {
            (Level::Warning, problem.to_string())
        }
    };
    findings.add(
        level,
        Code::MaxOpenShiftVersion,
        place(problem.declared(), metadata, csv),
        message,
        &problem.remedy(),
    );
}

/// Returns the place of the value: the property in the file, or else the annotation.
fn place(
    declared: &MaxOpenShiftVersion,
    metadata: &Metadata,
    csv: Option<Csv<'_>>,
) -> Option<Location> {
    let annotation = declared.source.annotation();
    let listed = metadata.properties.iter().flatten();
    let mut listed = listed.zip(&metadata.property_places);
    if annotation.is_none()
        && let Some((_, place)) = listed.find(|(property, _)| property.type_ == MAX_PROPERTY)
    {
        return Some(place.clone());
    }
    let annotation = annotation.unwrap_or(PROPERTIES_ANNOTATION);
    Some(csv?.path_place(&Path::from(["metadata", "annotations", annotation])))
}
