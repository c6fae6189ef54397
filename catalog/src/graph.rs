//! The upgrade graph of a package as a drawing: who is upgraded to whom, channel by channel.
//!
//! Arrows point where upgrades lead: solid ones for `replaces`, dashed ones for `skips`, dotted ones from a range of
//! versions for `skipRange`. Heads have a thick border, deprecated bundles are grey, and what is named but not in the
//! channel is dashed.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    fmt::Write as _,
};

use manifests::object::is_unprintable;

use crate::model::{Channel, Package};

/// The language of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// What code hosts draw within Markdown.
    Mermaid,
    /// What Graphviz draws.
    Dot,
}

/// Channels, nodes and edges that are drawn. Nobody looks at more.
const LIMIT: usize = 5_000;

/// Draws one channel of a package, or all of them. Names of strangers cannot be anything but names in it.
pub fn draw(package: &Package, channel: Option<&str>, language: Language) -> String {
    let mut drawing = Drawing {
        language,
        out: String::new(),
        left: LIMIT,
        omitted: 0,
    };
    drawing.begin(package);
    let wanted = package
        .channels
        .values()
        .filter(|it| channel.is_none_or(|name| it.name == name));
    for (at, channel) in wanted.enumerate() {
        if drawing.has_room() {
            drawing.channel(at, package, channel);
        } else {
            drawing.omitted += channel.entries.len();
        }
    }
    drawing.end();
    drawing.out
}

struct Drawing {
    language: Language,
    out: String,
    left: usize,
    omitted: usize,
}

/// What a node looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Plain,
    Head,
    Deprecated,
    /// A head that is deprecated.
    DeprecatedHead,
    /// Named, but not in the channel.
    Outside,
    Range,
}

#[derive(Debug, Clone, Copy)]
enum Edge {
    Replaces,
    Skips,
    SkipRange,
}

// === impl Drawing ===

impl Drawing {
    fn begin(&mut self, package: &Package) {
        let name = self.text(&package.name);
        match self.language {
            Language::Mermaid => self.line("flowchart LR"),
            Language::Dot => self.line(&format!(
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
            Language::Mermaid => self.line(&format!("  subgraph c{at}[\"{title}\"]")),
            Language::Dot => self.line(&format!(
                "  subgraph cluster_{at} {{\n    label=\"{title}\";"
            )),
        }
        let heads: HashSet<&str> = crate::check::heads(channel)
            .into_iter()
            .map(|it| it.name.as_str())
            .collect();
        let mut ids: HashMap<&str, String> = HashMap::new();
        for (place, entry) in channel.entries.iter().enumerate() {
            let id = format!("c{at}b{place}");
            let is_head = heads.contains(entry.name.as_str());
            let bundle = package.bundle(&entry.name);
            let is_deprecated =
                bundle.is_some_and(|it| it.deprecation.is_some() || it.is_deprecated);
            let look = match (is_head, is_deprecated) {
                (false, false) => Look::Plain,
                (true, false) => Look::Head,
                (false, true) => Look::Deprecated,
                (true, true) => Look::DeprecatedHead,
            };
            let version = bundle.map(|it| it.version.to_string());
            if self.node(&id, &entry.name, version.as_deref(), look) {
                ids.insert(&entry.name, id);
            }
        }
        // Whatever is named by entries is drawn once.
        let named = channel
            .entries
            .iter()
            .flat_map(|entry| entry.replaces.iter().chain(&entry.skips));
        for (place, name) in named.enumerate() {
            if ids.contains_key(name.as_str()) {
                continue;
            }
            let id = format!("c{at}o{place}");
            if self.node(&id, name, None, Look::Outside) {
                ids.insert(name, id);
            }
        }
        let mut edges = Vec::new();
        for (place, entry) in channel.entries.iter().enumerate() {
            let Some(to) = ids.get(entry.name.as_str()) else {
                continue;
            };
            let from = |name: &String| ids.get(name.as_str()).cloned();
            let replaces = entry.replaces.as_ref();
            if let Some(from) = replaces.and_then(from) {
                edges.push((from, to.clone(), Edge::Replaces));
            }
            for skipped in entry.skips.iter().filter(|it| Some(*it) != replaces) {
                if edges.len() > LIMIT {
                    self.omitted += 1;
                } else if let Some(from) = from(skipped) {
                    edges.push((from, to.clone(), Edge::Skips));
                }
            }
            if let Some(range) = &entry.skip_range {
                let id = format!("c{at}r{place}");
                if self.node(&id, range, None, Look::Range) {
                    edges.push((id, to.clone(), Edge::SkipRange));
                }
            }
        }
        self.line(match self.language {
            Language::Mermaid => "  end",
            Language::Dot => "  }",
        });
        for (from, to, edge) in edges {
            self.edge(&from, &to, edge);
        }
    }

    /// Draws a node, if there is room for one.
    fn node(&mut self, id: &str, name: &str, version: Option<&str>, look: Look) -> bool {
        if !self.has_room() {
            return false;
        }
        let name = self.text(name);
        let version = version.map(|it| self.text(it)).unwrap_or_default();
        let line = match self.language {
            Language::Mermaid => {
                let label = if version.is_empty() {
                    name
                } else {
                    format!("{name}<br/>{version}")
                };
                match look {
                    Look::Range => format!("    {id}([\"{label}\"])"),
                    _ => format!("    {id}[\"{label}\"]{}", look.class()),
                }
            }
            Language::Dot => {
                let label = if version.is_empty() {
                    name
                } else {
                    format!("{name}\\n{version}")
                };
                format!("    {id} [label=\"{label}\"{}];", look.attributes())
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
            (Language::Mermaid, Edge::Replaces) => format!("  {from} --> {to}"),
            (Language::Mermaid, Edge::Skips) => format!("  {from} -. skips .-> {to}"),
            (Language::Mermaid, Edge::SkipRange) => format!("  {from} -. skipRange .-> {to}"),
            (Language::Dot, Edge::Replaces) => format!("  {from} -> {to};"),
            (Language::Dot, Edge::Skips) => {
                format!("  {from} -> {to} [style=dashed, label=skips];")
            }
            (Language::Dot, Edge::SkipRange) => {
                format!("  {from} -> {to} [style=dotted, label=skipRange];")
            }
        };
        self.line(&line);
    }

    fn end(&mut self) {
        let omitted = self.omitted;
        match self.language {
            Language::Mermaid => {
                if omitted > 0 {
                    self.line(&format!(
                        "  more[\"and {omitted} more channels, nodes and edges\"]"
                    ));
                }
                self.line("  classDef head stroke-width:4px");
                self.line("  classDef deprecated fill:#ddd,color:#666");
                self.line("  classDef outside stroke-dasharray:4");
            }
            Language::Dot => {
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
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return true;
        }
        self.omitted += 1;
        false
    }

    /// A text that stays within its quotes.
    fn text(&self, text: &str) -> String {
        const LONG: usize = 100;
        let mut out = String::with_capacity(text.len().min(LONG));
        for (at, c) in text.chars().enumerate() {
            if at == LONG {
                out.push('…');
                break;
            }
            match self.language {
                _ if is_unprintable(c) => out.push(char::REPLACEMENT_CHARACTER),
                // Mermaid knows characters by number, and takes many others for its own.
                Language::Mermaid
                    if c.is_ascii() && !c.is_ascii_alphanumeric() && !" ._-+,()/".contains(c) =>
                {
                    // Writing to a text does not fail.
                    let _ = write!(out, "#{};", u32::from(c));
                }
                Language::Dot if matches!(c, '"' | '\\') => {
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

impl Look {
    /// In Mermaid.
    fn class(self) -> &'static str {
        match self {
            Self::Plain | Self::Range => "",
            Self::Head => ":::head",
            Self::Deprecated => ":::deprecated",
            Self::DeprecatedHead => ":::head:::deprecated",
            Self::Outside => ":::outside",
        }
    }

    /// In DOT.
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
