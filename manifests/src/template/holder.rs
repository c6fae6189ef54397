//! Where a CatalogSource may have a template, and which of several counts.

use super::{ANNOTATION, is_template};
use crate::api::labels::CATALOG_IMAGE_TEMPLATE;

/// What has a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The annotation that OLM shipped, with its three variables.
    Olm,
    /// Our own annotation, with all variables.
    Rukpak,
    /// The image itself, with all variables.
    Image,
}

/// What the image of a CatalogSource is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice<'a> {
    /// Where that stands.
    pub holder: Holder,
    /// The template; or an image, which has no variables.
    pub text: &'a str,
    /// Other templates, which count for nothing beside it.
    pub ignored: Vec<Holder>,
}

/// Chooses: an annotation is written into the image, and OLM resolves its own whatever else there is. What is empty is not
/// there (OLM v0 parity).
pub fn choose<'a>(image: &'a str, annotation: impl Fn(&str) -> Option<&'a str>) -> Choice<'a> {
    let annotation = |name| annotation(name).filter(|text| !text.is_empty());
    let all = [
        (Holder::Olm, annotation(ANNOTATION)),
        (Holder::Rukpak, annotation(CATALOG_IMAGE_TEMPLATE)),
    ];
    let mut annotations = all
        .into_iter()
        .filter_map(|(holder, text)| Some((holder, text?)));
    let image_as = (Holder::Image, image);
    let (holder, text) = annotations.next().unwrap_or(image_as);
    let mut ignored: Vec<Holder> = annotations.map(|(holder, _)| holder).collect();
    if holder != Holder::Image && is_template(image) {
        ignored.push(Holder::Image);
    }
    Choice {
        holder,
        text,
        ignored,
    }
}

// === impl Holder ===

impl Holder {
    /// The name of the annotation; the image is in none.
    pub fn annotation(self) -> Option<&'static str> {
        match self {
            Self::Olm => Some(ANNOTATION),
            Self::Rukpak => Some(CATALOG_IMAGE_TEMPLATE),
            Self::Image => None,
        }
    }
}
