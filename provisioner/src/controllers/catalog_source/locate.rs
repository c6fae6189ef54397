//! Plans from where a catalog is loaded. Pure; no I/O.

use std::time::Duration;

use manifests::{
    api::{
        catalog_source::{CatalogSource, DeclaredLocation, Invalid},
        labels::CATALOG_IMAGE_TEMPLATE,
    },
    image_template::{choose, is_template},
};

use super::cluster_facts::ClusterFacts;
use super::poll::{self, PollInterval};
use super::template_resolution::{self, Input, ResolvedImage, UnresolvedImage};

/// Time that OLM has to serve a catalog before its image is pulled instead: the startup timeout of OLM's registry pods, and
/// some margin.
pub(super) const OLM_STARTUP_TIMEOUT: Duration = Duration::from_secs(180);

/// Annotations that may contain an image template.
pub(super) const TEMPLATE_ANNOTATIONS: [&str; 2] = [
    CATALOG_IMAGE_TEMPLATE,
    manifests::image_template::ANNOTATION,
];

/// Location of a catalog, and the result of its image template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CatalogPlan {
    pub(super) catalog: CatalogLocation,
    /// Result of the image template; `None` if the catalog is not in an image.
    pub(super) image: Option<ResolvedImage>,
    /// Warning about the template annotations, to publish as an Event.
    pub(super) warning: Option<String>,
    /// True if OLM reports the state of the catalog.
    pub(super) olm_serves: bool,
}

/// Location of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CatalogLocation {
    /// The registry server at this address.
    Address(String),
    /// The image with this reference.
    Image {
        reference: String,
        /// Poll interval of the image's tag; `None` if it is not polled.
        poll: Option<PollInterval>,
    },
    /// A ConfigMap in the namespace of the CatalogSource.
    ConfigMap(String),
    /// Undecided, because OLM may still serve the catalog.
    Pending { why: String, left: Duration },
    /// Invalid CatalogSource without a usable location. Contains the reason.
    Invalid(String),
    /// Image template that does not resolve in the current cluster. Loaded content remains available.
    Unresolved(UnresolvedImage),
}

// === impl CatalogPlan ===

impl CatalogPlan {
    /// Reports whether the catalog may have a registry pod: it is in an image, even if a template currently resolves to
    /// none.
    pub(super) fn may_have_pod(&self) -> bool {
        !self.olm_serves
            && matches!(
                self.catalog,
                CatalogLocation::Image { .. } | CatalogLocation::Unresolved(_)
            )
    }
}

/// Plans the location of a catalog. `waited` is the time for which it has not been served, or has been followed without
/// being served. `recorded` is the image to which its template resolved last. Returns `None` while a fact that the
/// template needs is unknown.
pub(super) fn plan(
    source: &CatalogSource,
    facts: &ClusterFacts,
    recorded: Option<&str>,
    waited: Duration,
) -> Option<CatalogPlan> {
    let has_olm = facts.has_olm;
    // The source as declared, regardless of a server of OLM.
    let reference = match source.place(false) {
        Ok(DeclaredLocation::Image(reference)) => Some(reference),
        // The template in an annotation is about to provide the image.
        Err(Invalid::NoPlace) => templates(source).next().map(|_| ""),
        _ => None,
    };
    let unknown_olm = facts.unknown_olm();
    let resolved = |reference| {
        let status = source.status.as_ref();
        let input = Input {
            reference,
            annotations: source.metadata.annotations.as_ref(),
            conditions: status.map_or(&[], |status| &status.conditions),
            cached_image: recorded,
            generation: source.metadata.generation,
            has_olm,
            unknown_olm: unknown_olm.as_deref(),
        };
        template_resolution::resolve(input, &facts.values, &facts.pending)
    };
    let image = match reference {
        Some(reference) => Some(resolved(reference)?),
        None => None,
    };
    let warning = image.as_ref().map_or_else(
        || template_resolution::idle(source.metadata.annotations.as_ref(), has_olm),
        |image| image.warning.clone(),
    );
    Some(CatalogPlan {
        catalog: locate(source, facts, image.as_ref(), waited),
        image,
        warning,
        olm_serves: has_olm,
    })
}

fn locate(
    source: &CatalogSource,
    facts: &ClusterFacts,
    image: Option<&ResolvedImage>,
    waited: Duration,
) -> CatalogLocation {
    match source.place(facts.has_olm) {
        // The template provides the image.
        Err(Invalid::NoPlace) if image.is_some() => {}
        Err(invalid) => return CatalogLocation::Invalid(invalid.to_string()),
        Ok(DeclaredLocation::Served(address)) => {
            return CatalogLocation::Address(address.to_string());
        }
        Ok(DeclaredLocation::Image(_) | DeclaredLocation::ConfigMap(_)) => {}
    }
    if facts.has_olm
        && let Some(left) = OLM_STARTUP_TIMEOUT
            .checked_sub(waited)
            .filter(|left| !left.is_zero())
    {
        let message = source
            .status
            .as_ref()
            .and_then(|status| status.message.as_deref());
        let message = match message.filter(|message| !message.is_empty()) {
            Some(message) => format!("OLM does not serve the catalog yet: {message}"),
            None => "OLM does not serve the catalog yet".to_owned(),
        };
        return CatalogLocation::Pending { why: message, left };
    }
    if let Ok(DeclaredLocation::ConfigMap(name)) = source.place(false) {
        return CatalogLocation::ConfigMap(name.to_owned());
    }
    let reference = match image.map(|image| &image.image) {
        Some(Ok(reference)) => reference.clone(),
        Some(Err(unresolved)) => return CatalogLocation::Unresolved(unresolved.clone()),
        None => String::new(),
    };
    // A pinned image is not polled.
    let poll = poll::from_strategy(source.spec.update_strategy.as_ref());
    let poll = poll.filter(|_| !reference.contains('@'));
    CatalogLocation::Image { reference, poll }
}

/// Reports whether a plan is still valid after a change of the CatalogSource or the cluster. Most changes by OLM make no
/// difference.
pub(super) fn is_unchanged(
    planned: Option<&CatalogPlan>,
    old: &CatalogSource,
    new: &CatalogSource,
    facts: &ClusterFacts,
    recorded: Option<&str>,
    waited: Duration,
) -> bool {
    is_same_catalog(old, new) && plan(new, facts, recorded, waited).as_ref() == planned
}

/// Reports whether results for one version of a CatalogSource apply to the other. Annotations that are not image templates do
/// not affect the catalog.
pub(super) fn is_same_catalog(old: &CatalogSource, new: &CatalogSource) -> bool {
    (&old.metadata.uid, &old.spec) == (&new.metadata.uid, &new.spec)
        && templates(old).eq(templates(new))
}

/// Returns the template of the image of a CatalogSource, if any.
pub(super) fn template_of(source: &CatalogSource) -> Option<&str> {
    let image = match source.place(false) {
        Ok(DeclaredLocation::Image(reference)) => reference,
        _ => "",
    };
    let annotations = source.metadata.annotations.as_ref();
    let choice = choose(image, |name| Some(annotations?.get(name)?.as_str()));
    Some(choice.text).filter(|text| is_template(text))
}

/// Returns all texts of a CatalogSource that may be an image template.
pub(super) fn templates(source: &CatalogSource) -> impl Iterator<Item = &str> {
    let image = match source.place(false) {
        Ok(DeclaredLocation::Image(reference)) => Some(reference),
        _ => None,
    };
    let annotations = source.metadata.annotations.iter().flatten();
    let annotated = annotations.filter_map(|(name, text)| {
        TEMPLATE_ANNOTATIONS
            .contains(&name.as_str())
            .then_some(text.as_str())
    });
    image.into_iter().chain(annotated)
}

#[cfg(test)]
mod tests;
