//! Format of objects in statuses: entries of an inventory, and unhealthy objects.
//!
//! ```text
//! etcd/etcd-operator 0f1e2d3c4b5a            an entry of an inventory: its kind stands beside it
//! (apps/v1, Kind=Deployment)(etcd/etcd-operator): 0 of 1 ready
//! ```

use super::bundle_instance::InventoryKind;
use crate::object::{Identity, api_version, group_version};

/// Returns the entries of an inventory: each object, and the text after its name.
pub fn entries(kinds: &[InventoryKind]) -> impl Iterator<Item = (Identity, Option<&str>)> {
    kinds.iter().flat_map(|kind| {
        let (group, _) = group_version(&kind.api_version);
        kind.objects.iter().map(move |text| {
            let (name, suffix) = match text.rsplit_once(' ') {
                Some((name, suffix)) => (name, Some(suffix)),
                None => (text.as_str(), None),
            };
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            let identity = Identity {
                group: group.to_owned(),
                kind: kind.kind.clone(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            (identity, suffix)
        })
    })
}

/// Formats the line of an unhealthy object (rukpak parity).
pub fn format_unhealthy(identity: &Identity, version: &str, message: &str) -> String {
    let api_version = api_version(&identity.group, version);
    let name = if identity.namespace.is_empty() {
        identity.name.clone()
    } else {
        format!("{}/{}", identity.namespace, identity.name)
    };
    format!("({api_version}, Kind={})({name}): {message}", identity.kind)
}

/// Parses a line of [`format_unhealthy`]; returns `None` for other lines.
pub fn parse_unhealthy(line: &str) -> Option<(Identity, &str)> {
    let (api_version, rest) = line.strip_prefix('(')?.split_once(", Kind=")?;
    let (kind, rest) = rest.split_once(")(")?;
    let (name, message) = rest.split_once("): ")?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    let identity = Identity {
        group: group_version(api_version).0.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    Some((identity, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unhealthy_line_round_trips() {
        for (group, version, namespace, line) in ::tests::rows![
            "apps", "v1", "tide" => "(apps/v1, Kind=Widget)(tide/a): 0 of 1 ready";
            "", "v1", "" => "(v1, Kind=Widget)(a): is (not): ready";
        ] {
            let identity = Identity {
                group: group.to_owned(),
                kind: "Widget".to_owned(),
                namespace: namespace.to_owned(),
                name: "a".to_owned(),
            };
            let (read, message) = parse_unhealthy(line).unwrap();
            assert_rows!((&read, &*format_unhealthy(&identity, version, message)) => (&identity, line));
        }
        let others = ["", "and 3 more objects", "(v1, Kind=Pod)", "(v1)(a): b"];
        assert_rows!(others.into_iter().find(|line| parse_unhealthy(line).is_some()) => None);
    }
}
