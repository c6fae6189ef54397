//! `olm.template.basic`: blobs that are copied, and bundles that are specified by image only.

use std::collections::BTreeMap;

use manifests::openshift::MAX_ANNOTATION;

use super::{Error, check, check_types, entries};
use crate::{
    documents::Meta,
    go_json::{self, list, text, type_name_of},
    render::{
        self, Bundle, Level, Rendered,
        blob::{Blob, KeyOrder},
    },
};

#[derive(Debug, Clone)]
pub(super) struct Basic {
    slots: Vec<BasicEntry>,
}

#[derive(Debug, Clone)]
enum BasicEntry {
    Blob(Blob),
    Image(String),
}

// === impl Basic ===

impl Basic {
    pub(super) fn read(meta: &Meta<'_>, warnings: &mut Vec<String>) -> Result<Self, Error> {
        check_types(meta, &go_json::BASIC)?;
        let (mut slots, mut problems) = (Vec::new(), Vec::new());
        for entry in entries(meta) {
            let read = entry.and_then(|entry| {
                slot(&entry).map_err(|problem| format!("{}:{}: {problem}", entry.file, entry.line))
            });
            match read {
                Ok(slot) => match slot.missing_package() {
                    Some(warning) => warnings.push(warning),
                    None => slots.push(slot),
                },
                Err(problem) => problems.push(problem),
            }
        }
        check(problems)?;
        Ok(Self { slots })
    }

    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().filter_map(|slot| match slot {
            BasicEntry::Blob(_) => None,
            BasicEntry::Image(image) => Some(image.as_str()),
        })
    }

    pub(super) fn render(self, mut bundles: BTreeMap<String, Bundle>) -> Rendered {
        // The last reference to an image takes the bundle; earlier ones clone it.
        let mut remaining: BTreeMap<String, usize> = BTreeMap::new();
        for image in self.images() {
            *remaining.entry(image.to_owned()).or_default() += 1;
        }
        let slots = self.slots.into_iter();
        let blobs = slots.filter_map(|slot| {
            let image = match slot {
                BasicEntry::Blob(blob) => return Some(blob),
                BasicEntry::Image(image) => image,
            };
            let remaining = remaining.get_mut(&image)?;
            *remaining -= 1;
            if *remaining > 0 {
                return bundles.get(&image).map(|bundle| bundle.blob.clone());
            }
            bundles.remove(&image).map(|bundle| bundle.blob)
        });
        // A bundle without a package is dropped, too.
        Rendered::from_blobs(
            blobs
                .filter(|blob| blob.missing_package().is_none())
                .collect(),
        )
    }
}

// === impl BasicEntry ===

impl BasicEntry {
    fn missing_package(&self) -> Option<String> {
        match self {
            Self::Blob(blob) => blob.missing_package(),
            Self::Image(_) => None,
        }
    }
}

fn slot(entry: &Meta<'_>) -> Result<BasicEntry, String> {
    let blob = render::read(entry, KeyOrder::Sorted, Level::None)?;
    if entry.schema != "olm.bundle" {
        return Ok(BasicEntry::Blob(blob));
    }
    let root = entry.root;
    let image = text(root, "image");
    if image.is_empty() {
        return Err("a bundle of a basic template must have an image".to_owned());
    }
    let mut others = Vec::new();
    if !type_name_of(root, "package").is_empty() {
        others.push("package");
    }
    others.extend(
        ["properties", "relatedImages"]
            .into_iter()
            .filter(|field| list(root, field).next().is_some()),
    );
    // opm ignores the field, but its author relies on it.
    others.extend(root.get(MAX_ANNOTATION).map(|_| MAX_ANNOTATION));
    if others.is_empty() {
        return Ok(BasicEntry::Image(image));
    }
    Err(format!(
        "unexpected fields present in basic template bundle {image:?}: {}; remove them, because they come from the image",
        others.join(", ")
    ))
}
