//! Rules about channels.

use std::collections::HashSet;

use super::{Check, Draft, Files, Place, graph, join, q};
use crate::{
    blob,
    finding::{Level, Scope},
    model::Channel,
};

impl Check {
    pub(super) fn add_channels(&mut self, channels: Vec<(Place, blob::Channel)>, files: &Files) {
        for (place, channel) in channels {
            let (package, name) = (channel.package, channel.name);
            if !self.drafts.contains_key(&package) {
                let message = format!("unknown package {} for channel {}", q(&package), q(&name));
                let known = Some(package.as_str()).filter(|it| !it.is_empty());
                self.first(&place, known, message, files);
                continue;
            }
            if name.is_empty() {
                let message = format!("package {} contains channel with no name", q(&package));
                self.first(&place, Some(&package), message, files);
                continue;
            }
            let mut seen = HashSet::new();
            let twice = channel
                .entries
                .iter()
                .find(|entry| !seen.insert(entry.name.as_str()));
            if let Some(entry) = twice {
                let message = format!(
                    "invalid package {}, channel {}: duplicate entry {}",
                    q(&package),
                    q(&name),
                    q(&entry.name)
                );
                self.first(&place, Some(&package), message, files);
            }
            let Some(draft) = self.drafts.get_mut(&package) else {
                continue;
            };
            if draft.channels.contains_key(&name) {
                let message = format!("package {} has duplicate channel {}", q(&package), q(&name));
                self.first(&place, Some(&package), message, files);
                continue;
            }
            draft.channels.insert(name.clone(), place);
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

    /// Entries without a bundle. opm tells them of the last channel of a package alone.
    pub(super) fn find_missing(&mut self) {
        let mut missing = Vec::new();
        for draft in self.drafts.values() {
            for channel in draft.package.channels.values() {
                let names = channel.entries.iter().map(|entry| entry.name.as_str());
                let mut names: Vec<&str> = names
                    .filter(|name| {
                        !draft.package.bundles.contains_key(*name) && !draft.lost.contains(*name)
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
                    q(package),
                    join(names, " ")
                );
                if let Some(place) = draft.channels.get(&channel.name) {
                    missing.push((place.clone(), package.clone(), message));
                }
            }
        }
        for (place, package, message) in missing {
            self.first(&place, Some(&package), message, &Files::default());
        }
    }

    pub(super) fn check_channel(&mut self, draft: &Draft, channel: &Channel) {
        let Some(place) = draft.channels.get(&channel.name) else {
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
            let scope = Scope::Tree {
                channels: vec![channel.name.clone()],
                bundle: None,
            };
            let package = &draft.package.name;
            self.tell(Level::Error, place, Some(package), message, scope);
        }
    }
}
