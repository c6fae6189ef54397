//! `--install-mode`: namespaces that an operator watches, with operator-sdk's grammar and messages.

use std::{collections::BTreeSet, fmt, str::FromStr};

use manifests::names;

/// Set of namespaces that an operator watches, as given by `--install-mode`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstallMode {
    pub(crate) kind: Kind,
    /// Target namespaces; empty for `AllNamespaces` and `OwnNamespace`.
    pub(crate) namespaces: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    All,
    Own,
    Single,
    Multi,
}

/// Error of a text that is not an install mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidInstallMode {
    #[error("target namespaces defined without type")]
    NoType,
    #[error(
        "unknown install mode type {0:?}; use AllNamespaces, OwnNamespace, SingleNamespace=NAMESPACE or \
         MultiNamespace=NAMESPACE,NAMESPACE"
    )]
    Unknown(String),
    #[error("install mode \"{0}\" must have zero target namespaces")]
    UnexpectedNamespaces(Kind),
    #[error("install mode \"{0}\" must have exactly one target namespace")]
    NotOne(Kind),
    #[error("install mode \"{0}\" must have at least one target namespace")]
    None(Kind),
    #[error("invalid target namespace {0:?}: {1}")]
    Namespace(String, &'static str),
}

/// Reason why an operator cannot be installed in a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Incompatible {
    #[error(
        "operator {0:?} is not installable: no supported install modes; set some of spec.installModes to supported"
    )]
    NothingSupported(String),
    #[error("use install mode \"OwnNamespace\" to watch operator's namespace {0:?}")]
    UseOwn(String),
    #[error("install mode type \"{kind}\" not supported in CSV {csv:?}; it supports {supported}")]
    Unsupported {
        kind: Kind,
        csv: String,
        supported: String,
    },
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::All => "AllNamespaces",
            Self::Own => "OwnNamespace",
            Self::Single => "SingleNamespace",
            Self::Multi => "MultiNamespace",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for InstallMode {
    type Err = InvalidInstallMode;

    fn from_str(text: &str) -> Result<Self, InvalidInstallMode> {
        let (kind, targets) = match text.split_once('=') {
            Some((kind, targets)) => (kind.trim(), Some(targets)),
            None => (text.trim(), None),
        };
        let kind = match kind {
            "AllNamespaces" => Kind::All,
            "OwnNamespace" => Kind::Own,
            "SingleNamespace" => Kind::Single,
            "MultiNamespace" => Kind::Multi,
            "" if targets.is_some() => return Err(InvalidInstallMode::NoType),
            other => {
                return Err(InvalidInstallMode::Unknown(
                    other.chars().take(100).collect(),
                ));
            }
        };
        let targets = targets.unwrap_or_default().split(',').map(str::trim);
        let namespaces: BTreeSet<String> = targets
            .filter(|target| !target.is_empty())
            .map(str::to_owned)
            .collect();
        match (kind, namespaces.len()) {
            (Kind::All | Kind::Own, 1..) => {
                return Err(InvalidInstallMode::UnexpectedNamespaces(kind));
            }
            (Kind::Single, 0 | 2..) => return Err(InvalidInstallMode::NotOne(kind)),
            (Kind::Multi, 0) => return Err(InvalidInstallMode::None(kind)),
            _ => {}
        }
        for name in &namespaces {
            names::dns_label(name).map_err(|problem| {
                InvalidInstallMode::Namespace(name.chars().take(100).collect(), problem)
            })?;
        }
        Ok(Self { kind, namespaces })
    }
}

/// Checks that an operator with these supported modes can be installed in a namespace. A `mode` of `None` allows every
/// supported mode.
pub(crate) fn check(
    mode: Option<&InstallMode>,
    csv: &str,
    supported: &BTreeSet<String>,
    namespace: &str,
) -> Result<(), Incompatible> {
    if supported.is_empty() {
        return Err(Incompatible::NothingSupported(csv.to_owned()));
    }
    let Some(mode) = mode else {
        return Ok(());
    };
    if mode.kind == Kind::Single && mode.namespaces.contains(namespace) {
        return Err(Incompatible::UseOwn(namespace.to_owned()));
    }
    if supported.contains(mode.kind.name()) {
        return Ok(());
    }
    Err(Incompatible::Unsupported {
        kind: mode.kind,
        csv: csv.to_owned(),
        supported: supported
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: sdk-3
    #[test]
    fn modes_accept_operator_sdk_syntax() {
        let mode = |kind, names: &[&str]| {
            Ok(InstallMode {
                kind,
                namespaces: names.iter().map(|name| (*name).to_owned()).collect(),
            })
        };
        for (text, expected) in ::tests::rows![
            "AllNamespaces" => mode(Kind::All, &[]);
            "AllNamespaces=" => mode(Kind::All, &[]);
            "OwnNamespace" => mode(Kind::Own, &[]);
            "SingleNamespace=a" => mode(Kind::Single, &["a"]);
            "MultiNamespace= b ,a" => mode(Kind::Multi, &["a", "b"]);
            "MultiNamespace=a" => mode(Kind::Multi, &["a"]);
            "AllNamespaces=a" => Err("install mode \"AllNamespaces\" must have zero target namespaces*");
            "OwnNamespace=a" => Err("install mode \"OwnNamespace\" must have zero target namespaces*");
            "SingleNamespace" => Err("install mode \"SingleNamespace\" must have exactly one target namespace*");
            "SingleNamespace=a,b" => Err("install mode \"SingleNamespace\" must have exactly one target namespace*");
            "MultiNamespace=" => Err("install mode \"MultiNamespace\" must have at least one target namespace*");
            "=a" => Err("target namespaces defined without type*");
            "Every" => Err("unknown install mode type*");
            "" => Err("unknown install mode type*");
            "SingleNamespace=A_b" => Err("invalid target namespace \"A_b\": *");
        ] {
            ::tests::table::assert_outcome(text.parse(), expected, text);
        }
    }

    // parity: sdk-3
    #[test]
    fn mode_must_be_supported_by_the_operator() {
        let all = ["AllNamespaces", "OwnNamespace", "SingleNamespace"];
        for (mode, supported, expected) in ::tests::rows![
            None, &all[..] => Ok(());
            None, &[] => Err("operator \"tide.v1\" is not installable: no supported install modes*");
            Some("AllNamespaces"), &all => Ok(());
            Some("OwnNamespace"), &all => Ok(());
            Some("SingleNamespace=other"), &all => Ok(());
            Some("SingleNamespace=tides"), &all
                => Err("use install mode \"OwnNamespace\" to watch operator's namespace \"tides\"*");
            Some("MultiNamespace=a,b"), &all
                => Err("install mode type \"MultiNamespace\" not supported in CSV \"tide.v1\"; it supports AllN*");
            Some("OwnNamespace"), &all[..1] => Err("install mode type \"OwnNamespace\" not supported in CSV*");
        ] {
            let mode: Option<InstallMode> = mode.map(|text| text.parse().unwrap());
            let supported = supported.iter().map(|name| (*name).to_owned()).collect();
            let found = check(mode.as_ref(), "tide.v1", &supported, "tides");
            ::tests::table::assert_outcome(found, expected, mode);
        }
    }
}
