//! Builders of blobs that are not copied from a document: packages, and channels with changed entries.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::blob::{Blob, BlobKind, KeyOrder, Property, Writer, properties};
use crate::{
    go_json::{list, text},
    json::{Node, write_text},
    model::Entry,
};

/// An `olm.package` to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    pub(crate) default_channel: &'a str,
    pub(crate) icon: Option<&'a Icon>,
    pub(crate) description: &'a str,
}

/// Icon of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Icon {
    /// Decoded image; `None` writes `null`, unlike empty data.
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) media_type: String,
}

/// An `olm.channel` whose entries can change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) package: String,
    /// Entries of the channel; `None` writes `null`, unlike an empty list.
    pub(crate) entries: Option<Vec<Entry>>,
    pub(crate) properties: Vec<Property>,
}

// === impl Package ===

impl Package<'_> {
    pub(crate) fn blob(self, properties: &[Property]) -> Blob {
        let mut out = Writer::new("olm.package");
        out.text("name", self.name);
        out.text("defaultChannel", self.default_channel);
        if let Some(icon) = self.icon {
            out.key("icon");
            out.json.extend_from_slice(b"{\"base64data\":");
            match &icon.data {
                Some(data) => write_text(&STANDARD.encode(data), &mut out.json),
                None => out.json.extend_from_slice(b"null"),
            }
            out.text("mediatype", &icon.media_type);
            out.json.push(b'}');
        }
        out.text_opt("description", self.description);
        out.properties(properties);
        out.blob(BlobKind::Package, self.name, self.name)
    }
}

// === impl Channel ===

impl Channel {
    /// Reads a channel whose blob was validated.
    pub(crate) fn read(root: Node<'_>) -> Self {
        let non_empty = |text: String| Some(text).filter(|text| !text.is_empty());
        let entries = root.field("entries").map(|_| {
            let entries = list(root, "entries").map(|entry| Entry {
                name: text(entry, "name"),
                replaces: non_empty(text(entry, "replaces")),
                skips: list(entry, "skips")
                    .map(|skip| skip.text().unwrap_or_default().into_owned())
                    .collect(),
                skip_range: non_empty(text(entry, "skipRange")),
            });
            entries.collect()
        });
        Self {
            name: text(root, "name"),
            package: text(root, "package"),
            entries,
            properties: properties(root, KeyOrder::Sorted),
        }
    }

    pub(crate) fn blob(&self) -> Blob {
        let mut out = Writer::new("olm.channel");
        out.text("name", &self.name);
        out.text("package", &self.package);
        out.key("entries");
        match &self.entries {
            None => out.json.extend_from_slice(b"null"),
            Some(entries) => {
                out.json.push(b'[');
                for (at, entry) in entries.iter().enumerate() {
                    out.json
                        .extend_from_slice(if at > 0 { b",{" } else { b"{" });
                    let text = |text: &Option<String>| text.clone().unwrap_or_default();
                    let skips = entry.skips.iter().map(|skip| skip.as_str().into());
                    out.entry(
                        &entry.name,
                        &text(&entry.replaces),
                        skips,
                        &text(&entry.skip_range),
                    );
                    out.json.push(b'}');
                }
                out.json.push(b']');
            }
        }
        out.properties(&self.properties);
        out.blob(BlobKind::Channel, &self.package, &self.name)
    }
}
