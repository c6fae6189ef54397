//! The graphs of channels, as `opm alpha render-template -o mermaid` draws them.
//!
//! [`crate::graph`] draws otherwise: it is for people to look at, and lets no name out of its quotes. This is for programs
//! that know opm's drawing.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use manifests::{range::Range, version::Version};

use super::{Error, check, look, version_of};
use crate::{
    blob::{Blob, Channel},
    model::Entry,
    render::{Rendered, blob::Class},
};

/// Edges in all channels: each range may fit every bundle.
const MOST_EDGES: usize = 500_000;

/// Names by what is said of them.
#[derive(Debug, Default)]
struct Deprecated {
    packages: BTreeSet<String>,
    channels: BTreeSet<String>,
    bundles: BTreeSet<String>,
}

/// What is drawn.
#[derive(Debug, Default)]
struct Drawing {
    versions: BTreeMap<String, Version>,
    deprecated: Deprecated,
    /// The channels of each package.
    packages: BTreeMap<String, String>,
    deprecated_package: Option<String>,
    deprecated_channels: Vec<String>,
    /// Entries by their class.
    classes: BTreeMap<&'static str, Vec<String>>,
    /// Edges, counted.
    links: usize,
    skipped_links: Vec<String>,
    warnings: Vec<String>,
}

/// Draws all channels. Warnings are of ranges that are none, which are left out.
///
/// # Errors
/// When a bundle has no version, or there are more edges than anybody can look at.
pub fn mermaid(rendered: &Rendered, warnings: &mut Vec<String>) -> Result<String, Error> {
    let mut drawing = Drawing::default();
    let (mut channels, mut problems) = (Vec::new(), Vec::new());
    for blob in rendered.blobs() {
        if matches!(blob.class, Class::Package | Class::Other) {
            continue;
        }
        match look(blob, "catalog").map(|it| it.blob) {
            Ok(Blob::Channel(channel)) => channels.push(channel),
            Ok(Blob::Bundle(bundle)) => match version_of(&bundle) {
                Ok((_, version)) => {
                    drawing.versions.entry(bundle.name).or_insert(version);
                }
                Err(problem) => problems.push(problem),
            },
            Ok(Blob::Deprecations(deprecations)) => {
                for entry in deprecations.entries {
                    let Deprecated {
                        packages,
                        channels,
                        bundles,
                    } = &mut drawing.deprecated;
                    match entry.schema.as_str() {
                        "olm.package" => packages.insert(deprecations.package.clone()),
                        "olm.channel" => channels.insert(entry.name),
                        "olm.bundle" => bundles.insert(entry.name),
                        _ => false,
                    };
                }
            }
            Ok(Blob::Broken(problem, _)) | Err(problem) => problems.push(problem),
            Ok(_) => {}
        }
    }
    check(problems)?;
    channels.sort_by(|a, b| a.name.cmp(&b.name)); // stable
    for channel in &channels {
        drawing.channel(channel)?;
    }
    warnings.append(&mut drawing.warnings);
    Ok(drawing.text())
}

// === impl Drawing ===

impl Drawing {
    fn version(&self, name: &str) -> Version {
        let version = self.versions.get(name);
        version.cloned().unwrap_or_else(|| Version::new(0, 0, 0))
    }

    fn channel(&mut self, channel: &Channel) -> Result<(), Error> {
        let id = format!("{}-{}", channel.package, channel.name);
        // Writing to a text does not fail.
        let mut out = String::new();
        let _ = writeln!(out, "    %% channel {:?}", channel.name);
        let _ = writeln!(out, "    subgraph {id}[{:?}]", channel.name);
        if self.deprecated.packages.contains(&channel.package) {
            self.deprecated_package = Some(channel.package.clone());
        }
        if self.deprecated.channels.contains(&channel.name) {
            self.deprecated_channels.push(id.clone());
        }
        let mut entries: Vec<(&Entry, Version)> = channel
            .entries
            .iter()
            .map(|it| (it, self.version(&it.name)))
            .collect();
        entries.sort_by(|(_, a), (_, b)| b.cmp_precedence(a)); // stable
        // What newer entries skip.
        let mut skipped: BTreeSet<&str> = BTreeSet::new();
        for (entry, _) in entries {
            let name = entry.name.as_str();
            let own = format!("{id}-{name}");
            let _ = writeln!(out, "      {own}[{name:?}]");
            let is_deprecated = self.deprecated.bundles.contains(name);
            let class = match (is_deprecated, skipped.contains(name)) {
                (true, true) => Some("deprecatedskipped"),
                (true, false) => Some("deprecated"),
                (false, true) => Some("skipped"),
                (false, false) => None,
            };
            if let Some(class) = class {
                self.classes.entry(class).or_default().push(own.clone());
            }
            for from in &entry.skips {
                let _ = writeln!(
                    out,
                    "      {id}-{from}[{from:?}]-- skip --> {own}[{name:?}]"
                );
                self.link(!skipped.insert(from))?;
            }
            if let Some(range) = &entry.skip_range {
                let fits = Range::parse(range);
                if let Err(error) = &fits {
                    self.warnings.push(format!(
                        "ignoring invalid SkipRange for package/edge {:?}/{name:?}: {error}",
                        channel.package
                    ));
                }
                let all = channel.entries.iter().map(|it| it.name.as_str());
                let fits = |it: &&str| {
                    fits.as_ref()
                        .is_ok_and(|fits| fits.matches(&self.version(it)))
                };
                let from: Vec<&str> = all.filter(fits).take(MOST_EDGES).collect();
                for from in from {
                    let _ = writeln!(
                        out,
                        "      {id}-{from}[{from:?}]-- \"skipRange({range})\" --> {own}[{name:?}]"
                    );
                    self.link(skipped.contains(name))?;
                }
            }
            if let Some(from) = &entry.replaces {
                let _ = writeln!(
                    out,
                    "      {id}-{from}[{from:?}]-- replace --> {own}[{name:?}]"
                );
                self.link(skipped.contains(name))?;
            }
        }
        out.push_str("    end\n");
        let package = self.packages.entry(channel.package.clone()).or_default();
        package.push_str(&out);
        Ok(())
    }

    /// Counts an edge, which may lead to or from what is skipped anyway.
    fn link(&mut self, is_skipped: bool) -> Result<(), Error> {
        if self.links >= MOST_EDGES {
            return check(vec![format!(
                "the graph has more than {MOST_EDGES} edges; print JSON or YAML"
            )]);
        }
        if is_skipped {
            self.skipped_links.push(self.links.to_string());
        }
        self.links += 1;
        Ok(())
    }

    fn text(self) -> String {
        let mut out = String::from(
            "graph LR\n  classDef deprecated fill:#E8960F\n  classDef skipped stroke:#FF0000,stroke-width:4px\n  \
             classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px\n",
        );
        for (package, channels) in &self.packages {
            let _ = write!(
                out,
                "  %% package {package:?}\n  subgraph {package:?}\n{channels}  end\n"
            );
        }
        if let Some(package) = &self.deprecated_package {
            let _ = writeln!(out, "style {package} fill:#989695");
        }
        for channel in &self.deprecated_channels {
            let _ = writeln!(out, "style {channel} fill:#DCD0FF");
        }
        for (class, mut entries) in self.classes {
            entries.sort();
            let _ = writeln!(out, "class {} {class}", entries.join(","));
        }
        if !self.skipped_links.is_empty() {
            let links = self.skipped_links.join(",");
            let _ = writeln!(
                out,
                "linkStyle {links} stroke:#FF0000,stroke-width:3px,stroke-dasharray:5;"
            );
        }
        out
    }
}
