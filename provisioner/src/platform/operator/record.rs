//! The choice that a PlatformOperator records, for a BundleInstance that is deleted.
//!
//! `status.chosenBundle` and the annotation [`CHOSEN_BUNDLE`] hold the same choice, because OpenShift's definition prunes
//! the status and a restore drops the status. The status counts first: only the provisioner writes the status. The
//! annotation is untrusted input: a plan looks the recorded bundle up in the catalogs. Pure; no I/O.

use kube::ResourceExt as _;
use manifests::api::{
    bounds,
    labels::CHOSEN_BUNDLE,
    platform::{ChosenBundle, PlatformOperator},
};

use super::{fit, here::Chosen};

/// Longest annotation that is written or read.
pub const MAX_BYTES: usize = bounds::ANNOTATION as usize;

/// The reason why the annotation of a PlatformOperator records no choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The annotation exceeds [`MAX_BYTES`].
    #[error("has {0} bytes, and {MAX_BYTES} are allowed")]
    TooLong(usize),
    /// The annotation is not a choice in JSON.
    #[error("is malformed: {0}")]
    Json(String),
}

/// Returns the annotation that records a choice: what a provisioner reads again, without the reasons for the choice.
///
/// # Errors
/// Returns an error if the names in the choice exceed [`MAX_BYTES`].
pub fn annotation(chosen: &Chosen) -> Result<String, Malformed> {
    let text = memo(chosen);
    check_length(&text)?;
    Ok(text)
}

/// Formats a choice without its reasons as JSON.
pub(super) fn memo(chosen: &Chosen) -> String {
    let memo = Chosen {
        bundle: ChosenBundle {
            why: Vec::new(),
            ..chosen.bundle.clone()
        },
        ..chosen.clone()
    };
    // Texts alone always become JSON.
    serde_json::to_string(&memo).unwrap_or_default()
}

/// Returns the choice that a PlatformOperator records for its present package.
///
/// # Errors
/// Returns an error if the status records no choice and the annotation is malformed.
pub fn read(operator: &PlatformOperator) -> Result<Option<Chosen>, Malformed> {
    let package = &operator.spec.package.name;
    let text = operator.annotations().get(CHOSEN_BUNDLE);
    let of_annotation = text.map(|text| parse(text)).transpose();
    let of_status = operator.status.as_ref();
    let recorded = match of_status.and_then(|status| status.chosen_bundle.as_ref()) {
        Some(bundle) => Some(match of_annotation {
            Ok(Some(chosen)) if is_same(bundle, &chosen) => chosen,
            _ => Chosen {
                package: package.clone(),
                bundle: bundle.clone(),
                ..Chosen::default()
            },
        }),
        // The pinned image is the provisioner's finding, which an edit could replace by any image.
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

fn parse(text: &str) -> Result<Chosen, Malformed> {
    check_length(text)?;
    serde_json::from_str(text).map_err(|error| Malformed::Json(fit(&error.to_string(), 200)))
}

fn check_length(text: &str) -> Result<(), Malformed> {
    if text.len() > MAX_BYTES {
        return Err(Malformed::TooLong(text.len()));
    }
    Ok(())
}

/// Reports whether a status, which truncates names, and an annotation record the same bundle.
fn is_same(bundle: &ChosenBundle, chosen: &Chosen) -> bool {
    bundle.name == fit(&chosen.bundle.name, bounds::WORD)
        && bundle.image == fit(&chosen.bundle.image, bounds::REFERENCE)
        && bundle.catalog == fit(&chosen.bundle.catalog, bounds::WORD)
}

#[cfg(test)]
mod tests;
