//! Rules about deprecations.

use std::collections::HashSet;

use super::{FilePackages, Location, PackageDraft, Validator, quote};
use crate::schema::{self, Deprecation};

impl Validator {
    pub(super) fn add_deprecations(
        &mut self,
        deprecations: Vec<(Location, schema::Deprecations)>,
        files: &FilePackages,
    ) {
        for (at, (location, blob)) in deprecations.into_iter().enumerate() {
            let package = blob.package;
            if package.is_empty() {
                let message = format!("package name must be set for deprecation item {at}");
                self.report_fatal(&location, None, message, files);
                continue;
            }
            let Some(draft) = self.drafts.get_mut(&package) else {
                let message = format!(
                    "cannot apply deprecations to an unknown package {}",
                    quote(&package)
                );
                self.report_fatal(&location, Some(&package), message, files);
                continue;
            };
            if draft.deprecations.is_some() {
                let message = format!(
                    "expected a maximum of one deprecation per package: {}",
                    quote(&package)
                );
                self.report_fatal(&location, Some(&package), message, files);
                continue;
            }
            draft.deprecations = Some(location.clone());
            let mut unique = HashSet::new();
            let mut problems = Vec::new();
            for (at, entry) in blob.entries.into_iter().enumerate() {
                let reference = (entry.schema.clone(), entry.name.clone());
                if entry.schema.is_empty() {
                    problems.push(format!(
                        "schema must be set for deprecation entry [{at}] for package {}",
                        quote(&package)
                    ));
                } else if unique.insert(reference) {
                    problems.extend(apply(draft, at, entry).err());
                } else {
                    problems.push(format!(
                        "duplicate deprecation entry {} for package {}",
                        go_syntax(&entry),
                        quote(&package)
                    ));
                }
            }
            for message in problems {
                self.report_fatal(&location, Some(&package), message, files);
            }
        }
    }
}

fn apply(draft: &mut PackageDraft, at: usize, entry: Deprecation) -> Result<(), String> {
    let package = &mut draft.package;
    match entry.schema.as_str() {
        "olm.bundle" => {
            if !draft.bundles.contains_key(&entry.name) {
                return Err(format!(
                    "cannot deprecate bundle {} for package {}: bundle not found",
                    quote(&entry.name),
                    quote(&package.name)
                ));
            }
            draft.deprecated.insert(entry.name, entry.message);
        }
        "olm.channel" => match package.channels.get_mut(&entry.name) {
            Some(channel) => channel.deprecation = Some(entry.message),
            // opm has an empty channel for a missing default channel.
            None if package.default_channel == entry.name => {}
            None => {
                return Err(format!(
                    "cannot deprecate channel {} for package {}: channel not found",
                    quote(&entry.name),
                    quote(&package.name)
                ));
            }
        },
        "olm.package" => {
            if !entry.name.is_empty() {
                return Err(format!(
                    "package name must be empty for deprecated package {} (specified {})",
                    quote(&package.name),
                    quote(&entry.name)
                ));
            }
            package.deprecation = Some(entry.message);
        }
        _ => {
            return Err(format!(
                "cannot deprecate object {} referenced by entry {at} for package {}: object schema unknown",
                go_syntax(&entry),
                quote(&package.name)
            ));
        }
    }
    Ok(())
}

/// Formats a reference like Go's `%#v`.
fn go_syntax(entry: &Deprecation) -> String {
    format!(
        "declcfg.PackageScopedReference{{Schema:{}, Name:{}}}",
        quote(&entry.schema),
        quote(&entry.name)
    )
}
