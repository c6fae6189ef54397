//! The blobs of a catalog as Go's types print them: known fields in their order, all else gone.

mod fields;

use base64::Engine as _;

use self::fields::Fields;
pub(super) use self::fields::decode;
use crate::{json::Node, json::write_text, walk::Meta};

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
    let read = match &*meta.schema {
        "olm.package" => package(meta.root).map_err(|it| format!("parse package: {it}")),
        "olm.channel" => channel(meta.root).map_err(|it| format!("parse channel: {it}")),
        "olm.bundle" => {
            let bundle = bundle(meta.root).map_err(|it| format!("parse bundle: {it}"))?;
            return Ok(Read::Bundle(bundle));
        }
        "olm.deprecations" => {
            deprecations(meta.root).map_err(|it| format!("parse deprecation: {it}"))
        }
        other => {
            let mut json = Vec::new();
            meta.root.sorted(&mut json);
            Ok(Blob {
                package: meta.package.as_ref().into(),
                class: Class::Other,
                key: other.into(),
                json: json.into(),
            })
        }
    };
    read.map(Read::Done)
}

fn package(root: Node<'_>) -> Result<Blob, String> {
    let fields = Fields::of(root, "Package")?;
    let name = fields.text("name")?;
    let mut out = Writer::new("olm.package");
    out.text("name", &name);
    out.text("defaultChannel", &fields.text("defaultChannel")?);
    if let Some(icon) = fields.object("icon", "Icon")? {
        let data = icon.bytes("base64data")?;
        let mediatype = icon.text("mediatype")?;
        out.key("icon");
        out.json.extend_from_slice(b"{\"base64data\":");
        match data {
            Some(data) => {
                let data = base64::engine::general_purpose::STANDARD.encode(data);
                write_text(&data, &mut out.json);
            }
            None => out.json.extend_from_slice(b"null"),
        }
        out.text("mediatype", &mediatype);
        out.json.push(b'}');
    }
    out.text_if_any("description", &fields.text("description")?);
    out.properties(&properties(fields)?);
    Ok(out.blob(Class::Package, name.clone(), name))
}

fn channel(root: Node<'_>) -> Result<Blob, String> {
    let fields = Fields::of(root, "Channel")?;
    let (name, package) = (fields.text("name")?, fields.text("package")?);
    let mut out = Writer::new("olm.channel");
    out.text("name", &name);
    out.text("package", &package);
    out.list_or_null(
        "entries",
        fields.list("entries", "ChannelEntry")?,
        |it, out| {
            out.text("name", &it.text("name")?);
            out.text_if_any("replaces", &it.text("replaces")?);
            let skips = it.texts("skips")?;
            if !skips.is_empty() {
                out.key("skips");
                out.json.push(b'[');
                for (at, skip) in skips.iter().enumerate() {
                    if at > 0 {
                        out.json.push(b',');
                    }
                    write_text(skip, &mut out.json);
                }
                out.json.push(b']');
            }
            out.text_if_any("skipRange", &it.text("skipRange")?);
            Ok(())
        },
    )?;
    out.properties(&properties(fields)?);
    Ok(out.blob(Class::Channel, package, name))
}

fn bundle(root: Node<'_>) -> Result<Bundle, String> {
    let fields = Fields::of(root, "Bundle")?;
    let images = fields.list("relatedImages", "RelatedImage")?;
    let images = images.unwrap_or_default().into_iter().map(|it| {
        Ok(RelatedImage {
            name: it.text("name")?.into_owned(),
            image: it.text("image")?.into_owned(),
        })
    });
    Ok(Bundle {
        name: fields.text("name")?.into_owned(),
        package: fields.text("package")?.into_owned(),
        image: fields.text("image")?.into_owned(),
        properties: properties(fields)?,
        related_images: images.collect::<Result<_, String>>()?,
    })
}

fn deprecations(root: Node<'_>) -> Result<Blob, String> {
    let fields = Fields::of(root, "Deprecation")?;
    let package = fields.text("package")?;
    let mut out = Writer::new("olm.deprecations");
    out.text("package", &package);
    let entries = fields.list("entries", "DeprecationEntry")?;
    out.list_or_null("entries", entries, |it, out| {
        let reference = it.object("reference", "PackageScopedReference")?;
        let reference = reference.unwrap_or_default();
        out.key("reference");
        out.json.push(b'{');
        out.text("schema", &reference.text("schema")?);
        out.text_if_any("name", &reference.text("name")?);
        out.json.push(b'}');
        out.text("message", &it.text("message")?);
        Ok(())
    })?;
    Ok(out.blob(Class::Deprecations, package, "".into()))
}

fn properties(fields: Fields<'_>) -> Result<Vec<Property>, String> {
    let list = fields.list("properties", "Property")?.unwrap_or_default();
    let read = list.into_iter().map(|it| {
        let mut value = Vec::new();
        match it.node("value") {
            Some(node) => node.sorted(&mut value),
            None => value.extend_from_slice(b"null"),
        }
        Ok(Property {
            type_: it.text("type")?.into_owned(),
            value,
        })
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
    fn list_or_null<'a>(
        &mut self,
        key: &str,
        list: Option<Vec<Fields<'a>>>,
        mut write: impl FnMut(Fields<'a>, &mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.key(key);
        let Some(list) = list else {
            self.json.extend_from_slice(b"null");
            return Ok(());
        };
        self.json.push(b'[');
        for (at, item) in list.into_iter().enumerate() {
            self.json
                .extend_from_slice(if at > 0 { b",{" } else { b"{" });
            write(item, self)?;
            self.json.push(b'}');
        }
        self.json.push(b']');
        Ok(())
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
