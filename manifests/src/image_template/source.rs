//! Selection between the templates of a CatalogSource.

use super::{ANNOTATION, is_template};
use crate::api::labels::CATALOG_IMAGE_TEMPLATE;

/// Location of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateSource {
    /// The annotation of OLM, with its three variables.
    Olm,
    /// Our annotation, with all variables.
    Rukpak,
    /// The image field, with all variables.
    Image,
}

/// The effective template or image of a CatalogSource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenTemplate<'a> {
    /// The location of the text.
    pub holder: TemplateSource,
    /// The template, or an image without variables.
    pub text: &'a str,
    /// The locations of other templates, which are ignored.
    pub ignored_sources: Vec<TemplateSource>,
}

/// Selects the template: an annotation takes precedence over the image field, because the result is written there, and
/// OLM's annotation over ours, because OLM always resolves it. Empty annotations count as absent (OLM v0 parity).
pub fn choose<'a>(
    image: &'a str,
    annotation: impl Fn(&str) -> Option<&'a str>,
) -> ChosenTemplate<'a> {
    let annotation = |name| annotation(name).filter(|text| !text.is_empty());
    let all = [
        (TemplateSource::Olm, annotation(ANNOTATION)),
        (TemplateSource::Rukpak, annotation(CATALOG_IMAGE_TEMPLATE)),
    ];
    let mut annotations = all
        .into_iter()
        .filter_map(|(holder, text)| Some((holder, text?)));
    let image_as = (TemplateSource::Image, image);
    let (holder, text) = annotations.next().unwrap_or(image_as);
    let mut ignored: Vec<TemplateSource> = annotations.map(|(holder, _)| holder).collect();
    if holder != TemplateSource::Image && is_template(image) {
        ignored.push(TemplateSource::Image);
    }
    ChosenTemplate {
        holder,
        text,
        ignored_sources: ignored,
    }
}

// === impl TemplateSource ===

impl TemplateSource {
    /// Returns the name of the annotation, or `None` for the image field.
    pub fn annotation(self) -> Option<&'static str> {
        match self {
            Self::Olm => Some(ANNOTATION),
            Self::Rukpak => Some(CATALOG_IMAGE_TEMPLATE),
            Self::Image => None,
        }
    }
}
