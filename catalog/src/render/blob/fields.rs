//! Fields of Go's types, with the errors of `encoding/json`.

use std::borrow::Cow;

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};

use crate::json::{Kind, Node};

/// Go does not look at the bits that are left over.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// An object, read as a Go type of this name. `null` is an object without fields.
#[derive(Clone, Copy, Default)]
pub(super) struct Fields<'a> {
    node: Option<Node<'a>>,
    type_: &'static str,
}

// === impl Fields ===

impl<'a> Fields<'a> {
    pub(super) fn of(node: Node<'a>, type_: &'static str) -> Result<Self, String> {
        match node.kind() {
            Kind::Object => Ok(Self {
                node: Some(node),
                type_,
            }),
            Kind::Null => Ok(Self { node: None, type_ }),
            other => Err(format!(
                "json: cannot unmarshal {} into Go value of type {type_}",
                other.name()
            )),
        }
    }

    /// The value of a field; `null` is none.
    pub(super) fn node(self, name: &str) -> Option<Node<'a>> {
        self.node?.field(name)
    }

    /// The text of a field, empty if there is none.
    pub(super) fn text(self, name: &str) -> Result<Cow<'a, str>, String> {
        let Some(node) = self.node(name) else {
            return Ok("".into());
        };
        node.text()
            .ok_or_else(|| self.mismatch(name, node, "string"))
    }

    /// The bytes of a field that holds them as base64.
    pub(super) fn bytes(self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(node) = self.node(name) else {
            return Ok(None);
        };
        let text = node
            .text()
            .ok_or_else(|| self.mismatch(name, node, "[]uint8"))?;
        decode(&text).map(Some)
    }

    pub(super) fn object(self, name: &str, type_: &'static str) -> Result<Option<Self>, String> {
        let Some(node) = self.node(name) else {
            return Ok(None);
        };
        match node.kind() {
            Kind::Object => Self::of(node, type_).map(Some),
            _ => Err(self.mismatch(name, node, type_)),
        }
    }

    pub(super) fn list(self, name: &str, type_: &'static str) -> Result<Option<Vec<Self>>, String> {
        let Some(node) = self.node(name) else {
            return Ok(None);
        };
        if node.kind() != Kind::Array {
            return Err(self.mismatch(name, node, &format!("[]{type_}")));
        }
        node.items()
            .map(|item| match item.kind() {
                Kind::Object | Kind::Null => Self::of(item, type_),
                _ => Err(self.mismatch(name, item, type_)),
            })
            .collect::<Result<_, _>>()
            .map(Some)
    }

    pub(super) fn texts(self, name: &str) -> Result<Vec<Cow<'a, str>>, String> {
        let Some(node) = self.node(name) else {
            return Ok(Vec::new());
        };
        if node.kind() != Kind::Array {
            return Err(self.mismatch(name, node, "[]string"));
        }
        node.items()
            .map(|item| match item.kind() {
                Kind::Null => Ok("".into()),
                _ => item
                    .text()
                    .ok_or_else(|| self.mismatch(name, item, "string")),
            })
            .collect()
    }

    fn mismatch(self, name: &str, node: Node<'_>, expected: &str) -> String {
        format!(
            "json: cannot unmarshal {} into Go struct field {}.{name} of type {expected}",
            node.kind().name(),
            self.type_
        )
    }
}

/// Base64 as Go decodes it: line breaks do not count.
pub(in crate::render) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let joined;
    let text = if text.contains(['\r', '\n']) {
        joined = text.replace(['\r', '\n'], "");
        &joined
    } else {
        text
    };
    BASE64
        .decode(text)
        .map_err(|error| format!("illegal base64 data: {error}"))
}
