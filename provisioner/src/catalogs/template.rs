//! What a template makes of a CatalogSource: an image, a word on it, and sometimes a change of the CatalogSource. No I/O.
//!
//! ```text
//!  where the template is             who reads it                      what comes of it
//!  the image itself                  us, where OLM does not run        the image is pulled; three conditions
//!  our annotation                    us, everywhere                    the image is written; conditions
//!  olm.catalogImageTemplate          OLM; us, where OLM does not run   the same, in OLM's words
//! ```
//!
//! OLM takes braces in an image for a part of its name. So where it runs, our annotation holds the template, and we write the
//! image that OLM then serves. The two conditions that OLM has for its own annotation are OLM's there, which removes them from
//! objects without such an annotation; `resolved_image` is ours everywhere. Beside OLM, `core.rukpak.io/TemplateResolved` reports
//! why a template has no image: OLM writes the message of the status, and an Event expires.
//!
//! Nothing is decided, and nothing said, before the cluster was asked once for what a template wants to know.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use manifests::{
    api::labels::CATALOG_IMAGE_TEMPLATE,
    template::{self, Choice, Error, Holder, Values, Variable, choose},
};

use super::around::Part;

/// The image that counts.
pub(super) const RESOLVED_IMAGE: &str = "resolved_image";
/// Whether there is one (OLM v0 parity).
const TEMPLATES_HAVE_RESOLVED: &str = "TemplatesHaveResolved";
/// The image, or what could be put together of it (OLM v0 parity).
const IMAGE_IS_RESOLVED: &str = "ResolvedImage";
/// Reports beside OLM whether the template resolves, and the reason if it does not.
const TEMPLATE_RESOLVED: &str = "core.rukpak.io/TemplateResolved";
/// The condition types that the provisioner removes where OLM does not run.
pub(super) const OURS: &[&str] = &[
    TEMPLATES_HAVE_RESOLVED,
    IMAGE_IS_RESOLVED,
    RESOLVED_IMAGE,
    TEMPLATE_RESOLVED,
];
/// The condition types that the provisioner applies and removes where OLM runs.
pub(super) const OURS_BESIDE_OLM: &[&str] = &[RESOLVED_IMAGE, TEMPLATE_RESOLVED];

/// Reasons of these conditions.
mod reason {
    /// The template is an image.
    pub(super) const RESOLVED: &str = "AllTemplatesResolved";
    /// It is none.
    pub(super) const UNRESOLVED: &str = "UnableToResolve";
    /// There is no image for what the cluster is now, and that of before remains.
    pub(super) const KEPT: &str = "LastResolved";
    /// OLM resolves its own annotation, and ours counts for nothing.
    pub(super) const TWO_TEMPLATES: &str = "TwoTemplates";
    /// The template is in the image, where OLM does not resolve it.
    pub(super) const UNSUPPORTED: &str = "UnsupportedByOLM";
}

/// What comes of a template, or of an image that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    /// The image to pull, or why there is none.
    pub(super) image: Result<String, Unresolved>,
    /// Why that image is the one that was written before, where the status is to say so. Of OLM's annotation only conditions
    /// tell (OLM v0 parity).
    pub(super) kept: Option<Unresolved>,
    /// The image that is to be written into the CatalogSource, unless it is there.
    pub(super) write: Option<String>,
    /// What is to be said of it; of the conditions that are ours, all others are removed.
    pub(super) conditions: Vec<Told>,
    /// What else people should know.
    pub(super) warning: Option<String>,
}

/// Why there is no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unresolved {
    /// In the words of the design document.
    pub(super) why: String,
    /// Whether only somebody who edits the template can help.
    pub(super) is_for_good: bool,
    /// The image that this very CatalogSource had last: read where nothing is, as after a restart.
    pub(super) last: Option<String>,
}

/// A condition, without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) type_: &'static str,
    pub(super) is_true: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// What is known of a CatalogSource with an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) reference: &'a str,
    pub(super) annotations: Option<&'a BTreeMap<String, String>>,
    /// What was said before.
    pub(super) conditions: &'a [Condition],
    /// What the template in its image was last, as far as that was noted.
    pub(super) noted: Option<&'a str>,
    /// Of its spec.
    pub(super) generation: Option<i64>,
    pub(super) has_olm: bool,
    /// The reason why the version of the OLM that runs is unknown; `None` if it is known.
    pub(super) unknown_olm: Option<&'a str>,
}

/// What came of one of both dialects.
struct Outcome {
    /// The image, or what is known of it.
    image: String,
    /// Why it is none, and whether only an edit helps.
    problem: Option<(String, bool)>,
}

/// Puts the values into the template, if there is one. Nothing while the cluster has not been asked yet for one of them.
pub(super) fn resolve(
    input: Input<'_>,
    values: &Values,
    pending: &BTreeSet<Part>,
) -> Option<Resolved> {
    let annotation = |name: &str| Some(input.annotations?.get(name)?.as_str());
    let Choice {
        holder,
        text,
        ignored,
    } = choose(input.reference, annotation);
    let plain = Resolved {
        image: Ok(input.reference.to_owned()),
        kept: None,
        write: None,
        conditions: Vec::new(),
        warning: None,
    };
    let two = ignored.contains(&Holder::Rukpak).then(|| {
        format!(
            "{} counts, and therefore {CATALOG_IMAGE_TEMPLATE} counts for nothing; remove one of them",
            template::ANNOTATION
        )
    });
    if holder == Holder::Olm && input.has_olm {
        let two_templates = |type_| Some(told(type_, false, reason::TWO_TEMPLATES, two.clone()?));
        let conditions = [TEMPLATE_RESOLVED, RESOLVED_IMAGE];
        return Some(Resolved {
            conditions: conditions.into_iter().filter_map(two_templates).collect(),
            warning: two,
            ..plain
        });
    }
    if holder == Holder::Image && !template::is_template(text) {
        return Some(plain);
    }
    if wants(holder, text, input.has_olm).any(|part| pending.contains(&part)) {
        return None;
    }
    let outcome = match holder {
        Holder::Olm => in_olms_words(text, values),
        Holder::Rukpak | Holder::Image => in_our_words(text, values, input.unknown_olm),
    };
    Some(match holder {
        Holder::Image => input.in_place(outcome),
        Holder::Olm | Holder::Rukpak => {
            let resolved = input.written(holder, outcome);
            let warning = resolved.warning.or(two);
            Resolved {
                warning,
                ..resolved
            }
        }
    })
}

/// What to say of an annotation at a catalog that is in no image; of its own, OLM says it.
pub(super) fn idle(
    annotations: Option<&BTreeMap<String, String>>,
    has_olm: bool,
) -> Option<String> {
    let holder = choose("", |name| Some(annotations?.get(name)?.as_str())).holder;
    let name = holder
        .annotation()
        .filter(|_| !(has_olm && holder == Holder::Olm))?;
    Some(format!(
        "the annotation {name} counts for nothing, for the catalog is in no image; remove it"
    ))
}

/// What of the cluster the values are told by.
fn wants(holder: Holder, text: &str, has_olm: bool) -> impl Iterator<Item = Part> {
    let all = template::variables(text);
    all.flat_map(move |variable| match (variable, holder) {
        (Variable::Kube(_), _) => &[Part::Kubernetes][..],
        // OLM has those of kube alone.
        (_, Holder::Olm) => &[],
        (Variable::Olm(_), _) if has_olm => &Part::OLM_VERSION,
        (Variable::Olm(_), _) => &[],
        (Variable::Openshift(_) | Variable::UpdateChannel, _) => &[Part::Openshift],
        (Variable::Architecture, _) => &[Part::Nodes],
    })
    .copied()
}

fn in_our_words(text: &str, values: &Values, unknown_olm: Option<&str>) -> Outcome {
    let wants_olm = || {
        let mut variables = template::variables(text);
        variables.any(|variable| matches!(variable, Variable::Olm(_)))
    };
    match template::resolve(text, values) {
        Ok(image) => Outcome {
            image,
            problem: None,
        },
        Err(error) => Outcome {
            problem: Some((
                match unknown_olm {
                    Some(unknown) if wants_olm() => format!("{error}; {unknown}"),
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

fn in_olms_words(text: &str, values: &Values) -> Outcome {
    let it = template::annotated(text, values.kube.as_ref());
    Outcome {
        image: it.image,
        problem: it.problem.map(|why| (why, it.is_for_good)),
    }
}

/// Reports a template in the image, which OLM takes literally: one line per problem.
fn unsupported_by_olm(outcome: &Outcome, unsupported: &str) -> Told {
    let (reason, message) = match &outcome.problem {
        Some((why, _)) => (reason::UNRESOLVED, format!("{why}\n{unsupported}")),
        None => (reason::UNSUPPORTED, unsupported.to_owned()),
    };
    told(TEMPLATE_RESOLVED, false, reason, message)
}

fn told(type_: &'static str, is_true: bool, reason: &'static str, message: String) -> Told {
    Told {
        type_,
        is_true,
        reason,
        message,
    }
}

// === impl Input ===

impl<'a> Input<'a> {
    /// The template is the image itself.
    fn in_place(self, outcome: Outcome) -> Resolved {
        let warning = self.has_olm.then(|| {
            format!(
                "OLM does not resolve a template in the image; move the template to the annotation {CATALOG_IMAGE_TEMPLATE}, \
                 and set any image in its place"
            )
        });
        Resolved {
            conditions: match &warning {
                Some(unsupported) => vec![unsupported_by_olm(&outcome, unsupported)],
                None => self.conditions(&outcome, self.last()),
            },
            image: match outcome.problem {
                None => Ok(outcome.image),
                Some((why, is_for_good)) => Err(Unresolved {
                    why,
                    is_for_good,
                    last: self.last().map(str::to_owned),
                }),
            },
            kept: None,
            write: None,
            warning,
        }
    }

    /// The template is in an annotation. Where it comes to nothing, the image that was written last counts.
    fn written(self, holder: Holder, outcome: Outcome) -> Resolved {
        let last = Some(self.reference).filter(|it| !it.is_empty() && !template::is_template(it));
        let conditions = self.conditions(&outcome, last);
        let Some((why, is_for_good)) = outcome.problem else {
            return Resolved {
                write: (outcome.image != self.reference).then(|| outcome.image.clone()),
                image: Ok(outcome.image),
                kept: None,
                conditions,
                warning: None,
            };
        };
        let warning = Some(why.clone());
        let unresolved = Unresolved {
            why,
            is_for_good,
            last: None,
        };
        let (image, kept) = match last {
            Some(last) => (Ok(last.to_owned()), Some(unresolved)),
            None => (Err(unresolved), None),
        };
        Resolved {
            image,
            kept: kept.filter(|_| holder == Holder::Rukpak),
            write: None,
            conditions,
            warning,
        }
    }

    fn conditions(self, outcome: &Outcome, last: Option<&str>) -> Vec<Told> {
        let (is_resolved, reason, message) = match &outcome.problem {
            None => {
                let message = "catalog image reference was successfully resolved";
                (true, reason::RESOLVED, message)
            }
            Some((why, _)) => (false, reason::UNRESOLVED, why.as_str()),
        };
        let (kept, counts) = match last.filter(|_| !is_resolved) {
            Some(last) => (reason::KEPT, last),
            None => (reason, outcome.image.as_str()),
        };
        let resolved_image = told(RESOLVED_IMAGE, is_resolved, kept, counts.to_owned());
        let (message, image) = (message.to_owned(), outcome.image.clone());
        if self.has_olm {
            let template_resolved = told(TEMPLATE_RESOLVED, is_resolved, reason, message);
            return vec![template_resolved, resolved_image];
        }
        vec![
            told(TEMPLATES_HAVE_RESOLVED, is_resolved, reason, message),
            told(IMAGE_IS_RESOLVED, is_resolved, reason, image),
            resolved_image,
        ]
    }

    /// The image that the template was last: what was said of this spec, or else what was noted of this very template. What
    /// was said of another spec may have been another template.
    fn last(&self) -> Option<&'a str> {
        self.said().or(self.noted)
    }

    fn said(&self) -> Option<&'a str> {
        let mut all = self.conditions.iter();
        let condition = all.find(|it| it.type_ == RESOLVED_IMAGE)?;
        let is_image = condition.status == "True" || condition.reason == reason::KEPT;
        let is_of_this =
            self.generation.is_some() && condition.observed_generation == self.generation;
        let image = Some(condition.message.as_str()).filter(|it| !template::is_template(it));
        image.filter(|_| is_image && is_of_this)
    }
}

#[cfg(test)]
mod tests;
