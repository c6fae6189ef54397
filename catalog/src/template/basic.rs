//! `olm.template.basic`: blobs as they are, but for bundles, of which there is only the image.

use std::collections::BTreeMap;

use manifests::openshift::MAX_ANNOTATION;

use super::{Error, check, entries, shaped};
use crate::{
    render::{
        self, Bundle, Level, Rendered,
        blob::{Blob, Order},
    },
    shape::{self, borrowed, list, text},
    walk::Meta,
};

#[derive(Debug, Clone)]
pub(super) struct Basic {
    slots: Vec<Slot>,
}

#[derive(Debug, Clone)]
enum Slot {
    Blob(Blob),
    Image(String),
}

// === impl Basic ===

impl Basic {
    pub(super) fn read(meta: &Meta<'_>, warnings: &mut Vec<String>) -> Result<Self, Error> {
        shaped(meta, &shape::BASIC)?;
        let (mut slots, mut problems) = (Vec::new(), Vec::new());
        for entry in entries(meta) {
            let read = entry.and_then(|entry| {
                slot(&entry).map_err(|it| format!("{}:{}: {it}", entry.file, entry.line))
            });
            match read {
                Ok(slot) => match slot.nameless() {
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
            Slot::Blob(_) => None,
            Slot::Image(image) => Some(image.as_str()),
        })
    }

    pub(super) fn render(self, mut bundles: BTreeMap<String, Bundle>) -> Rendered {
        // Who is named for the last time gives away what others had a copy of.
        let mut left: BTreeMap<String, usize> = BTreeMap::new();
        for image in self.images() {
            *left.entry(image.to_owned()).or_default() += 1;
        }
        let slots = self.slots.into_iter();
        let blobs = slots.filter_map(|slot| {
            let image = match slot {
                Slot::Blob(blob) => return Some(blob),
                Slot::Image(image) => image,
            };
            let left = left.get_mut(&image)?;
            *left -= 1;
            if *left > 0 {
                return bundles.get(&image).map(|it| it.blob.clone());
            }
            bundles.remove(&image).map(|it| it.blob)
        });
        // A bundle without a package has no place either.
        Rendered::of(blobs.filter(|it| it.nameless().is_none()).collect())
    }
}

// === impl Slot ===

impl Slot {
    fn nameless(&self) -> Option<String> {
        match self {
            Self::Blob(blob) => blob.nameless(),
            Self::Image(_) => None,
        }
    }
}

fn slot(entry: &Meta<'_>) -> Result<Slot, String> {
    let blob = render::read(entry, Order::Sorted, Level::None)?;
    if entry.schema != "olm.bundle" {
        return Ok(Slot::Blob(blob));
    }
    let root = entry.root;
    let image = text(root, "image");
    if image.is_empty() {
        return Err("a bundle of a basic template must have an image".to_owned());
    }
    let mut others = Vec::new();
    if !borrowed(root, "package").is_empty() {
        others.push("package");
    }
    others.extend(
        ["properties", "relatedImages"]
            .into_iter()
            .filter(|it| list(root, it).next().is_some()),
    );
    // opm ignores it, and its author relies on it.
    others.extend(root.get(MAX_ANNOTATION).map(|_| MAX_ANNOTATION));
    if others.is_empty() {
        return Ok(Slot::Image(image));
    }
    Err(format!(
        "unexpected fields present in basic template bundle {image:?}: {}; they come from the image, remove them",
        others.join(", ")
    ))
}
