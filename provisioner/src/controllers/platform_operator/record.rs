//! The choice that a PlatformOperator records, for a BundleInstance that is deleted.
//!
//! `status.chosenBundle` and the annotation [`CHOSEN_BUNDLE`] hold the same choice, because OpenShift's CRD prunes the
//! status and a restore drops the status. The status precedes the annotation: only the provisioner writes the status. The
//! annotation is untrusted input: a plan looks the recorded bundle up in the catalogs. Pure; no I/O.

use kube::ResourceExt as _;
use manifests::api::{
    labels::CHOSEN_BUNDLE,
    limits,
    platform_operator::{ChosenBundle, PlatformOperator},
};

use super::{controller::truncate, installed::BundleChoice};

/// Maximum length of an annotation that is written or read.
pub const MAX_BYTES: usize = limits::ANNOTATION as usize;

/// The reason why the annotation of a PlatformOperator records no choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The annotation exceeds [`MAX_BYTES`].
    #[error("has {0} bytes, but the limit is {MAX_BYTES}")]
    TooLong(usize),
    /// The annotation is not a choice in JSON.
    #[error("is malformed: {0}")]
    Json(String),
}

/// Returns the annotation that records a choice, without the reasons for the choice.
///
/// # Errors
/// Returns an error if the names in the choice exceed [`MAX_BYTES`].
pub fn annotation(chosen: &BundleChoice) -> Result<String, Malformed> {
    let text = chosen_annotation(chosen);
    check_length(&text)?;
    Ok(text)
}

/// Formats a choice without its reasons as JSON.
pub(crate) fn chosen_annotation(chosen: &BundleChoice) -> String {
    let memo = BundleChoice {
        bundle: ChosenBundle {
            why: Vec::new(),
            ..chosen.bundle.clone()
        },
        ..chosen.clone()
    };
    // Conversion of plain texts to JSON does not fail.
    serde_json::to_string(&memo).unwrap_or_default()
}

/// Returns the choice that a PlatformOperator records for its current package.
///
/// # Errors
/// Returns an error if the status records no choice and the annotation is malformed.
pub fn read(operator: &PlatformOperator) -> Result<Option<BundleChoice>, Malformed> {
    let package = &operator.spec.package.name;
    let text = operator.annotations().get(CHOSEN_BUNDLE);
    let of_annotation = text.map(|text| parse(text)).transpose();
    let of_status = operator.status.as_ref();
    let recorded = match of_status.and_then(|status| status.chosen_bundle.as_ref()) {
        Some(bundle) => Some(match of_annotation {
            Ok(Some(chosen)) if is_same(bundle, &chosen) => chosen,
            _ => BundleChoice {
                package: package.clone(),
                bundle: bundle.clone(),
                ..BundleChoice::default()
            },
        }),
        // The pinned image is the provisioner's own result, which an edit could replace by any image.
        None => of_annotation?.map(|mut chosen| {
            if let Some(named) = chosen.named.take() {
                chosen.bundle.image = named;
            }
            chosen
        }),
    };
    Ok(recorded.filter(|chosen| chosen.package == *package))
}

/// Returns the package of an operator that was installed and records a choice.
pub fn package(operator: &PlatformOperator) -> Option<String> {
    operator.active_instance()?;
    Some(read(operator).ok()??.package)
}

fn parse(text: &str) -> Result<BundleChoice, Malformed> {
    check_length(text)?;
    serde_json::from_str(text).map_err(|error| Malformed::Json(truncate(&error.to_string(), 200)))
}

fn check_length(text: &str) -> Result<(), Malformed> {
    if text.len() > MAX_BYTES {
        return Err(Malformed::TooLong(text.len()));
    }
    Ok(())
}

/// Reports whether a status, which truncates names, and an annotation record the same bundle.
fn is_same(bundle: &ChosenBundle, chosen: &BundleChoice) -> bool {
    bundle.name == truncate(&chosen.bundle.name, limits::WORD)
        && bundle.image == truncate(&chosen.bundle.image, limits::REFERENCE)
        && bundle.catalog == truncate(&chosen.bundle.catalog, limits::WORD)
}

#[cfg(test)]
mod tests;
