//! Image templates of CatalogSources: the resolved image, its conditions, and sometimes a change of the CatalogSource.
//! Pure; no I/O.
//!
//! ```text
//!  location of the template          resolved by                           result
//!  the image itself                  rukpak, where OLM does not run        the image is pulled; three conditions
//!  rukpak's annotation               rukpak, everywhere                    the image is written; conditions
//!  olm.catalogImageTemplate          OLM; rukpak, where OLM does not run   the same, with OLM's texts
//! ```
//!
//! OLM takes braces in an image literally. Where OLM runs, rukpak's annotation therefore holds the template, and rukpak
//! writes the image that OLM then serves. There, the two conditions for OLM's annotation belong to OLM, which removes them
//! from objects without that annotation; `resolved_image` is rukpak's everywhere. Beside OLM,
//! `core.rukpak.io/TemplateResolved` reports why a template has no image: OLM writes the message of the status, and an
//! Event expires.
//!
//! No decision is made and no condition is set before the values that a template needs were requested from the cluster
//! once.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use manifests::{
    api::labels::CATALOG_IMAGE_TEMPLATE,
    image_template::{
        self, ChosenTemplate, Error, TemplateSource, TemplateValues, Variable, choose,
    },
};

use super::cluster_facts::FactSource;

/// Condition with the effective image.
pub(super) const RESOLVED_IMAGE: &str = "resolved_image";
/// Condition that reports whether the template resolves (OLM v0 parity).
const TEMPLATES_HAVE_RESOLVED: &str = "TemplatesHaveResolved";
/// Condition with the resolved image, or its partially resolved text (OLM v0 parity).
const IMAGE_IS_RESOLVED: &str = "ResolvedImage";
/// Reports beside OLM whether the template resolves, and the reason if it does not.
const TEMPLATE_RESOLVED: &str = "core.rukpak.io/TemplateResolved";
/// The condition types that the provisioner removes where OLM does not run.
pub(super) const OWNED_CONDITIONS: &[&str] = &[
    TEMPLATES_HAVE_RESOLVED,
    IMAGE_IS_RESOLVED,
    RESOLVED_IMAGE,
    TEMPLATE_RESOLVED,
];
/// The condition types that the provisioner applies and removes where OLM runs.
pub(super) const OWNED_CONDITIONS_WITH_OLM: &[&str] = &[RESOLVED_IMAGE, TEMPLATE_RESOLVED];

/// Reasons of these conditions.
mod reason {
    /// The template resolves to an image.
    pub(super) const RESOLVED: &str = "AllTemplatesResolved";
    /// The template does not resolve.
    pub(super) const UNRESOLVED: &str = "UnableToResolve";
    /// The template does not resolve in the current cluster, and the last image is retained.
    pub(super) const LAST_RESOLVED: &str = "LastResolved";
    /// OLM resolves its own annotation, so rukpak's is ignored.
    pub(super) const TWO_TEMPLATES: &str = "TwoTemplates";
    /// The template is in the image, which OLM does not resolve.
    pub(super) const UNSUPPORTED: &str = "UnsupportedByOLM";
}

/// Result of a template, or of an image without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedImage {
    /// Image to pull, or the reason why no image is available.
    pub(super) image: Result<String, UnresolvedImage>,
    /// Reason why the previously written image is retained, if the status has to report it. For OLM's annotation, only the
    /// conditions report it (OLM v0 parity).
    pub(super) retained_image: Option<UnresolvedImage>,
    /// Image to write into the CatalogSource; `None` if it is already set.
    pub(super) write: Option<String>,
    /// Conditions to set. Other owned conditions are removed.
    pub(super) conditions: Vec<ConditionUpdate>,
    /// Warning to publish as an Event.
    pub(super) warning: Option<String>,
}

/// Reason why a template has no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnresolvedImage {
    /// Message, with the texts of the design document.
    pub(super) why: String,
    /// True if only an edit of the template resolves the problem.
    pub(super) is_for_good: bool,
    /// Image to which this CatalogSource resolved last. It is used if no content is loaded, as after a restart.
    pub(super) last: Option<String>,
}

/// Condition without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConditionUpdate {
    pub(super) type_: &'static str,
    pub(super) is_true: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Input of the resolution: a CatalogSource with an image, and the facts about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) reference: &'a str,
    pub(super) annotations: Option<&'a BTreeMap<String, String>>,
    /// Conditions of the current status.
    pub(super) conditions: &'a [Condition],
    /// Recorded image to which the template in `reference` resolved last.
    pub(super) cached_image: Option<&'a str>,
    /// Generation of the spec.
    pub(super) generation: Option<i64>,
    pub(super) has_olm: bool,
    /// Reason why the version of the running OLM is unknown; `None` for a known version.
    pub(super) unknown_olm: Option<&'a str>,
}

/// Result of one template, in either dialect.
struct Outcome {
    /// Resolved image, or the partially resolved text.
    image: String,
    /// Reason why the template does not resolve, and whether only an edit helps.
    problem: Option<(String, bool)>,
}

/// Resolves the template, if the CatalogSource has one. Returns `None` while a value that it needs has not been requested
/// from the cluster.
pub(super) fn resolve(
    input: Input<'_>,
    values: &TemplateValues,
    pending: &BTreeSet<FactSource>,
) -> Option<ResolvedImage> {
    let annotation = |name: &str| Some(input.annotations?.get(name)?.as_str());
    let ChosenTemplate {
        holder,
        text,
        ignored_sources: ignored,
    } = choose(input.reference, annotation);
    let plain = ResolvedImage {
        image: Ok(input.reference.to_owned()),
        retained_image: None,
        write: None,
        conditions: Vec::new(),
        warning: None,
    };
    let two = ignored.contains(&TemplateSource::Rukpak).then(|| {
        format!(
            "annotation {CATALOG_IMAGE_TEMPLATE} is ignored because {} takes precedence; remove one of them",
            image_template::ANNOTATION
        )
    });
    if holder == TemplateSource::Olm && input.has_olm {
        let two_templates = |type_| {
            Some(condition_update(
                type_,
                false,
                reason::TWO_TEMPLATES,
                two.clone()?,
            ))
        };
        let conditions = [TEMPLATE_RESOLVED, RESOLVED_IMAGE];
        return Some(ResolvedImage {
            conditions: conditions.into_iter().filter_map(two_templates).collect(),
            warning: two,
            ..plain
        });
    }
    if holder == TemplateSource::Image && !image_template::is_template(text) {
        return Some(plain);
    }
    if required_facts(holder, text, input.has_olm).any(|part| pending.contains(&part)) {
        return None;
    }
    let outcome = match holder {
        TemplateSource::Olm => resolve_olm_template(text, values),
        TemplateSource::Rukpak | TemplateSource::Image => {
            resolve_rukpak_template(text, values, input.unknown_olm)
        }
    };
    Some(match holder {
        TemplateSource::Image => input.in_place(outcome),
        TemplateSource::Olm | TemplateSource::Rukpak => {
            let resolved = input.written(holder, outcome);
            let warning = resolved.warning.or(two);
            ResolvedImage {
                warning,
                ..resolved
            }
        }
    })
}

/// Returns a warning about a template annotation of a catalog that is not in an image. OLM itself
/// reports its annotation.
pub(super) fn idle(
    annotations: Option<&BTreeMap<String, String>>,
    has_olm: bool,
) -> Option<String> {
    let holder = choose("", |name| Some(annotations?.get(name)?.as_str())).holder;
    let name = holder
        .annotation()
        .filter(|_| !(has_olm && holder == TemplateSource::Olm))?;
    Some(format!(
        "annotation {name} is ignored because the catalog is not an image; remove it"
    ))
}

/// Returns the facts that a template needs.
fn required_facts(
    holder: TemplateSource,
    text: &str,
    has_olm: bool,
) -> impl Iterator<Item = FactSource> {
    let all = image_template::variables(text);
    all.flat_map(move |variable| match (variable, holder) {
        (Variable::Kube(_), _) => &[FactSource::Kubernetes][..],
        // OLM's dialect has only the `kube` variables.
        (_, TemplateSource::Olm) => &[],
        (Variable::Olm(_), _) if has_olm => &FactSource::OLM_VERSION,
        (Variable::Olm(_), _) => &[],
        (Variable::Openshift(_) | Variable::UpdateChannel, _) => &[FactSource::Openshift],
        (Variable::Architecture, _) => &[FactSource::Nodes],
    })
    .copied()
}

fn resolve_rukpak_template(
    text: &str,
    values: &TemplateValues,
    unknown_olm: Option<&str>,
) -> Outcome {
    let needs_olm = || {
        let mut variables = image_template::variables(text);
        variables.any(|variable| matches!(variable, Variable::Olm(_)))
    };
    match image_template::resolve(text, values) {
        Ok(image) => Outcome {
            image,
            problem: None,
        },
        Err(error) => Outcome {
            problem: Some((
                match unknown_olm {
                    Some(unknown) if needs_olm() => format!("{error}; {unknown}"),
                    _ => error.to_string(),
                },
                error.is_for_good(),
            )),
            image: match error {
                Error::Unresolved(unresolved) => unresolved.partial,
                Error::Illegal { text, .. } => text,
                Error::Unbalanced { .. } => text.to_owned(),
            },
        },
    }
}

fn resolve_olm_template(text: &str, values: &TemplateValues) -> Outcome {
    let resolved = image_template::annotated(text, values.kube.as_ref());
    Outcome {
        image: resolved.image,
        problem: resolved
            .problem
            .map(|message| (message, resolved.is_for_good)),
    }
}

/// Returns the condition for a template in the image, which OLM takes literally. The message has one line per problem.
fn unsupported_by_olm(outcome: &Outcome, unsupported: &str) -> ConditionUpdate {
    let (reason, message) = match &outcome.problem {
        Some((problem, _)) => (reason::UNRESOLVED, format!("{problem}\n{unsupported}")),
        None => (reason::UNSUPPORTED, unsupported.to_owned()),
    };
    condition_update(TEMPLATE_RESOLVED, false, reason, message)
}

fn condition_update(
    type_: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
) -> ConditionUpdate {
    ConditionUpdate {
        type_,
        is_true,
        reason,
        message,
    }
}

// === impl Input ===

impl<'a> Input<'a> {
    /// Returns the result for a template in the image.
    fn in_place(self, outcome: Outcome) -> ResolvedImage {
        let warning = self.has_olm.then(|| {
            format!(
                "OLM does not resolve a template in the image field; move the template to annotation \
                 {CATALOG_IMAGE_TEMPLATE}, and set the field to any valid image"
            )
        });
        ResolvedImage {
            conditions: match &warning {
                Some(unsupported) => vec![unsupported_by_olm(&outcome, unsupported)],
                None => self.conditions(&outcome, self.last()),
            },
            image: match outcome.problem {
                None => Ok(outcome.image),
                Some((why, is_for_good)) => Err(UnresolvedImage {
                    why,
                    is_for_good,
                    last: self.last().map(str::to_owned),
                }),
            },
            retained_image: None,
            write: None,
            warning,
        }
    }

    /// Returns the result for a template in an annotation. If it does not resolve, the image that was written last is
    /// retained.
    fn written(self, holder: TemplateSource, outcome: Outcome) -> ResolvedImage {
        let last = Some(self.reference)
            .filter(|reference| !reference.is_empty() && !image_template::is_template(reference));
        let conditions = self.conditions(&outcome, last);
        let Some((why, is_for_good)) = outcome.problem else {
            return ResolvedImage {
                write: (outcome.image != self.reference).then(|| outcome.image.clone()),
                image: Ok(outcome.image),
                retained_image: None,
                conditions,
                warning: None,
            };
        };
        let warning = Some(why.clone());
        let unresolved = UnresolvedImage {
            why,
            is_for_good,
            last: None,
        };
        let (image, retained) = match last {
            Some(last) => (Ok(last.to_owned()), Some(unresolved)),
            None => (Err(unresolved), None),
        };
        ResolvedImage {
            image,
            retained_image: retained.filter(|_| holder == TemplateSource::Rukpak),
            write: None,
            conditions,
            warning,
        }
    }

    fn conditions(self, outcome: &Outcome, last: Option<&str>) -> Vec<ConditionUpdate> {
        let (is_resolved, reason, message) = match &outcome.problem {
            None => {
                let message = "catalog image reference was successfully resolved";
                (true, reason::RESOLVED, message)
            }
            Some((problem, _)) => (false, reason::UNRESOLVED, problem.as_str()),
        };
        let (condition_reason, effective) = match last.filter(|_| !is_resolved) {
            Some(last) => (reason::LAST_RESOLVED, last),
            None => (reason, outcome.image.as_str()),
        };
        let resolved_image = condition_update(
            RESOLVED_IMAGE,
            is_resolved,
            condition_reason,
            effective.to_owned(),
        );
        let (message, image) = (message.to_owned(), outcome.image.clone());
        if self.has_olm {
            let template_resolved =
                condition_update(TEMPLATE_RESOLVED, is_resolved, reason, message);
            return vec![template_resolved, resolved_image];
        }
        vec![
            condition_update(TEMPLATES_HAVE_RESOLVED, is_resolved, reason, message),
            condition_update(IMAGE_IS_RESOLVED, is_resolved, reason, image),
            resolved_image,
        ]
    }

    /// Returns the image to which the template resolved last: from a condition for this generation, or else from the record
    /// of this template. A condition for another generation may belong to another template.
    fn last(&self) -> Option<&'a str> {
        self.last_in_conditions().or(self.cached_image)
    }

    fn last_in_conditions(&self) -> Option<&'a str> {
        let mut all = self.conditions.iter();
        let condition = all.find(|condition| condition.type_ == RESOLVED_IMAGE)?;
        let is_image = condition.status == "True" || condition.reason == reason::LAST_RESOLVED;
        let is_of_this =
            self.generation.is_some() && condition.observed_generation == self.generation;
        let image =
            Some(condition.message.as_str()).filter(|image| !image_template::is_template(image));
        image.filter(|_| is_image && is_of_this)
    }
}

#[cfg(test)]
mod tests;
