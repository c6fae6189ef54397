//! Blobs that are made rather than read: packages, and channels whose entries change.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::blob::{Blob, Class, Order, Property, Writer, properties};
use crate::{
    json::{Node, write_text},
    model::Entry,
    shape::{list, text},
};

/// An `olm.package`, to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Package<'a> {
    pub(crate) name: &'a str,
    pub(crate) default_channel: &'a str,
    pub(crate) icon: Option<&'a Icon>,
    pub(crate) description: &'a str,
}

/// What a package looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Icon {
    /// No data is not the same as none of them.
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) media_type: String,
}

/// An `olm.channel` whose entries may change.
#[derive(Debug, Clone, Default)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) package: String,
    /// A list that is not there is not the same as one without entries.
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
        out.text_if_any("description", self.description);
        out.properties(properties);
        out.blob(Class::Package, self.name, self.name)
    }
}

// === impl Channel ===

impl Channel {
    /// Reads one that was checked.
    pub(crate) fn read(root: Node<'_>) -> Self {
        let some = |text: String| Some(text).filter(|it| !it.is_empty());
        let entries = root.field("entries").map(|_| {
            let entries = list(root, "entries").map(|entry| Entry {
                name: text(entry, "name"),
                replaces: some(text(entry, "replaces")),
                skips: list(entry, "skips")
                    .map(|it| it.text().unwrap_or_default().into_owned())
                    .collect(),
                skip_range: some(text(entry, "skipRange")),
            });
            entries.collect()
        });
        Self {
            name: text(root, "name"),
            package: text(root, "package"),
            entries,
            properties: properties(root, Order::Sorted),
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
                for (at, it) in entries.iter().enumerate() {
                    out.json
                        .extend_from_slice(if at > 0 { b",{" } else { b"{" });
                    let text = |text: &Option<String>| text.clone().unwrap_or_default();
                    let skips = it.skips.iter().map(|it| it.as_str().into());
                    out.entry(&it.name, &text(&it.replaces), skips, &text(&it.skip_range));
                    out.json.push(b'}');
                }
                out.json.push(b']');
            }
        }
        out.properties(&self.properties);
        out.blob(Class::Channel, &self.package, &self.name)
    }
}
