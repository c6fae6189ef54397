//! The max OpenShift version that a bundle declares, and findings of values that are invalid or differ.
//!
//! The decision between the spellings is that of [`manifests::openshift`], which catalogs and clusters use, too.

use std::borrow::Cow;

use manifests::{
    openshift::{
        Declarations, MAX_PROPERTY, MaxOpenShiftVersion, PROPERTIES_ANNOTATION, ParseMaximumError,
        Problem, Spelling,
    },
    path::Path,
};

use crate::{
    code::Code,
    csv::Csv,
    metadata::Metadata,
    property::Property,
    report::{Findings, Level, Place},
};

/// Decides which value counts. `properties` are those of the file and of the annotation `olm.properties`.
///
/// An invalid value is a finding of this level: a conversion succeeds with a warning, because the value blocks nothing; it is
/// an error in a validation, because its author relies on a protection that does not exist.
pub(crate) fn decide(
    properties: &[Property],
    metadata: &Metadata,
    csv: Option<Csv<'_>>,
    level: Level,
    findings: &mut Findings,
) -> Option<MaxOpenShiftVersion> {
    let mut declarations = Declarations::default();
    let declared = properties
        .iter()
        .filter(|property| property.type_ == MAX_PROPERTY);
    for property in declared {
        declarations.add(Spelling::BundleProperties, property.value.get());
    }
    if let Some(csv) = csv {
        declarations.add_annotations(|key| csv.annotation(key).map(Cow::Borrowed));
    }
    let decision = declarations.decide();
    for problem in &decision.problems {
        report(problem, metadata, csv, level, findings);
    }
    decision.declared
}

fn report(
    problem: &Problem,
    metadata: &Metadata,
    csv: Option<Csv<'_>>,
    level: Level,
    findings: &mut Findings,
) {
    let (level, message) = match problem {
        Problem::Undeterminable {
            declared,
            error: ParseMaximumError::Unreadable(_),
            ..
        } => match declared.source {
            // Reading the annotation has reported this.
            Spelling::PropertiesAnnotation => return,
            // OLM has written it, and writes it again.
            _ => (Level::Warning, problem.to_string()),
        },
        Problem::Undeterminable { .. } if level == Level::Error => (level, problem.explained()),
        Problem::Undeterminable { .. } => (level, problem.to_string()),
        Problem::Differs { .. } => (Level::Warning, problem.to_string()),
    };
    findings.add(
        level,
        Code::MaxOpenShiftVersion,
        place(problem.declared(), metadata, csv),
        message,
        problem.remedy(),
    );
}

/// Returns the place of the value: the property of the file that has it, or else the annotation.
fn place(
    declared: &MaxOpenShiftVersion,
    metadata: &Metadata,
    csv: Option<Csv<'_>>,
) -> Option<Place> {
    let annotation = declared.source.annotation();
    let listed = metadata.properties.iter().flatten();
    let mut listed = listed.zip(&metadata.property_places);
    if annotation.is_none()
        && let Some((_, place)) = listed.find(|(property, _)| property.type_ == MAX_PROPERTY)
    {
        return Some(place.clone());
    }
    let annotation = annotation.unwrap_or(PROPERTIES_ANNOTATION);
    Some(csv?.at(&Path::from(["metadata", "annotations", annotation])))
}
