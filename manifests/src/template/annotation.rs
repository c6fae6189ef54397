//! The template that OLM shipped: in the annotation `olm.catalogImageTemplate`, with the three numbers of the Kubernetes
//! version, and with its own words for what came of it.

use semver::Version;

use super::{Piece, Values, Variable, known, note, pieces};
use crate::image::Reference;

/// Where the template stands.
pub const ANNOTATION: &str = "olm.catalogImageTemplate";
const CANNOT: &str = "cannot construct catalog image reference";

/// What came of an annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotated {
    /// The image; or, where it cannot be made, the text with `missing` in the place of what has no value.
    pub image: String,
    /// In words, what is wrong; nothing of an image.
    pub problem: Option<String>,
    /// Whether only somebody who edits the annotation can help.
    pub is_for_good: bool,
}

// === impl Annotated ===

impl Annotated {
    /// The reason of both conditions.
    pub fn reason(&self) -> &'static str {
        match self.problem {
            None => "AllTemplatesResolved",
            Some(_) => "UnableToResolve",
        }
    }

    /// The message of the condition `TemplatesHaveResolved`.
    pub fn message(&self) -> &str {
        self.problem
            .as_deref()
            .unwrap_or("catalog image reference was successfully resolved")
    }
}

/// Puts the Kubernetes version into an annotation; other names in braces are no variables there. OLM v0 parity.
pub fn annotated(text: &str, kube: Option<&Version>) -> Annotated {
    let values = Values {
        kube: kube.cloned(),
        ..Values::default()
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
                let of_kube = known(name).filter(|(_, it)| matches!(it, Variable::Kube(_)));
                match of_kube.map(|(name, variable)| (name, values.of(variable))) {
                    Some((_, Some(value))) => image.push_str(&value),
                    Some((name, None)) => {
                        note(&mut missing, format!("\"{{{name}}}\""));
                        image.push_str("missing");
                    }
                    None => {
                        is_malformed = true;
                        super::put_back(&mut image, name);
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
    Annotated {
        image,
        problem,
        is_for_good,
    }
}
