//! The blobs of a catalog as Go's types print them: known fields in their order, all else gone.

use base64::Engine as _;

use crate::{
    json::{Node, write_text},
    shape::{self, Struct, borrowed, list, text},
    walk::Meta,
};

/// Where a blob stands within its package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Package,
    Channel,
    Bundle,
    Other,
    Deprecations,
}

/// A blob that is ready to be printed.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    /// The package; empty if it belongs to none.
    pub(super) package: Box<str>,
    pub(super) class: Class,
    /// What blobs of one class are sorted by: the name of channels and bundles, the schema of others.
    pub(super) key: Box<str>,
    /// Compact JSON.
    pub(super) json: Box<[u8]>,
}

/// A blob of a catalog, read as far as it has to be.
#[derive(Debug, Clone)]
pub(super) enum Read {
    Done(Blob),
    /// Bundles may still be migrated.
    Bundle(Bundle),
}

/// An `olm.bundle`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Bundle {
    pub(super) name: String,
    pub(super) package: String,
    pub(super) image: String,
    pub(super) properties: Vec<Property>,
    pub(super) related_images: Vec<RelatedImage>,
}

/// A property; the value is compact JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Property {
    pub(super) type_: String,
    pub(super) value: Vec<u8>,
}

/// An image that belongs to a bundle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RelatedImage {
    pub(super) name: String,
    pub(super) image: String,
}

/// Reads a blob.
///
/// # Errors
/// What is wrong with it, in opm's words.
pub(super) fn read(meta: &Meta<'_>) -> Result<Read, String> {
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
            return Ok(Read::Bundle(bundle(root)));
        }
        "olm.deprecations" => {
            check(&shape::DEPRECATION, "deprecation")?;
            deprecations(root)
        }
        other => {
            let mut json = Vec::new();
            root.sorted(&mut json);
            Blob {
                package: meta.package.as_ref().into(),
                class: Class::Other,
                key: other.into(),
                json: json.into(),
            }
        }
    };
    Ok(Read::Done(blob))
}

fn package(root: Node<'_>) -> Result<Blob, String> {
    let name = borrowed(root, "name");
    let mut out = Writer::new("olm.package");
    out.text("name", &name);
    out.text("defaultChannel", &borrowed(root, "defaultChannel"));
    if let Some(icon) = root.field("icon") {
        out.key("icon");
        out.json.extend_from_slice(b"{\"base64data\":");
        match icon.field("base64data").and_then(Node::text) {
            Some(text) => {
                let data = shape::base64(&text)?;
                let data = base64::engine::general_purpose::STANDARD.encode(data);
                write_text(&data, &mut out.json);
            }
            None => out.json.extend_from_slice(b"null"),
        }
        out.text("mediatype", &borrowed(icon, "mediatype"));
        out.json.push(b'}');
    }
    out.text_if_any("description", &borrowed(root, "description"));
    out.properties(&properties(root));
    Ok(out.blob(Class::Package, name.clone(), name))
}

fn channel(root: Node<'_>) -> Blob {
    let (name, package) = (borrowed(root, "name"), borrowed(root, "package"));
    let mut out = Writer::new("olm.channel");
    out.text("name", &name);
    out.text("package", &package);
    out.list_or_null(root, "entries", |entry, out| {
        out.text("name", &borrowed(entry, "name"));
        out.text_if_any("replaces", &borrowed(entry, "replaces"));
        let mut skips = list(entry, "skips").peekable();
        if skips.peek().is_some() {
            out.key("skips");
            for (at, skip) in skips.enumerate() {
                out.json.push(if at > 0 { b',' } else { b'[' });
                write_text(&skip.text().unwrap_or_default(), &mut out.json);
            }
            out.json.push(b']');
        }
        out.text_if_any("skipRange", &borrowed(entry, "skipRange"));
    });
    out.properties(&properties(root));
    out.blob(Class::Channel, package, name)
}

fn bundle(root: Node<'_>) -> Bundle {
    let images = list(root, "relatedImages").map(|it| RelatedImage {
        name: text(it, "name"),
        image: text(it, "image"),
    });
    Bundle {
        name: text(root, "name"),
        package: text(root, "package"),
        image: text(root, "image"),
        properties: properties(root),
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
    out.blob(Class::Deprecations, package, "".into())
}

fn properties(root: Node<'_>) -> Vec<Property> {
    let read = list(root, "properties").map(|it| {
        let mut value = Vec::new();
        match it.field("value") {
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

// === impl Bundle ===

impl Bundle {
    /// Puts the properties that hold whole manifests behind the others, and images into their order.
    pub(super) fn arrange(&mut self) {
        self.properties.sort_by_key(Property::is_heavy); // stable
        self.related_images.sort_by(|a, b| a.image.cmp(&b.image)); // stable
    }

    pub(super) fn into_blob(self) -> Blob {
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
        out.blob(Class::Bundle, self.package.into(), self.name.into())
    }
}

// === impl Property ===

/// A manifest of a bundle, as base64.
pub(super) const BUNDLE_OBJECT: &str = "olm.bundle.object";
/// What catalogs show of a ClusterServiceVersion.
pub(super) const CSV_METADATA: &str = "olm.csv.metadata";

impl Property {
    pub(super) fn is_heavy(&self) -> bool {
        matches!(self.type_.as_str(), BUNDLE_OBJECT | CSV_METADATA)
    }
}

/// Writes the fields of an object.
pub(super) struct Writer {
    pub(super) json: Vec<u8>,
}

// === impl Writer ===

impl Writer {
    fn new(schema: &str) -> Self {
        let mut writer = Self { json: vec![b'{'] };
        writer.text("schema", schema);
        writer
    }

    pub(super) fn key(&mut self, key: &str) {
        if !matches!(self.json.last(), Some(b'{')) {
            self.json.push(b',');
        }
        write_text(key, &mut self.json);
        self.json.push(b':');
    }

    pub(super) fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        write_text(text, &mut self.json);
    }

    pub(super) fn text_if_any(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.text(key, text);
        }
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

    fn properties(&mut self, properties: &[Property]) {
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

    fn blob(
        mut self,
        class: Class,
        package: std::borrow::Cow<'_, str>,
        key: std::borrow::Cow<'_, str>,
    ) -> Blob {
        self.json.push(b'}');
        Blob {
            package: package.into(),
            class,
            key: key.into(),
            json: self.json.into(),
        }
    }
}
