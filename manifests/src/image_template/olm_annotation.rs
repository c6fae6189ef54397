//! Template dialect of OLM: in the annotation `olm.catalogImageTemplate`, with the three parts of the Kubernetes version as
//! variables, and with OLM's messages.

use semver::Version;

use super::{Piece, TemplateValues, Variable, find_variable, pieces, push_unique};
use crate::image::Reference;

/// Annotation that contains the template.
pub const ANNOTATION: &str = "olm.catalogImageTemplate";
const CANNOT: &str = "cannot construct catalog image reference";

/// Result of resolving an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotationResult {
    /// The image. If it cannot be resolved, the text with `missing` in place of variables without a value.
    pub image: String,
    /// Description of the problem, or `None` for a valid image.
    pub problem: Option<String>,
    /// Whether only a change of the annotation helps.
    pub is_for_good: bool,
}

// === impl AnnotationResult ===

impl AnnotationResult {
    /// Returns the reason of both conditions.
    pub fn reason(&self) -> &'static str {
        match self.problem {
            None => "AllTemplatesResolved",
            Some(_) => "UnableToResolve",
        }
    }

    /// Returns the message of the condition `TemplatesHaveResolved`.
    pub fn message(&self) -> &str {
        self.problem
            .as_deref()
            .unwrap_or("catalog image reference was successfully resolved")
    }
}

/// Resolves an annotation with the Kubernetes version; other names in braces are not variables (OLM v0 parity).
pub fn annotated(text: &str, kube: Option<&Version>) -> AnnotationResult {
    let values = TemplateValues {
        kube: kube.cloned(),
        ..TemplateValues::default()
    };
    let mut image = String::with_capacity(text.len());
    let mut missing: Vec<String> = Vec::new();
    let mut is_malformed = false;
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => image.push_str(text),
            Piece::Brace(brace) => {
                is_malformed = true;
                image.push(brace);
            }
            Piece::Variable(name) => {
                let of_kube = find_variable(name)
                    .filter(|(_, variable)| matches!(variable, Variable::Kube(_)));
                match of_kube.map(|(name, variable)| (name, values.value(variable))) {
                    Some((_, Some(value))) => image.push_str(&value),
                    Some((name, None)) => {
                        push_unique(&mut missing, format!("\"{{{name}}}\""));
                        image.push_str("missing");
                    }
                    None => {
                        is_malformed = true;
                        super::push_variable(&mut image, name);
                    }
                }
            }
        }
    }
    let is_for_good = is_malformed || image.parse::<Reference>().is_err();
    let missing = missing.join(", ");
    let problem = match (missing.is_empty(), is_for_good) {
        (true, false) => None,
        (false, false) => Some(format!(
            "{CANNOT}, because variable(s) {missing} could not be resolved"
        )),
        (true, true) => Some(format!(
            "{CANNOT}, because one or more template(s) has improper syntax"
        )),
        (false, true) => Some(format!(
            "{CANNOT}, because variable(s) {missing} could not be resolved and one or more template(s) has improper syntax"
        )),
    };
    AnnotationResult {
        image,
        problem,
        is_for_good,
    }
}
