//! The blobs of a catalog as Go's types print them: known fields in their order, all else gone.

use std::borrow::Cow;

use super::{
    json::depth,
    parts::{Icon, Package},
};
use crate::{
    json::{Node, write_text},
    shape::{self, Struct, borrowed, list, text},
    walk::Meta,
};

/// Where a blob stands within its package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Package,
    Channel,
    Bundle,
    Other,
    Deprecations,
}

/// A blob that is ready to be printed.
#[derive(Debug, Clone)]
pub(crate) struct Blob {
    /// The package; empty if it belongs to none.
    pub(crate) package: Box<str>,
    pub(crate) class: Class,
    /// What blobs of one class are sorted by: the name of channels and bundles, the schema of others.
    pub(crate) key: Box<str>,
    /// Compact JSON.
    pub(crate) json: Box<[u8]>,
    /// How deep that is nested: found out by the thread that has just written it, and asked for all blobs before the first
    /// one is printed.
    pub(crate) depth: usize,
}

/// In which order the keys of a property's value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// As opm has those of files, which it converts from YAML.
    Sorted,
    /// As they stand there: it takes those of databases as they are.
    Kept,
}

/// A blob of a catalog, read as far as it has to be.
#[derive(Debug, Clone)]
pub(crate) enum Read {
    Done(Blob),
    /// Bundles may still be migrated.
    Bundle(Bundle),
}

/// An `olm.bundle`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bundle {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) image: String,
    pub(crate) properties: Vec<Property>,
    pub(crate) related_images: Vec<RelatedImage>,
}

/// A property; the value is compact JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Property {
    pub(crate) type_: String,
    pub(crate) value: Vec<u8>,
}

/// An image that belongs to a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RelatedImage {
    pub(crate) name: String,
    pub(crate) image: String,
}

/// Reads a blob.
///
/// # Errors
/// What is wrong with it, in opm's words.
pub(crate) fn read(meta: &Meta<'_>, order: Order) -> Result<Read, String> {
    let root = meta.root;
    let check = |of: &'static Struct, what: &str| {
        shape::check(root, of).map_err(|it| format!("parse {what}: {it}"))
    };
    let blob = match &*meta.schema {
        "olm.package" => {
            check(&shape::PACKAGE, "package")?;
            package(root).map_err(|it| format!("parse package: {it}"))?
        }
        "olm.channel" => {
            check(&shape::CHANNEL, "channel")?;
            channel(root)
        }
        "olm.bundle" => {
            check(&shape::BUNDLE, "bundle")?;
            return Ok(Read::Bundle(bundle(root, order)));
        }
        "olm.deprecations" => {
            check(&shape::DEPRECATION, "deprecation")?;
            deprecations(root)
        }
        other => {
            let mut json = Vec::new();
            root.sorted(&mut json);
            Blob::new(&meta.package, Class::Other, other, json)
        }
    };
    Ok(Read::Done(blob))
}

fn package(root: Node<'_>) -> Result<Blob, String> {
    let icon = root.field("icon").map(|icon| {
        let data = icon.field("base64data").and_then(Node::text);
        Ok::<_, String>(Icon {
            data: data.map(|it| shape::base64(&it)).transpose()?,
            media_type: text(icon, "mediatype"),
        })
    });
    let icon = icon.transpose()?;
    let package = Package {
        name: &borrowed(root, "name"),
        default_channel: &borrowed(root, "defaultChannel"),
        icon: icon.as_ref(),
        description: &borrowed(root, "description"),
    };
    Ok(package.blob(&properties(root, Order::Sorted)))
}

fn channel(root: Node<'_>) -> Blob {
    let (name, package) = (borrowed(root, "name"), borrowed(root, "package"));
    let mut out = Writer::new("olm.channel");
    out.text("name", &name);
    out.text("package", &package);
    out.list_or_null(root, "entries", |entry, out| {
        let skips = list(entry, "skips").map(|it| it.text().unwrap_or_default());
        out.entry(
            &borrowed(entry, "name"),
            &borrowed(entry, "replaces"),
            skips,
            &borrowed(entry, "skipRange"),
        );
    });
    out.properties(&properties(root, Order::Sorted));
    out.blob(Class::Channel, &package, &name)
}

fn bundle(root: Node<'_>, order: Order) -> Bundle {
    let images = list(root, "relatedImages").map(|it| RelatedImage {
        name: text(it, "name"),
        image: text(it, "image"),
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
    let package = borrowed(root, "package");
    let mut out = Writer::new("olm.deprecations");
    out.text("package", &package);
    out.list_or_null(root, "entries", |entry, out| {
        let reference = entry.field("reference");
        let field = |name| reference.map_or_else(String::new, |it| text(it, name));
        out.key("reference");
        out.json.push(b'{');
        out.text("schema", &field("schema"));
        out.text_if_any("name", &field("name"));
        out.json.push(b'}');
        out.text("message", &borrowed(entry, "message"));
    });
    out.blob(Class::Deprecations, &package, "")
}

pub(crate) fn properties(root: Node<'_>, order: Order) -> Vec<Property> {
    let read = list(root, "properties").map(|it| {
        let mut value = Vec::new();
        match it.field("value") {
            Some(node) if order == Order::Kept => node.compact(&mut value),
            Some(node) => node.sorted(&mut value),
            None => value.extend_from_slice(b"null"),
        }
        Property {
            type_: text(it, "type"),
            value,
        }
    });
    read.collect()
}

// === impl Blob ===

impl Blob {
    pub(crate) fn new(package: &str, class: Class, key: &str, json: Vec<u8>) -> Self {
        Self {
            package: package.into(),
            class,
            key: key.into(),
            depth: depth(&json),
            json: json.into(),
        }
    }

    /// What is said of a blob that is left out, because it should name a package and does not.
    pub(crate) fn nameless(&self) -> Option<String> {
        if !self.package.is_empty() || self.class == Class::Other {
            return None;
        }
        let start = self.json.utf8_chunks().next();
        let start = start.map(|it| it.valid().chars().take(100).collect::<String>());
        Some(format!(
            "a blob of the catalog names no package and is left out: {}",
            start.unwrap_or_default()
        ))
    }
}

// === impl Bundle ===

impl Bundle {
    /// Puts the properties that hold whole manifests behind the others, and images into their order.
    pub(crate) fn arrange(&mut self) {
        self.properties.sort_by_key(Property::is_heavy); // stable
        self.related_images.sort_by(|a, b| a.image.cmp(&b.image)); // stable
    }

    pub(crate) fn into_blob(self) -> Blob {
        let mut out = Writer::new("olm.bundle");
        out.text_if_any("name", &self.name);
        out.text_if_any("package", &self.package);
        out.text("image", &self.image);
        out.properties(&self.properties);
        if !self.related_images.is_empty() {
            out.key("relatedImages");
            out.json.push(b'[');
            for (at, it) in self.related_images.iter().enumerate() {
                out.json
                    .extend_from_slice(if at > 0 { b",{" } else { b"{" });
                out.text("name", &it.name);
                out.text("image", &it.image);
                out.json.push(b'}');
            }
            out.json.push(b']');
        }
        out.blob(Class::Bundle, &self.package, &self.name)
    }
}

// === impl Property ===

/// A manifest of a bundle, as base64.
pub(crate) const BUNDLE_OBJECT: &str = "olm.bundle.object";
/// What catalogs show of a ClusterServiceVersion.
pub(crate) const CSV_METADATA: &str = "olm.csv.metadata";

impl Property {
    pub(crate) fn is_heavy(&self) -> bool {
        matches!(self.type_.as_str(), BUNDLE_OBJECT | CSV_METADATA)
    }
}

/// Writes the fields of an object.
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

    pub(crate) fn text_if_any(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
    }

    /// The fields of a channel's entry.
    pub(crate) fn entry<'a>(
        &mut self,
        name: &str,
        replaces: &str,
        skips: impl Iterator<Item = Cow<'a, str>>,
        range: &str,
    ) {
        self.text("name", name);
        self.text_if_any("replaces", replaces);
        let mut skips = skips.peekable();
        if skips.peek().is_some() {
            self.key("skips");
            for (at, skip) in skips.enumerate() {
                self.json.push(if at > 0 { b',' } else { b'[' });
                write_text(&skip, &mut self.json);
            }
            self.json.push(b']');
        }
        self.text_if_any("skipRange", range);
    }

    /// Go prints `null` for a list that is not there.
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

    pub(crate) fn blob(mut self, class: Class, package: &str, key: &str) -> Blob {
        self.json.push(b'}');
        Blob::new(package, class, key, self.json)
    }
}
