//! Where to take a catalog from at this moment. No I/O.

use std::time::Duration;

use manifests::{
    api::{
        catalog_source::{CatalogSource, Invalid, Place},
        labels::CATALOG_IMAGE_TEMPLATE,
    },
    template::{choose, is_template},
};

use super::{
    around::Around,
    interval::{self, Interval},
    template::{self, Input, Resolved, Unresolved},
};

/// How long OLM may take to serve a catalog before its image is pulled here: as long as OLM gives its pod to start, and a
/// little more.
pub(super) const OLM_BUDGET: Duration = Duration::from_secs(180);

/// The annotations that may hold a template.
pub(super) const TEMPLATES: [&str; 2] = [CATALOG_IMAGE_TEMPLATE, manifests::template::ANNOTATION];

/// What to do, and what is to be said of the template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) catalog: Way,
    /// Nothing without an image.
    pub(super) image: Option<Resolved>,
    /// What else people should know of its templates.
    pub(super) warning: Option<String>,
    /// Whether OLM is the one who says how the catalog is.
    pub(super) has_olm: bool,
}

/// Where to take a catalog from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// From whoever serves it at this address.
    Served(String),
    /// From its image.
    Image {
        reference: String,
        /// How often to look for a new one.
        poll: Option<Interval>,
    },
    /// From a ConfigMap of its namespace.
    ConfigMap(String),
    /// From nowhere yet.
    Wait { why: String, left: Duration },
    /// From nowhere, unless it changes.
    Never(String),
    /// From nowhere, unless it or the cluster changes. What was read stays.
    Unresolved(Unresolved),
}

// === impl Plan ===

impl Plan {
    /// Whether the catalog may have a pod of its own: one that is in an image, also while nobody knows in which.
    pub(super) fn may_have_pod(&self) -> bool {
        !self.has_olm && matches!(self.catalog, Way::Image { .. } | Way::Unresolved(_))
    }
}

/// Decides. `waited` is for how long the catalog has not been served, or has been seen here without that; `noted`, what the
/// template in its image was last. Nothing is decided while the cluster has not been asked yet for what the template wants to
/// know.
pub(super) fn plan(
    source: &CatalogSource,
    around: &Around,
    noted: Option<&str>,
    waited: Duration,
) -> Option<Plan> {
    let has_olm = around.has_olm;
    // What OLM makes of it aside.
    let reference = match source.place(false) {
        Ok(Place::Image(reference)) => Some(reference),
        // The template in an annotation is about to give it one.
        Err(Invalid::NoPlace) => templates(source).next().map(|_| ""),
        _ => None,
    };
    let unknown_olm = around.unknown_olm();
    let resolved = |reference| {
        let status = source.status.as_ref();
        let input = Input {
            reference,
            annotations: source.metadata.annotations.as_ref(),
            conditions: status.map_or(&[], |status| &status.conditions),
            noted,
            generation: source.metadata.generation,
            has_olm,
            unknown_olm: unknown_olm.as_deref(),
        };
        template::resolve(input, &around.values, &around.pending)
    };
    let image = match reference {
        Some(reference) => Some(resolved(reference)?),
        None => None,
    };
    let warning = image.as_ref().map_or_else(
        || template::idle(source.metadata.annotations.as_ref(), has_olm),
        |image| image.warning.clone(),
    );
    Some(Plan {
        catalog: way(source, around, image.as_ref(), waited),
        image,
        warning,
        has_olm,
    })
}

fn way(source: &CatalogSource, around: &Around, image: Option<&Resolved>, waited: Duration) -> Way {
    match source.place(around.has_olm) {
        // Its template gives it an image.
        Err(Invalid::NoPlace) if image.is_some() => {}
        Err(invalid) => return Way::Never(invalid.to_string()),
        Ok(Place::Served(address)) => return Way::Served(address.to_string()),
        Ok(Place::Image(_) | Place::ConfigMap(_)) => {}
    }
    if around.has_olm
        && let Some(left) = OLM_BUDGET.checked_sub(waited).filter(|it| !it.is_zero())
    {
        let why = source
            .status
            .as_ref()
            .and_then(|status| status.message.as_deref());
        let why = match why.filter(|why| !why.is_empty()) {
            Some(why) => format!("OLM does not serve it yet: {why}"),
            None => "OLM does not serve it yet".to_owned(),
        };
        return Way::Wait { why, left };
    }
    if let Ok(Place::ConfigMap(name)) = source.place(false) {
        return Way::ConfigMap(name.to_owned());
    }
    let reference = match image.map(|it| &it.image) {
        Some(Ok(reference)) => reference.clone(),
        Some(Err(unresolved)) => return Way::Unresolved(unresolved.clone()),
        None => String::new(),
    };
    // What is pinned stays what it is.
    let poll = interval::of(source.spec.update_strategy.as_ref());
    let poll = poll.filter(|_| !reference.contains('@'));
    Way::Image { reference, poll }
}

/// Whether what was planned for a CatalogSource is still to be done now that it has changed, or the cluster. OLM writes into
/// it again and again what makes no difference.
pub(super) fn is_still(
    planned: Option<&Plan>,
    of: &CatalogSource,
    now: &CatalogSource,
    around: &Around,
    noted: Option<&str>,
    waited: Duration,
) -> bool {
    (&of.spec, &of.metadata.uid) == (&now.spec, &now.metadata.uid)
        && plan(now, around, noted, waited).as_ref() == planned
}

/// The template that makes the image of a CatalogSource, if one does.
pub(super) fn template_of(source: &CatalogSource) -> Option<&str> {
    let image = match source.place(false) {
        Ok(Place::Image(reference)) => reference,
        _ => "",
    };
    let annotations = source.metadata.annotations.as_ref();
    let choice = choose(image, |name| Some(annotations?.get(name)?.as_str()));
    Some(choice.text).filter(|it| is_template(it))
}

/// The texts that a CatalogSource may have a template in.
pub(super) fn templates(source: &CatalogSource) -> impl Iterator<Item = &str> {
    let image = match source.place(false) {
        Ok(Place::Image(reference)) => Some(reference),
        _ => None,
    };
    let annotations = source.metadata.annotations.iter().flatten();
    let ours = annotations
        .filter_map(|(name, text)| TEMPLATES.contains(&name.as_str()).then_some(text.as_str()));
    image.into_iter().chain(ours)
}

#[cfg(test)]
mod tests;
