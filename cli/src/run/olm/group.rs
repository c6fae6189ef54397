//! Which OperatorGroup an operator is installed with: what it watches, in operator-sdk's order and words.

use std::collections::BTreeSet;

use super::super::install_mode::{InstallMode, Kind};

/// The one that is made where there is none.
pub(super) const NAME: &str = "operator-sdk-og";

/// An OperatorGroup that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    /// All namespaces if it is empty.
    pub(super) targets: BTreeSet<String>,
    /// Whether namespaces are chosen by labels, so that nobody knows them beforehand.
    pub(super) is_selecting: bool,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// One with these targets; all namespaces if there are none.
    Create(BTreeSet<String>),
    /// That of this name will do.
    Use(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error(
        "more than one operator group in namespace {namespace}: [{names}]; delete all but one, for OLM installs nothing otherwise"
    )]
    Several { namespace: String, names: String },
    #[error(
        "operator {csv:?} does not support install mode {mode:?}; choose another --install-mode"
    )]
    Unsupported { csv: String, mode: &'static str },
    #[error("use install mode \"OwnNamespace\" to watch operator's namespace {0:?}")]
    UseOwn(String),
    #[error(
        "operator {0:?} supports neither AllNamespaces nor OwnNamespace: say with --install-mode what it is to watch"
    )]
    NoUsual(String),
    #[error(
        "existing operatorgroup {name:?} is not compatible with install mode {mode:?}: it has {targets}; choose another \
         namespace, or change the OperatorGroup"
    )]
    Incompatible {
        name: String,
        mode: &'static str,
        targets: String,
    },
}

/// What is wanted of an operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) csv: &'a str,
    pub(super) namespace: &'a str,
    pub(super) supported: &'a BTreeSet<String>,
    pub(super) mode: Option<&'a InstallMode>,
}

/// Decides, given those of the namespace.
pub(super) fn decide(wanted: Wanted<'_>, existing: &[Group]) -> Result<Decision, Error> {
    if existing.len() > 1 {
        let mut names: Vec<String> = existing
            .iter()
            .map(|group| format!("{:?}", group.name))
            .collect();
        names.sort();
        return Err(Error::Several {
            namespace: wanted.namespace.to_owned(),
            names: names.join(" "),
        });
    }
    let supports = |kind: Kind| wanted.supported.contains(kind.name());
    if let Some(mode) = wanted.mode
        && !supports(mode.kind)
    {
        return Err(Error::Unsupported {
            csv: wanted.csv.to_owned(),
            mode: mode.kind.name(),
        });
    }
    let targets = targets(wanted, supports);
    match (existing.first(), wanted.mode) {
        (None, _) => Ok(Decision::Create(targets?)),
        (Some(group), Some(mode)) if group.is_selecting || group.targets != targets? => {
            Err(Error::Incompatible {
                name: group.name.clone(),
                mode: mode.kind.name(),
                targets: tell(group),
            })
        }
        (Some(group), _) => Ok(Decision::Use(group.name.clone())),
    }
}

/// What an operator is to watch.
fn targets(wanted: Wanted<'_>, supports: impl Fn(Kind) -> bool) -> Result<BTreeSet<String>, Error> {
    let own = || BTreeSet::from([wanted.namespace.to_owned()]);
    let Some(mode) = wanted.mode else {
        return match () {
            () if supports(Kind::All) => Ok(BTreeSet::new()),
            () if supports(Kind::Own) => Ok(own()),
            () => Err(Error::NoUsual(wanted.csv.to_owned())),
        };
    };
    match mode.kind {
        Kind::All => Ok(BTreeSet::new()),
        Kind::Own => Ok(own()),
        Kind::Single if mode.namespaces.contains(wanted.namespace) => {
            Err(Error::UseOwn(wanted.namespace.to_owned()))
        }
        Kind::Single | Kind::Multi => Ok(mode.namespaces.clone()),
    }
}

fn tell(group: &Group) -> String {
    if group.is_selecting {
        "a selector".to_owned()
    } else if group.targets.is_empty() {
        "all namespaces".to_owned()
    } else {
        let targets: Vec<&str> = group.targets.iter().map(String::as_str).collect();
        format!("the target namespaces {}", targets.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|it| (*it).to_owned()).collect()
    }

    fn group(name: &str, targets: &[&str]) -> Group {
        Group {
            name: name.to_owned(),
            targets: set(targets),
            is_selecting: false,
        }
    }

    // parity: sdk-4
    #[test]
    fn what_an_operator_watches_is_decided_before_it_is_installed() {
        let (all, own, single, multi) = (
            "AllNamespaces",
            "OwnNamespace",
            "SingleNamespace",
            "MultiNamespace",
        );
        let every = [all, own, single, multi];
        let create = |names: &[&str]| Ok(Decision::Create(set(names)));
        let used = |name: &str| Ok(Decision::Use(name.to_owned()));
        for (supported, mode, existing, expected) in ::tests::rows![
            // Nothing is there.
            &every[..], None, vec![] => create(&[]);
            &[own, single], None, vec![] => create(&["tides"]);
            &[single, multi], None, vec![] => Err("operator \"tide.v1\" supports neither AllNamespaces nor*");
            &every, Some(all), vec![] => create(&[]);
            &every, Some(own), vec![] => create(&["tides"]);
            &every, Some("SingleNamespace=a"), vec![] => create(&["a"]);
            &every, Some("SingleNamespace=tides"), vec![]
                => Err("use install mode \"OwnNamespace\" to watch operator's namespace \"tides\"*");
            &every, Some("MultiNamespace=b,a"), vec![] => create(&["a", "b"]);
            &[own], Some(all), vec![] => Err("operator \"tide.v1\" does not support install mode \"AllNamespaces\"*");
            // One is there.
            &every, None, vec![group("g", &["x"])] => used("g");
            &[single], None, vec![group("g", &["x"])] => used("g");
            &every, Some(all), vec![group("g", &[])] => used("g");
            &every, Some(own), vec![group("g", &["tides"])] => used("g");
            &every, Some("MultiNamespace=a,b"), vec![group("g", &["b", "a"])] => used("g");
            &every, Some(all), vec![group("g", &["x"])] => Err(
                "existing operatorgroup \"g\" is not compatible with install mode \"AllNamespaces\": it has the target namespaces x*",
            );
            &every, Some("SingleNamespace=a"), vec![group("g", &[])] => Err(
                "existing operatorgroup \"g\" is not compatible with install mode \"SingleNamespace\": it has all namespaces*",
            );
            &every, Some(all), vec![Group { is_selecting: true, ..group("g", &[]) }]
                => Err("existing operatorgroup \"g\" is not compatible with install mode \"AllNamespaces\": it has a selector*");
            &every, None, vec![Group { is_selecting: true, ..group("g", &[]) }] => used("g");
            // Two are there.
            &every, None, vec![group("b", &[]), group("a", &[])]
                => Err("more than one operator group in namespace tides: [\"a\" \"b\"]; *");
        ] {
            let mode: Option<InstallMode> = mode.map(|it| it.parse().unwrap());
            let supported = set(supported);
            let wanted = Wanted {
                csv: "tide.v1",
                namespace: "tides",
                supported: &supported,
                mode: mode.as_ref(),
            };
            ::tests::table::assert_outcome(decide(wanted, &existing), expected, (mode, existing));
        }
    }
}
