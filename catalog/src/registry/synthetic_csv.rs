//! Synthetic ClusterServiceVersion of a bundle whose catalog contains only its `olm.csv.metadata`.
//!
//! Catalogs omit manifests because the bundle image contains them, but clients that list operators still request a
//! ClusterServiceVersion. The format is opm's: the metadata, the version and images of the bundle, and the icon and
//! description of the package. It has an install strategy without deployments, because OLM's package server fails
//! without a strategy. The members of the package come last, so the store contains them once for all bundles of the
//! package.

use crate::json::{Kind, Node, write_text};

/// Fields of the metadata, each with the field of the ClusterServiceVersion's `spec` that it becomes.
const FIELDS: [(&str, &str); 12] = [
    ("maturity", "maturity"),
    ("crdDescriptions", "customresourcedefinitions"),
    ("apiServiceDefinitions", "apiservicedefinitions"),
    ("nativeAPIs", "nativeAPIs"),
    ("minKubeVersion", "minKubeVersion"),
    ("displayName", "displayName"),
    ("description", "description"),
    ("keywords", "keywords"),
    ("maintainers", "maintainers"),
    ("provider", "provider"),
    ("links", "links"),
    ("installModes", "installModes"),
];
/// Values that Go writes for absent fields.
const EMPTY: [(&str, &str); 4] = [
    ("customresourcedefinitions", "{}"),
    ("apiservicedefinitions", "{}"),
    ("displayName", "\"\""),
    ("provider", "{}"),
];

/// Appends the ClusterServiceVersion up to the members of the package, without the closing `}}`. Returns whether it has
/// a description.
pub(super) fn csv_prefix(
    metadata: Node<'_>,
    name: &str,
    version: &str,
    images: Option<Node<'_>>,
    out: &mut Vec<u8>,
) -> bool {
    out.extend_from_slice(br#"{"kind":"ClusterServiceVersion","apiVersion":"operators.coreos.com/v1alpha1","metadata":{"name":"#);
    write_text(name, out);
    for key in ["labels", "annotations"] {
        if let Some(value) = metadata.field(key).filter(|value| !is_empty(*value)) {
            member(key, value, out);
        }
    }
    out.extend_from_slice(br#"},"status":{"cleanup":{}},"spec":{"install":{"strategy":"deployment","spec":{"deployments":null}},"version":"#);
    write_text(version, out);
    out.extend_from_slice(br#","cleanup":{"enabled":false}"#);
    let mut is_described = false;
    for (from, to) in FIELDS {
        let value = metadata.field(from).filter(|value| !is_empty(*value));
        let empty = EMPTY.iter().find(|(key, _)| *key == to);
        match (value, empty) {
            (Some(value), _) => {
                is_described |= from == "description";
                member(to, value, out);
            }
            (None, Some((_, empty))) => raw(to, empty, out),
            (None, None) => {}
        }
    }
    if let Some(images) = images.filter(|images| !is_empty(*images)) {
        related(images, out);
    }
    is_described
}

/// Returns the member `icon`, built from the blob of a package.
pub(super) fn icon(package: Node<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(icon) = package.field("icon") else {
        return out;
    };
    let text = |key| icon.field(key).and_then(Node::text).unwrap_or_default();
    // Go's base64 decoder ignores line breaks, and its encoder writes none.
    let data = text("base64data").replace(['\r', '\n'], "");
    out.extend_from_slice(br#","icon":[{"base64data":"#);
    write_text(&data, &mut out);
    out.extend_from_slice(br#","mediatype":"#);
    write_text(&text("mediatype"), &mut out);
    out.extend_from_slice(b"}]");
    out
}

/// Returns the member `description`, built from the blob of a package.
pub(super) fn description(package: Node<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(text) = package.field("description").and_then(Node::text)
        && !text.is_empty()
    {
        out.extend_from_slice(br#","description":"#);
        write_text(&text, &mut out);
    }
    out
}

fn related(images: Node<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(br#","relatedImages":["#);
    for (at, image) in images.items().enumerate() {
        let text = |key| image.field(key).and_then(Node::text).unwrap_or_default();
        out.extend_from_slice(if at == 0 {
            br#"{"name":"#
        } else {
            br#",{"name":"#
        });
        write_text(&text("name"), out);
        out.extend_from_slice(br#","image":"#);
        write_text(&text("image"), out);
        out.push(b'}');
    }
    out.push(b']');
}

fn is_empty(node: Node<'_>) -> bool {
    match node.kind() {
        Kind::Object => node.entries().next().is_none(),
        Kind::Array => node.items().next().is_none(),
        Kind::String => node.is(""),
        Kind::Null => true,
        Kind::Number | Kind::Bool => false,
    }
}

fn member(key: &str, value: Node<'_>, out: &mut Vec<u8>) {
    raw(key, "", out);
    let start = out.len();
    value.compact(out);
    // Protobuf strings must be UTF-8. Go replaces invalid sequences.
    let written = out.get(start..).unwrap_or_default();
    if std::str::from_utf8(written).is_err() {
        let text = String::from_utf8_lossy(written).into_owned();
        out.truncate(start);
        out.extend_from_slice(text.as_bytes());
    }
}

fn raw(key: &str, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value.as_bytes());
}
