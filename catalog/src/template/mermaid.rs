//! Channel graphs in the Mermaid format of `opm alpha render-template -o mermaid`.
//!
//! [`crate::draw`] produces other drawings for people, in which all names are quoted. This format is for programs that
//! expect opm's output.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use manifests::version::Version;
use manifests::version_range::Range;

use super::{Error, check, parse_rendered, version_of};
use crate::{
    model::Entry,
    render::{Rendered, blob::BlobKind},
    schema::{Blob, Channel},
};

/// Maximum number of edges in all channels. Each range can match every bundle.
const MAX_EDGES: usize = 500_000;

/// Names of deprecated objects.
#[derive(Debug, Default)]
struct DeprecatedNames {
    packages: BTreeSet<String>,
    channels: BTreeSet<String>,
    bundles: BTreeSet<String>,
}

/// State of the output.
#[derive(Debug, Default)]
struct MermaidWriter {
    versions: BTreeMap<String, Version>,
    deprecated: DeprecatedNames,
    /// Channels of each package, as text.
    packages: BTreeMap<String, String>,
    deprecated_package: Option<String>,
    deprecated_channels: Vec<String>,
    /// Entries by their class.
    classes: BTreeMap<&'static str, Vec<String>>,
    /// Number of edges.
    links: usize,
    skipped_links: Vec<String>,
    warnings: Vec<String>,
}

/// Draws all channels. `warnings` receives invalid ranges, which are skipped.
///
/// # Errors
/// Returns an error if a bundle has no version, or if the graph has too many edges.
pub fn mermaid(rendered: &Rendered, warnings: &mut Vec<String>) -> Result<String, Error> {
    let mut writer = MermaidWriter::default();
    let (mut channels, mut problems) = (Vec::new(), Vec::new());
    for blob in rendered.blobs() {
        if matches!(blob.class, BlobKind::Package | BlobKind::Other) {
            continue;
        }
        match parse_rendered(blob, "catalog").map(|parsed| parsed.blob) {
            Ok(Blob::Channel(channel)) => channels.push(channel),
            Ok(Blob::Bundle(bundle)) => match version_of(&bundle) {
                Ok((_, version)) => {
                    writer.versions.entry(bundle.name).or_insert(version);
                }
                Err(problem) => problems.push(problem),
            },
            Ok(Blob::Deprecations(deprecations)) => {
                for entry in deprecations.entries {
                    let DeprecatedNames {
                        packages,
                        channels,
                        bundles,
                    } = &mut writer.deprecated;
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
        writer.channel(channel)?;
    }
    warnings.append(&mut writer.warnings);
    Ok(writer.text())
}

// === impl MermaidWriter ===

impl MermaidWriter {
    fn version(&self, name: &str) -> Version {
        let version = self.versions.get(name);
        version.cloned().unwrap_or_else(|| Version::new(0, 0, 0))
    }

    fn channel(&mut self, channel: &Channel) -> Result<(), Error> {
        let id = format!("{}-{}", channel.package, channel.name);
        // Writing to a String never fails.
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
            .map(|entry| (entry, self.version(&entry.name)))
            .collect();
        entries.sort_by(|(_, a), (_, b)| b.cmp_precedence(a)); // stable
        // Names that newer entries skip.
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
                let all = channel.entries.iter().map(|other| other.name.as_str());
                let fits = |candidate: &&str| {
                    fits.as_ref()
                        .is_ok_and(|fits| fits.matches(&self.version(candidate)))
                };
                let from: Vec<&str> = all.filter(fits).take(MAX_EDGES).collect();
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

    /// Counts an edge, which can belong to a skipped bundle.
    fn link(&mut self, is_skipped: bool) -> Result<(), Error> {
        if self.links >= MAX_EDGES {
            return check(vec![format!(
                "the graph has more than {MAX_EDGES} edges; use JSON or YAML output"
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
