//! `plain+v0`: a flat `manifests/` directory whose objects are applied unchanged, with rukpak's messages.

use std::collections::BTreeMap;

use manifests::{
    content::Content,
    object::{Identity, Object},
};

use crate::{
    bundle::{self, Item},
    finding::{Findings, Location, code::Code},
    options::Options,
    rejections, upgrade_items,
};

const DIRECTORY: &str = "manifests";

/// Returns the objects of a plain bundle in an order in which they can be applied.
pub(crate) fn objects(
    content: &Content,
    options: &Options,
    findings: &mut Findings,
) -> Vec<Object> {
    if !content.has_folder(DIRECTORY) {
        if !findings.are_absences_hidden() {
            findings.error(
                Code::Missing,
                None,
                "readdir manifests: file does not exist",
                "put the objects into a directory \"manifests\" in the bundle's root directory",
            );
        }
        return Vec::new();
    }
    let bundle::Objects {
        mut items,
        mut budget,
        ..
    } = bundle::objects(content, DIRECTORY, options.limits, findings);
    if items.is_empty() && !findings.is_rejected() {
        findings.error(
            Code::Missing,
            Location::file(DIRECTORY),
            "invalid bundle: found zero objects: plain+v0 bundles are required to contain at least one object",
            "add a manifest",
        );
    }
    upgrade_items(&mut items, options.kube_version, &mut budget, findings);
    rejections::duplicates(&items, rejections::NamespaceRule::Explicit, findings);
    let mut unique: BTreeMap<Identity, Object> = BTreeMap::new();
    for Item { value, place } in items {
        match Object::try_from(value) {
            Ok(object) => {
                if object.name().is_empty() {
                    let message = format!("a {} has no metadata.name", object.kind());
                    findings.error(Code::Unidentified, place, message, "set metadata.name");
                }
                unique.insert(object.identity(), object);
            }
            Err(error) => findings.error(
                Code::Unidentified,
                place,
                format!("the object {error}"),
                "set it",
            ),
        }
    }
    let mut objects: Vec<Object> = unique.into_values().collect();
    objects.sort_by_cached_key(Object::order);
    objects
}
