//! What is wrong with a catalog, in opm's words, with file and line.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The package cannot be used.
    Error,
    /// Other programs may see it otherwise.
    Warning,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// The file, relative to the catalog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The package that cannot be used for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// What is wrong: opm's text where opm has one.
    pub message: String,
    /// Where in opm's tree it stands.
    #[serde(skip)]
    pub(crate) scope: Scope,
}

/// Where opm tells a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Alone, before it looks at anything else.
    First,
    /// In a tree: about a package, or these channels of it, or a bundle in them.
    Tree {
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
        if let Scope::Tree { channels, bundle } = &self.scope {
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

/// What `opm validate` would say: the first of the errors that it stops at, or the tree of all others, with siblings
/// sorted (in opm their order is random). `None` if there is no error. Entries without a bundle are told of every channel;
/// opm has them in its tree unless they are of the package's last one.
pub fn as_opm(findings: &[Finding]) -> Option<String> {
    let errors = || findings.iter().filter(|it| it.level == Level::Error);
    if let Some(first) = errors().find(|it| it.scope == Scope::First) {
        return Some(first.message.clone());
    }
    let mut root = Branch::default();
    for finding in errors() {
        let Scope::Tree { channels, bundle } = &finding.scope else {
            continue;
        };
        let package = finding.package.as_deref().unwrap_or_default();
        let package = root.below(format!("invalid package {package:?}"));
        if channels.is_empty() {
            package.leaf(&finding.message);
        }
        for channel in channels {
            let channel = package.below(format!("invalid channel {channel:?}"));
            match bundle {
                Some(bundle) => channel
                    .below(format!("invalid bundle {bundle:?}"))
                    .leaf(&finding.message),
                None => channel.leaf(&finding.message),
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

/// By text; a leaf has nothing below.
#[derive(Debug, Default)]
struct Branch(BTreeMap<String, Branch>);

// === impl Branch ===

impl Branch {
    fn below(&mut self, text: String) -> &mut Self {
        self.0.entry(text).or_default()
    }

    fn leaf(&mut self, text: &str) {
        self.0.entry(text.to_owned()).or_default();
    }

    /// At most four levels.
    fn write(&self, prefix: &mut String, out: &mut String) {
        let count = self.0.len();
        for (at, (text, below)) in self.0.iter().enumerate() {
            let is_last = at + 1 == count;
            let twig = if is_last { "└── " } else { "├── " };
            let colon = if below.0.is_empty() { "" } else { ":" };
            // Writing to a text does not fail.
            let _ = writeln!(out, "{prefix}{twig}{text}{colon}");
            let length = prefix.len();
            prefix.push_str(if is_last { "    " } else { "│   " });
            below.write(prefix, out);
            prefix.truncate(length);
        }
    }
}
