//! Findings of a catalog check with opm's message, file and line.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use serde::Serialize;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The package cannot be used.
    Error,
    /// Other programs may interpret the content differently.
    Warning,
}

/// A problem of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity of the finding.
    pub level: Level,
    /// File, relative to the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in the file, starting at 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Package that cannot be used because of the finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Description of the problem; opm's message, if opm has one.
    pub message: String,
    /// Position of the finding in opm's report.
    #[serde(skip)]
    pub(crate) scope: OpmScope,
}

/// Position at which opm reports a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpmScope {
    /// Reported alone, before opm checks anything else.
    FirstOnly,
    /// Part of the tree: a finding about a package, about these channels of it, or about a bundle in them.
    WholeTree {
        channels: Vec<String>,
        bundle: Option<String>,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            f.write_str(file)?;
            if let Some(line) = self.line {
                write!(f, ":{line}")?;
            }
            f.write_str(": ")?;
        }
        if let OpmScope::WholeTree { channels, bundle } = &self.scope {
            if let Some(package) = &self.package {
                write!(f, "package {package:?}: ")?;
            }
            match (channels.as_slice(), bundle) {
                (_, Some(bundle)) => write!(f, "bundle {bundle:?}: ")?,
                ([channel, ..], None) => write!(f, "channel {channel:?}: ")?,
                ([], None) => {}
            }
        }
        f.write_str(&self.message)
    }
}

/// Formats the findings like `opm validate`: either the first error at which opm stops, or the tree of all other
/// errors. Siblings are sorted; their order in opm is random. Returns `None` without errors. Entries without a bundle
/// are fatal in every channel; in opm they are fatal only in the package's last channel, and otherwise in the tree.
pub fn as_opm(findings: &[Finding]) -> Option<String> {
    let errors = || {
        findings
            .iter()
            .filter(|finding| finding.level == Level::Error)
    };
    if let Some(first) = errors().find(|finding| finding.scope == OpmScope::FirstOnly) {
        return Some(first.message.clone());
    }
    let mut root = ErrorTree::default();
    for finding in errors() {
        let OpmScope::WholeTree { channels, bundle } = &finding.scope else {
            continue;
        };
        let package = finding.package.as_deref().unwrap_or_default();
        let package = root.below(format!("invalid package {package:?}"));
        if channels.is_empty() {
            package.add_leaf(&finding.message);
        }
        for channel in channels {
            let channel = package.below(format!("invalid channel {channel:?}"));
            match bundle {
                Some(bundle) => channel
                    .below(format!("invalid bundle {bundle:?}"))
                    .add_leaf(&finding.message),
                None => channel.add_leaf(&finding.message),
            }
        }
    }
    if root.0.is_empty() {
        return None;
    }
    let mut text = "invalid index:\n".to_owned();
    root.write(&mut String::new(), &mut text);
    Some(text)
}

/// Children by text; empty for a leaf.
#[derive(Debug, Default)]
struct ErrorTree(BTreeMap<String, ErrorTree>);

// === impl ErrorTree ===

impl ErrorTree {
    fn below(&mut self, text: String) -> &mut Self {
        self.0.entry(text).or_default()
    }

    fn add_leaf(&mut self, text: &str) {
        self.0.entry(text.to_owned()).or_default();
    }

    /// Writes the tree, which has at most four levels.
    fn write(&self, prefix: &mut String, out: &mut String) {
        let count = self.0.len();
        for (at, (text, below)) in self.0.iter().enumerate() {
            let is_last = at + 1 == count;
            let twig = if is_last { "└── " } else { "├── " };
            let colon = if below.0.is_empty() { "" } else { ":" };
            // Writing to a String never fails.
            let _ = writeln!(out, "{prefix}{twig}{text}{colon}");
            let length = prefix.len();
            prefix.push_str(if is_last { "    " } else { "│   " });
            below.write(prefix, out);
            prefix.truncate(length);
        }
    }
}
