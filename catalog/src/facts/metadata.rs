//! `olm.csv.metadata`: what a ClusterServiceVersion says, without what installs it.

use super::{mismatch, object};
use crate::json::{Kind, Node};

/// The kinds that Go's struct asks for; what is deeper nobody here reads.
const FIELDS: &[(&str, Of)] = &[
    ("annotations", Of::Texts),
    ("apiServiceDefinitions", Of::Object),
    ("crdDescriptions", Of::Object),
    ("description", Of::Text),
    ("displayName", Of::Text),
    ("installModes", Of::List(Kind::Object)),
    ("keywords", Of::List(Kind::String)),
    ("labels", Of::Texts),
    ("links", Of::List(Kind::Object)),
    ("maintainers", Of::List(Kind::Object)),
    ("maturity", Of::Text),
    ("minKubeVersion", Of::Text),
    ("nativeAPIs", Of::List(Kind::Object)),
    ("provider", Of::Object),
];

#[derive(Clone, Copy)]
enum Of {
    Text,
    /// Texts by name.
    Texts,
    Object,
    List(Kind),
}

/// Whether Go would take it.
pub(super) fn check(value: Node<'_>) -> Result<(), String> {
    let go = "property.CSVMetadata";
    object(value, go)?;
    for (field, of) in FIELDS {
        let Some(found) = value.field(field) else {
            continue;
        };
        let (kind, type_) = match of {
            Of::Text => (Kind::String, "string"),
            Of::Texts => (Kind::Object, "map[string]string"),
            Of::Object => (Kind::Object, "struct"),
            Of::List(Kind::String) => (Kind::Array, "[]string"),
            Of::List(_) => (Kind::Array, "[]struct"),
        };
        if found.kind() != kind {
            return Err(mismatch(found, field, go, type_));
        }
        let wrong = match of {
            Of::Texts => found
                .entries()
                .map(|(_, value)| value)
                .find(|it| !matches!(it.kind(), Kind::String | Kind::Null)),
            Of::List(kind) => found.items().find(|it| it.kind() != *kind && !it.is_null()),
            Of::Text | Of::Object => None,
        };
        if let Some(wrong) = wrong {
            let of = if matches!(of, Of::List(Kind::Object)) {
                "struct"
            } else {
                "string"
            };
            return Err(mismatch(wrong, field, go, of));
        }
    }
    Ok(())
}
