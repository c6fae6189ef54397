//! Rules about deprecations.

use std::collections::HashSet;

use super::{Check, Draft, Files, Place, q};
use crate::blob::{self, Deprecation};

impl Check {
    pub(super) fn add_deprecations(
        &mut self,
        deprecations: Vec<(Place, blob::Deprecations)>,
        files: &Files,
    ) {
        for (at, (place, blob)) in deprecations.into_iter().enumerate() {
            let package = blob.package;
            if package.is_empty() {
                let message = format!("package name must be set for deprecation item {at}");
                self.first(&place, None, message, files);
                continue;
            }
            let Some(draft) = self.drafts.get_mut(&package) else {
                let message = format!(
                    "cannot apply deprecations to an unknown package {}",
                    q(&package)
                );
                self.first(&place, Some(&package), message, files);
                continue;
            };
            if draft.deprecations.is_some() {
                let message = format!(
                    "expected a maximum of one deprecation per package: {}",
                    q(&package)
                );
                self.first(&place, Some(&package), message, files);
                continue;
            }
            draft.deprecations = Some(place.clone());
            let mut seen = HashSet::new();
            let mut problems = Vec::new();
            for (at, entry) in blob.entries.into_iter().enumerate() {
                let reference = (entry.schema.clone(), entry.name.clone());
                if entry.schema.is_empty() {
                    problems.push(format!(
                        "schema must be set for deprecation entry [{at}] for package {}",
                        q(&package)
                    ));
                } else if seen.insert(reference) {
                    problems.extend(apply(draft, at, entry).err());
                } else {
                    problems.push(format!(
                        "duplicate deprecation entry {} for package {}",
                        go(&entry),
                        q(&package)
                    ));
                }
            }
            for message in problems {
                self.first(&place, Some(&package), message, files);
            }
        }
    }
}

fn apply(draft: &mut Draft, at: usize, entry: Deprecation) -> Result<(), String> {
    let package = &mut draft.package;
    match entry.schema.as_str() {
        "olm.bundle" => {
            if !draft.bundles.contains_key(&entry.name) {
                return Err(format!(
                    "cannot deprecate bundle {} for package {}: bundle not found",
                    q(&entry.name),
                    q(&package.name)
                ));
            }
            draft.deprecated.insert(entry.name, entry.message);
        }
        "olm.channel" => match package.channels.get_mut(&entry.name) {
            Some(channel) => channel.deprecation = Some(entry.message),
            // opm has an empty channel for a default that is not there.
            None if package.default_channel == entry.name => {}
            None => {
                return Err(format!(
                    "cannot deprecate channel {} for package {}: channel not found",
                    q(&entry.name),
                    q(&package.name)
                ));
            }
        },
        "olm.package" => {
            if !entry.name.is_empty() {
                return Err(format!(
                    "package name must be empty for deprecated package {} (specified {})",
                    q(&package.name),
                    q(&entry.name)
                ));
            }
            package.deprecation = Some(entry.message);
        }
        _ => {
            return Err(format!(
                "cannot deprecate object {} referenced by entry {at} for package {}: object schema unknown",
                go(&entry),
                q(&package.name)
            ));
        }
    }
    Ok(())
}

/// A reference as Go's `%#v` writes it.
fn go(entry: &Deprecation) -> String {
    format!(
        "declcfg.PackageScopedReference{{Schema:{}, Name:{}}}",
        q(&entry.schema),
        q(&entry.name)
    )
}
