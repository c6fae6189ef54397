//! Rules about channels.

use std::collections::HashSet;

use super::{FilePackages, Location, PackageDraft, Validator, graph, join, quote};
use crate::{
    finding::{Level, OpmScope},
    model::Channel,
    schema,
};

impl Validator {
    pub(super) fn add_channels(
        &mut self,
        channels: Vec<(Location, schema::Channel)>,
        files: &FilePackages,
    ) {
        for (location, channel) in channels {
            let (package, name) = (channel.package, channel.name);
            if !self.drafts.contains_key(&package) {
                let message = format!(
                    "unknown package {} for channel {}",
                    quote(&package),
                    quote(&name)
                );
                let package_name = Some(package.as_str()).filter(|name| !name.is_empty());
                self.report_fatal(&location, package_name, message, files);
                continue;
            }
            if name.is_empty() {
                let message = format!("package {} contains channel with no name", quote(&package));
                self.report_fatal(&location, Some(&package), message, files);
                continue;
            }
            let mut unique = HashSet::new();
            let duplicate = channel
                .entries
                .iter()
                .find(|entry| !unique.insert(entry.name.as_str()));
            if let Some(entry) = duplicate {
                let message = format!(
                    "invalid package {}, channel {}: duplicate entry {}",
                    quote(&package),
                    quote(&name),
                    quote(&entry.name)
                );
                self.report_fatal(&location, Some(&package), message, files);
            }
            let Some(draft) = self.drafts.get_mut(&package) else {
                continue;
            };
            if draft.channels.contains_key(&name) {
                let message = format!(
                    "package {} has duplicate channel {}",
                    quote(&package),
                    quote(&name)
                );
                self.report_fatal(&location, Some(&package), message, files);
                continue;
            }
            draft.channels.insert(name.clone(), location);
            draft.package.channels.insert(
                name.clone(),
                Channel {
                    name,
                    deprecation: None,
                    entries: channel.entries,
                },
            );
        }
    }

    /// Reports entries without a bundle as fatal errors. In opm, only those of a package's last channel are fatal.
    pub(super) fn report_missing_bundles(&mut self) {
        let mut missing = Vec::new();
        for draft in self.drafts.values() {
            for channel in draft.package.channels.values() {
                let names = channel.entries.iter().map(|entry| entry.name.as_str());
                let mut names: Vec<&str> = names
                    .filter(|name| {
                        !draft.package.bundles.contains_key(*name)
                            && !draft.invalid_bundles.contains(*name)
                    })
                    .collect();
                if names.is_empty() {
                    continue;
                }
                names.sort_unstable();
                names.dedup();
                let package = &draft.package.name;
                let message = format!(
                    "no olm.bundle blobs found in package {} for olm.channel entries [{}]",
                    quote(package),
                    join(names, " ")
                );
                if let Some(location) = draft.channels.get(&channel.name) {
                    missing.push((location.clone(), package.clone(), message));
                }
            }
        }
        for (location, package, message) in missing {
            self.report_fatal(&location, Some(&package), message, &FilePackages::default());
        }
    }

    pub(super) fn check_channel(&mut self, draft: &PackageDraft, channel: &Channel) {
        let Some(location) = draft.channels.get(&channel.name) else {
            return;
        };
        let mut problems = Vec::new();
        if channel.entries.is_empty() {
            problems.push("channel must contain at least one bundle".to_owned());
        } else if let Err(problem) = graph::check(channel) {
            problems.push(problem);
        }
        if channel.deprecation.as_deref() == Some("") {
            problems.push("invalid deprecation: message must be set".to_owned());
        }
        for message in problems {
            let scope = OpmScope::WholeTree {
                channels: vec![channel.name.clone()],
                bundle: None,
            };
            let package = &draft.package.name;
            self.report(Level::Error, location, Some(package), message, scope);
        }
    }
}
