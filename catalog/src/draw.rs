//! Upgrade graph of a package as a drawing, by channel.
//!
//! Arrows point to the upgrade: solid for `replaces`, dashed for `skips`, and dotted from a version range for
//! `skipRange`. Heads have a thick border, and deprecated bundles are gray. Bundles that are referenced but not in the
//! channel are dashed.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
};

use manifests::object::is_unprintable;

use crate::model::{Channel, Package};

/// Output language of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFormat {
    /// Mermaid, which code hosts render in Markdown.
    Mermaid,
    /// DOT, the language of Graphviz.
    Dot,
}

/// Maximum number of drawn channels, nodes and edges.
const MAX_ELEMENTS: usize = 5_000;

/// Draws one channel of a package, or all of them. All names are escaped, because they are untrusted.
pub fn draw(package: &Package, channel: Option<&str>, language: GraphFormat) -> String {
    let mut writer = GraphWriter {
        language,
        out: String::new(),
        remaining: MAX_ELEMENTS,
        skipped: 0,
    };
    writer.start(package);
    let selected = package
        .channels
        .values()
        .filter(|candidate| channel.is_none_or(|name| candidate.name == name));
    for (at, channel) in selected.enumerate() {
        if writer.has_room() {
            writer.channel(at, package, channel);
        } else {
            writer.skipped += channel.entries.len();
        }
    }
    writer.finish();
    writer.out
}

struct GraphWriter {
    language: GraphFormat,
    out: String,
    remaining: usize,
    skipped: usize,
}

/// Style of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeStyle {
    Plain,
    Head,
    Deprecated,
    /// A deprecated head.
    DeprecatedHead,
    /// Referenced, but not in the channel.
    Outside,
    Range,
}

#[derive(Debug, Clone, Copy)]
enum Edge {
    Replaces,
    Skips,
    SkipRange,
}

// === impl GraphWriter ===

impl GraphWriter {
    fn start(&mut self, package: &Package) {
        let name = self.text(&package.name);
        match self.language {
            GraphFormat::Mermaid => self.line("flowchart LR"),
            GraphFormat::Dot => self.line(&format!(
                "digraph \"{name}\" {{\n  rankdir=LR;\n  node [shape=box];"
            )),
        }
    }

    fn channel(&mut self, at: usize, package: &Package, channel: &Channel) {
        let mut title = format!("channel {}", channel.name);
        if channel.name == package.default_channel {
            title.push_str(" (default)");
        }
        if channel.deprecation.is_some() {
            title.push_str(", deprecated");
        }
        let title = self.text(&title);
        match self.language {
            GraphFormat::Mermaid => self.line(&format!("  subgraph c{at}[\"{title}\"]")),
            GraphFormat::Dot => self.line(&format!(
                "  subgraph cluster_{at} {{\n    label=\"{title}\";"
            )),
        }
        let heads: HashSet<&str> = channel
            .heads()
            .into_iter()
            .map(|entry| entry.name.as_str())
            .collect();
        let mut ids: HashMap<&str, String> = HashMap::new();
        for (position, entry) in channel.entries.iter().enumerate() {
            let id = format!("c{at}b{position}");
            let is_head = heads.contains(entry.name.as_str());
            let bundle = package.bundle(&entry.name);
            let is_deprecated =
                bundle.is_some_and(|bundle| bundle.deprecation.is_some() || bundle.is_deprecated);
            let style = match (is_head, is_deprecated) {
                (false, false) => NodeStyle::Plain,
                (true, false) => NodeStyle::Head,
                (false, true) => NodeStyle::Deprecated,
                (true, true) => NodeStyle::DeprecatedHead,
            };
            let version = bundle.map(|bundle| bundle.version.to_string());
            if self.node(&id, &entry.name, version.as_deref(), style) {
                ids.insert(&entry.name, id);
            }
        }
        // Each referenced bundle is drawn once.
        let referenced = channel
            .entries
            .iter()
            .flat_map(|entry| entry.replaces.iter().chain(&entry.skips));
        for (position, name) in referenced.enumerate() {
            if ids.contains_key(name.as_str()) {
                continue;
            }
            let id = format!("c{at}o{position}");
            if self.node(&id, name, None, NodeStyle::Outside) {
                ids.insert(name, id);
            }
        }
        let mut edges = Vec::new();
        for (position, entry) in channel.entries.iter().enumerate() {
            let Some(to) = ids.get(entry.name.as_str()) else {
                continue;
            };
            let from = |name: &String| ids.get(name.as_str()).cloned();
            let replaces = entry.replaces.as_ref();
            if let Some(from) = replaces.and_then(from) {
                edges.push((from, to.clone(), Edge::Replaces));
            }
            for skipped in entry.skips.iter().filter(|skip| Some(*skip) != replaces) {
                if edges.len() > MAX_ELEMENTS {
                    self.skipped += 1;
                } else if let Some(from) = from(skipped) {
                    edges.push((from, to.clone(), Edge::Skips));
                }
            }
            if let Some(range) = &entry.skip_range {
                let id = format!("c{at}r{position}");
                if self.node(&id, range, None, NodeStyle::Range) {
                    edges.push((id, to.clone(), Edge::SkipRange));
                }
            }
        }
        self.line(match self.language {
            GraphFormat::Mermaid => "  end",
            GraphFormat::Dot => "  }",
        });
        for (from, to, edge) in edges {
            self.edge(&from, &to, edge);
        }
    }

    /// Draws a node, unless the limit is reached. Returns whether it was drawn.
    fn node(&mut self, id: &str, name: &str, version: Option<&str>, style: NodeStyle) -> bool {
        if !self.has_room() {
            return false;
        }
        let name = self.text(name);
        let version = version
            .map(|version| self.text(version))
            .unwrap_or_default();
        let line = match self.language {
            GraphFormat::Mermaid => {
                let label = if version.is_empty() {
                    name
                } else {
                    format!("{name}<br/>{version}")
                };
                match style {
                    NodeStyle::Range => format!("    {id}([\"{label}\"])"),
                    _ => format!("    {id}[\"{label}\"]{}", style.class()),
                }
            }
            GraphFormat::Dot => {
                let label = if version.is_empty() {
                    name
                } else {
                    format!("{name}\\n{version}")
                };
                format!("    {id} [label=\"{label}\"{}];", style.attributes())
            }
        };
        self.line(&line);
        true
    }

    fn edge(&mut self, from: &str, to: &str, edge: Edge) {
        if !self.has_room() {
            return;
        }
        let line = match (self.language, edge) {
            (GraphFormat::Mermaid, Edge::Replaces) => format!("  {from} --> {to}"),
            (GraphFormat::Mermaid, Edge::Skips) => format!("  {from} -. skips .-> {to}"),
            (GraphFormat::Mermaid, Edge::SkipRange) => format!("  {from} -. skipRange .-> {to}"),
            (GraphFormat::Dot, Edge::Replaces) => format!("  {from} -> {to};"),
            (GraphFormat::Dot, Edge::Skips) => {
                format!("  {from} -> {to} [style=dashed, label=skips];")
            }
            (GraphFormat::Dot, Edge::SkipRange) => {
                format!("  {from} -> {to} [style=dotted, label=skipRange];")
            }
        };
        self.line(&line);
    }

    fn finish(&mut self) {
        let omitted = self.skipped;
        match self.language {
            GraphFormat::Mermaid => {
                if omitted > 0 {
                    self.line(&format!(
                        "  more[\"and {omitted} more channels, nodes and edges\"]"
                    ));
                }
                self.line("  classDef head stroke-width:4px");
                self.line("  classDef deprecated fill:#ddd,color:#666");
                self.line("  classDef deprecatedHead fill:#ddd,color:#666,stroke-width:4px");
                self.line("  classDef outside stroke-dasharray:4");
            }
            GraphFormat::Dot => {
                if omitted > 0 {
                    self.line(&format!(
                        "  more [label=\"and {omitted} more channels, nodes and edges\"];"
                    ));
                }
                self.line("}");
            }
        }
    }

    fn has_room(&mut self) -> bool {
        if let Some(remaining) = self.remaining.checked_sub(1) {
            self.remaining = remaining;
            return true;
        }
        self.skipped += 1;
        false
    }

    /// Escapes a text for use between quotes.
    fn text(&self, text: &str) -> String {
        const MAX_TEXT_LEN: usize = 100;
        let mut out = String::with_capacity(text.len().min(MAX_TEXT_LEN));
        for (at, c) in text.chars().enumerate() {
            if at == MAX_TEXT_LEN {
                out.push('…');
                break;
            }
            match self.language {
                _ if is_unprintable(c) => out.push(char::REPLACEMENT_CHARACTER),
                // Mermaid supports character codes, and gives many other characters a special meaning.
                GraphFormat::Mermaid
                    if c.is_ascii() && !c.is_ascii_alphanumeric() && !" ._-+,()/".contains(c) =>
                {
                    // Writing to a String never fails.
                    let _ = write!(out, "#{};", u32::from(c));
                }
                GraphFormat::Dot if matches!(c, '"' | '\\') => {
                    out.push('\\');
                    out.push(c);
                }
                _ => out.push(c),
            }
        }
        out
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }
}

impl NodeStyle {
    /// Returns the Mermaid class.
    fn class(self) -> &'static str {
        match self {
            Self::Plain | Self::Range => "",
            Self::Head => ":::head",
            Self::Deprecated => ":::deprecated",
            Self::DeprecatedHead => ":::deprecatedHead",
            Self::Outside => ":::outside",
        }
    }

    /// Returns the DOT attributes.
    fn attributes(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Head => ", penwidth=3",
            Self::Deprecated => ", style=filled, fillcolor=lightgrey",
            Self::DeprecatedHead => ", penwidth=3, style=filled, fillcolor=lightgrey",
            Self::Outside => ", style=dashed",
            Self::Range => ", shape=ellipse",
        }
    }
}
