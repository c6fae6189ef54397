//! Blobs of a catalog as Go's types print them: known fields in the order of the Go structs, without unknown fields.

use std::borrow::Cow;

use super::{
    builders::{Icon, Package},
    json::depth,
};
use crate::{
    documents::Meta,
    go_json::{self, GoStruct, list, text, type_name_of},
    json::{Node, write_text},
};

/// Kind of a blob, in the order of output within a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BlobKind {
    Package,
    Channel,
    Bundle,
    Other,
    Deprecations,
}

/// A blob that is ready to be printed.
#[derive(Debug, Clone)]
pub(crate) struct Blob {
    /// Package of the blob; empty if it belongs to no package.
    pub(crate) package: Box<str>,
    pub(crate) class: BlobKind,
    /// Sort key among blobs of one kind: the name of a channel or bundle, the schema of other blobs.
    pub(crate) key: Box<str>,
    /// Blob as compact JSON.
    pub(crate) json: Box<[u8]>,
    /// Nesting depth of the JSON. The thread that writes the JSON computes it, because all depths are checked before
    /// the first blob is printed.
    pub(crate) depth: usize,
}

/// Order of keys in the value of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// Sorted, as in opm, which converts files from YAML.
    Sorted,
    /// Original order, which opm keeps for values from databases.
    Original,
}

/// A blob of a catalog after reading.
#[derive(Debug, Clone)]
pub(crate) enum ReadBlob {
    Done(Blob),
    /// A bundle, which can still be migrated.
    Bundle(Bundle),
}

/// Content of an `olm.bundle`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bundle {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) image: String,
    pub(crate) properties: Vec<Property>,
    pub(crate) related_images: Vec<RelatedImage>,
}

/// A property whose value is compact JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Property {
    pub(crate) type_: String,
    pub(crate) value: Vec<u8>,
}

/// An image that a bundle references.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RelatedImage {
    pub(crate) name: String,
    pub(crate) image: String,
}

/// Reads a blob.
///
/// # Errors
/// Returns the problem of the document, in the wording of opm.
pub(crate) fn read(meta: &Meta<'_>, order: KeyOrder) -> Result<ReadBlob, String> {
    let root = meta.root;
    let check = |ty: &'static GoStruct, subject: &str| {
        go_json::check(root, ty).map_err(|problem| format!("parse {subject}: {problem}"))
    };
    let blob = match &*meta.schema {
        "olm.package" => {
            check(&go_json::PACKAGE, "package")?;
            package(root).map_err(|problem| format!("parse package: {problem}"))?
        }
        "olm.channel" => {
            check(&go_json::CHANNEL, "channel")?;
            channel(root)
        }
        "olm.bundle" => {
            check(&go_json::BUNDLE, "bundle")?;
            return Ok(ReadBlob::Bundle(bundle(root, order)));
        }
        "olm.deprecations" => {
            check(&go_json::DEPRECATION, "deprecation")?;
            deprecations(root)
        }
        other => {
            let mut json = Vec::new();
            root.sorted(&mut json);
            Blob::new(&meta.package, BlobKind::Other, other, json)
        }
    };
    Ok(ReadBlob::Done(blob))
}

fn package(root: Node<'_>) -> Result<Blob, String> {
    let icon = root.field("icon").map(|icon| {
        let data = icon.field("base64data").and_then(Node::text);
        Ok::<_, String>(Icon {
            data: data.map(|data| go_json::base64(&data)).transpose()?,
            media_type: text(icon, "mediatype"),
        })
    });
    let icon = icon.transpose()?;
    let package = Package {
        name: &type_name_of(root, "name"),
        default_channel: &type_name_of(root, "defaultChannel"),
        icon: icon.as_ref(),
        description: &type_name_of(root, "description"),
    };
    Ok(package.blob(&properties(root, KeyOrder::Sorted)))
}

fn channel(root: Node<'_>) -> Blob {
    let (name, package) = (type_name_of(root, "name"), type_name_of(root, "package"));
    let mut out = Writer::new("olm.channel");
    out.text("name", &name);
    out.text("package", &package);
    out.list_or_null(root, "entries", |entry, out| {
        let skips = list(entry, "skips").map(|skip| skip.text().unwrap_or_default());
        out.entry(
            &type_name_of(entry, "name"),
            &type_name_of(entry, "replaces"),
            skips,
            &type_name_of(entry, "skipRange"),
        );
    });
    out.properties(&properties(root, KeyOrder::Sorted));
    out.blob(BlobKind::Channel, &package, &name)
}

fn bundle(root: Node<'_>, order: KeyOrder) -> Bundle {
    let images = list(root, "relatedImages").map(|image| RelatedImage {
        name: text(image, "name"),
        image: text(image, "image"),
    });
    Bundle {
        name: text(root, "name"),
        package: text(root, "package"),
        image: text(root, "image"),
        properties: properties(root, order),
        related_images: images.collect(),
    }
}

fn deprecations(root: Node<'_>) -> Blob {
    let package = type_name_of(root, "package");
    let mut out = Writer::new("olm.deprecations");
    out.text("package", &package);
    out.list_or_null(root, "entries", |entry, out| {
        let reference = entry.field("reference");
        let field = |name| reference.map_or_else(String::new, |reference| text(reference, name));
        out.key("reference");
        out.json.push(b'{');
        out.text("schema", &field("schema"));
        out.text_opt("name", &field("name"));
        out.json.push(b'}');
        out.text("message", &type_name_of(entry, "message"));
    });
    out.blob(BlobKind::Deprecations, &package, "")
}

pub(crate) fn properties(root: Node<'_>, order: KeyOrder) -> Vec<Property> {
    let read = list(root, "properties").map(|property| {
        let mut value = Vec::new();
        match property.field("value") {
            Some(node) if order == KeyOrder::Original => node.compact(&mut value),
            Some(node) => node.sorted(&mut value),
            None => value.extend_from_slice(b"null"),
        }
        Property {
            type_: text(property, "type"),
            value,
        }
    });
    read.collect()
}

// === impl Blob ===

impl Blob {
    pub(crate) fn new(package: &str, class: BlobKind, key: &str, json: Vec<u8>) -> Self {
        Self {
            package: package.into(),
            class,
            key: key.into(),
            depth: depth(&json),
            json: json.into(),
        }
    }

    /// Returns a warning if the blob is skipped because it must declare a package and does not.
    pub(crate) fn missing_package(&self) -> Option<String> {
        if !self.package.is_empty() || self.class == BlobKind::Other {
            return None;
        }
        let start = self.json.utf8_chunks().next();
        let start = start.map(|chunk| chunk.valid().chars().take(100).collect::<String>());
        Some(format!(
            "a blob of the catalog has no package and is skipped: {}",
            start.unwrap_or_default()
        ))
    }
}

// === impl Bundle ===

impl Bundle {
    /// Moves properties that contain whole manifests behind the others, and sorts images.
    pub(crate) fn sort_properties(&mut self) {
        self.properties.sort_by_key(Property::is_large); // stable
        self.related_images.sort_by(|a, b| a.image.cmp(&b.image)); // stable
    }

    pub(crate) fn into_blob(self) -> Blob {
        let mut out = Writer::new("olm.bundle");
        out.text_opt("name", &self.name);
        out.text_opt("package", &self.package);
        out.text("image", &self.image);
        out.properties(&self.properties);
        if !self.related_images.is_empty() {
            out.key("relatedImages");
            out.json.push(b'[');
            for (at, image) in self.related_images.iter().enumerate() {
                out.json
                    .extend_from_slice(if at > 0 { b",{" } else { b"{" });
                out.text("name", &image.name);
                out.text("image", &image.image);
                out.json.push(b'}');
            }
            out.json.push(b']');
        }
        out.blob(BlobKind::Bundle, &self.package, &self.name)
    }
}

// === impl Property ===

/// Type of a property with a base64-encoded manifest.
pub(crate) const BUNDLE_OBJECT: &str = "olm.bundle.object";
/// Type of a property with the ClusterServiceVersion data that catalogs display.
pub(crate) const CSV_METADATA: &str = "olm.csv.metadata";

impl Property {
    pub(crate) fn is_large(&self) -> bool {
        matches!(self.type_.as_str(), BUNDLE_OBJECT | CSV_METADATA)
    }
}

/// Writer for the fields of a JSON object.
pub(crate) struct Writer {
    pub(crate) json: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    pub(crate) fn new(schema: &str) -> Self {
        let mut writer = Self { json: vec![b'{'] };
        writer.text("schema", schema);
        writer
    }

    pub(crate) fn key(&mut self, key: &str) {
        if !matches!(self.json.last(), Some(b'{')) {
            self.json.push(b',');
        }
        write_text(key, &mut self.json);
        self.json.push(b':');
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        write_text(text, &mut self.json);
    }

    pub(crate) fn text_opt(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    /// Writes the fields of a channel entry.
    pub(crate) fn entry<'a>(
        &mut self,
        name: &str,
        replaces: &str,
        skips: impl Iterator<Item = Cow<'a, str>>,
        range: &str,
    ) {
        self.text("name", name);
        self.text_opt("replaces", replaces);
        let mut skips = skips.peekable();
        if skips.peek().is_some() {
            self.key("skips");
            for (at, skip) in skips.enumerate() {
                self.json.push(if at > 0 { b',' } else { b'[' });
                write_text(&skip, &mut self.json);
            }
            self.json.push(b']');
        }
        self.text_opt("skipRange", range);
    }

    /// Writes a list, or `null` for an absent one, as Go does.
    fn list_or_null(
        &mut self,
        root: Node<'_>,
        key: &str,
        mut write: impl FnMut(Node<'_>, &mut Self),
    ) {
        self.key(key);
        if root.field(key).is_none() {
            self.json.extend_from_slice(b"null");
            return;
        }
        self.json.push(b'[');
        for (at, item) in list(root, key).enumerate() {
            self.json
                .extend_from_slice(if at > 0 { b",{" } else { b"{" });
            write(item, self);
            self.json.push(b'}');
        }
        self.json.push(b']');
    }

    pub(crate) fn properties(&mut self, properties: &[Property]) {
        if properties.is_empty() {
            return;
        }
        self.key("properties");
        self.json.push(b'[');
        for (at, property) in properties.iter().enumerate() {
            self.json
                .extend_from_slice(if at > 0 { b",{" } else { b"{" });
            self.text("type", &property.type_);
            self.key("value");
            self.json.extend_from_slice(&property.value);
            self.json.push(b'}');
        }
        self.json.push(b']');
    }

    pub(crate) fn blob(mut self, class: BlobKind, package: &str, key: &str) -> Blob {
        self.json.push(b'}');
        Blob::new(package, class, key, self.json)
    }
}
