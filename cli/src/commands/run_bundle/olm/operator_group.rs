//! Choice of the OperatorGroup of an operator by the namespaces that it watches, with operator-sdk's order and messages.

use std::collections::BTreeSet;

use manifests::api::olm::OperatorGroup;

use crate::args::install_mode::{InstallMode, Kind};

/// Name of the OperatorGroup that is created in a namespace without one.
pub(super) const NAME: &str = "operator-sdk-og";

/// Decision about the OperatorGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GroupDecision {
    /// Create one with these target namespaces; empty means all namespaces.
    Create(BTreeSet<String>),
    /// Use the existing one with this name.
    Use(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error(
        "more than one operator group in namespace {namespace}: [{names}]; delete all but one; OLM requires exactly one"
    )]
    Several { namespace: String, names: String },
    #[error(
        "operator {csv:?} does not support install mode {mode:?}; choose another --install-mode"
    )]
    Unsupported { csv: String, mode: &'static str },
    #[error("use install mode \"OwnNamespace\" to watch operator's namespace {0:?}")]
    UseOwn(String),
    #[error("operator {0:?} supports neither AllNamespaces nor OwnNamespace; set --install-mode")]
    NoDefaultMode(String),
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

/// Request for an operator in a namespace.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupRequest<'a> {
    pub(super) csv: &'a str,
    pub(super) namespace: &'a str,
    pub(super) supported: &'a BTreeSet<String>,
    pub(super) mode: Option<&'a InstallMode>,
}

/// Decides about the OperatorGroup, given the existing ones of the namespace.
pub(super) fn decide(
    request: GroupRequest<'_>,
    existing: &[OperatorGroup],
) -> Result<GroupDecision, Error> {
    if existing.len() > 1 {
        let mut names: Vec<String> = existing
            .iter()
            .map(|group| format!("{:?}", group.name()))
            .collect();
        names.sort();
        return Err(Error::Several {
            namespace: request.namespace.to_owned(),
            names: names.join(" "),
        });
    }
    let supports = |kind: Kind| request.supported.contains(kind.name());
    if let Some(mode) = request.mode
        && !supports(mode.kind)
    {
        return Err(Error::Unsupported {
            csv: request.csv.to_owned(),
            mode: mode.kind.name(),
        });
    }
    let targets = targets(request, supports);
    match (existing.first(), request.mode) {
        (None, _) => Ok(GroupDecision::Create(targets?)),
        (Some(group), Some(mode))
            if group.is_selecting() || group.spec.target_namespaces != targets? =>
        {
            Err(Error::Incompatible {
                name: group.name().to_owned(),
                mode: mode.kind.name(),
                targets: describe_targets(group),
            })
        }
        (Some(group), _) => Ok(GroupDecision::Use(group.name().to_owned())),
    }
}

/// Returns the namespaces that an operator is to watch.
fn targets(
    request: GroupRequest<'_>,
    supports: impl Fn(Kind) -> bool,
) -> Result<BTreeSet<String>, Error> {
    let own = || BTreeSet::from([request.namespace.to_owned()]);
    let Some(mode) = request.mode else {
        return match () {
            () if supports(Kind::All) => Ok(BTreeSet::new()),
            () if supports(Kind::Own) => Ok(own()),
            () => Err(Error::NoDefaultMode(request.csv.to_owned())),
        };
    };
    match mode.kind {
        Kind::All => Ok(BTreeSet::new()),
        Kind::Own => Ok(own()),
        Kind::Single if mode.namespaces.contains(request.namespace) => {
            Err(Error::UseOwn(request.namespace.to_owned()))
        }
        Kind::Single | Kind::Multi => Ok(mode.namespaces.clone()),
    }
}

fn describe_targets(group: &OperatorGroup) -> String {
    let targets: Vec<&str> = group
        .spec
        .target_namespaces
        .iter()
        .map(String::as_str)
        .collect();
    if group.is_selecting() {
        "a selector".to_owned()
    } else if targets.is_empty() {
        "all namespaces".to_owned()
    } else {
        format!("the target namespaces {}", targets.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::set;

    fn group(name: &str, targets: &[&str]) -> OperatorGroup {
        object!({"metadata": {"name": name}, "spec": {"targetNamespaces": targets}})
    }

    // parity: sdk-4
    #[test]
    fn operator_group_follows_install_mode_and_namespace() {
        let [all, own] = ["AllNamespaces", "OwnNamespace"];
        let [single, multi] = ["SingleNamespace", "MultiNamespace"];
        let every = [all, own, single, multi];
        let create = |names: &[&str]| Ok(GroupDecision::Create(set(names)));
        let used = |name: &str| Ok(GroupDecision::Use(name.to_owned()));
        let selecting: OperatorGroup =
            object!({"metadata": {"name": "g"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}});
        for (supported, mode, existing, expected) in ::tests::rows![
            // The namespace has no OperatorGroup.
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
            // The namespace has one OperatorGroup.
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
            &every, Some(all), vec![selecting.clone()]
                => Err("existing operatorgroup \"g\" is not compatible with install mode \"AllNamespaces\": it has a selector*");
            &every, None, vec![selecting] => used("g");
            // The namespace has two OperatorGroups.
            &every, None, vec![group("b", &[]), group("a", &[])]
                => Err("more than one operator group in namespace tides: [\"a\" \"b\"]; *");
        ] {
            let mode: Option<InstallMode> = mode.map(|text| text.parse().unwrap());
            let supported = set(supported);
            let request = GroupRequest {
                csv: "tide.v1",
                namespace: "tides",
                supported: &supported,
                mode: mode.as_ref(),
            };
            ::tests::table::assert_outcome(decide(request, &existing), expected, (mode, existing));
        }
    }
}
