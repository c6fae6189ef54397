//! The four schemas that mean something here, read from metas as Go reads them into its structs.

use crate::{
    facts::{Facts, decoded, list, object, text},
    json::Node,
    model::Entry,
    walk::{Fault, Meta},
};

/// How many related images are looked at for each bundle.
const RELATED_IMAGES: usize = 10_000;

/// A document with the place it was found in.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) file: Box<str>,
    pub(crate) line: usize,
    pub(crate) blob: Blob,
}

#[derive(Debug)]
pub(crate) enum Blob {
    Package(Package),
    Channel(Channel),
    Bundle(Box<Bundle>),
    Deprecations(Deprecations),
    /// Of another schema: with the package it names, if any.
    Other(String),
    /// Not to be read; with the package it names, if that is known.
    Broken(String, Option<String>),
}

#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) default_channel: String,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) image: String,
    /// What the properties say, or the first that cannot be read.
    pub(crate) facts: Result<Facts, String>,
    /// The first related image with a name that is none, and why.
    pub(crate) related: Option<(usize, String, String)>,
    /// Values that were written as numbers and are read differently by others.
    pub(crate) unquoted: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Deprecations {
    pub(crate) package: String,
    pub(crate) entries: Vec<Deprecation>,
}

#[derive(Debug)]
pub(crate) struct Deprecation {
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) message: String,
}

/// What a document says.
pub(crate) fn look(meta: Result<Meta<'_>, Fault>) -> Seen {
    let meta = match meta {
        Ok(meta) => meta,
        Err(fault) => {
            return Seen {
                file: fault.file.into(),
                line: fault.line,
                blob: Blob::Broken(fault.message, fault.package),
            };
        }
    };
    let root = meta.root;
    let (what, read) = match &*meta.schema {
        "olm.package" => ("package", package(root)),
        "olm.channel" => ("channel", channel(root)),
        "olm.bundle" => ("bundle", bundle(&meta)),
        "olm.deprecations" => ("deprecation", deprecations(root)),
        _ => ("", Ok(Blob::Other(meta.package.to_string()))),
    };
    Seen {
        file: meta.file.into(),
        line: meta.line,
        blob: read.unwrap_or_else(|problem| {
            let package = Some(meta.package_name())
                .filter(|it| !it.is_empty())
                .map(str::to_owned);
            Blob::Broken(format!("parse {what}: {problem}"), package)
        }),
    }
}

fn package(root: Node<'_>) -> Result<Blob, String> {
    let go = "declcfg.Package";
    if let Some(icon) = root.field("icon") {
        object(icon, "declcfg.Icon")?;
        decoded(icon, "base64data", "declcfg.Icon")?;
        text(icon, "mediatype", "declcfg.Icon")?;
    }
    text(root, "description", go)?;
    properties(root, go, |_, _, _| Ok(()))?;
    Ok(Blob::Package(Package {
        name: text(root, "name", go)?,
        default_channel: text(root, "defaultChannel", go)?,
    }))
}

fn channel(root: Node<'_>) -> Result<Blob, String> {
    let go = "declcfg.Channel";
    let one = "declcfg.ChannelEntry";
    let mut entries = Vec::new();
    for entry in list(root, "entries", go, one)? {
        object(entry, one)?;
        let skips = list(entry, "skips", one, "string")?;
        let skips = skips.map(|it| match it.text() {
            Some(text) => Ok(text.into_owned()),
            None if it.is_null() => Ok(String::new()),
            None => Err(crate::facts::mismatch(it, "skips", one, "string")),
        });
        let some = |text: String| Some(text).filter(|it| !it.is_empty());
        entries.push(Entry {
            name: text(entry, "name", one)?,
            replaces: some(text(entry, "replaces", one)?),
            skips: skips.collect::<Result<_, _>>()?,
            skip_range: some(text(entry, "skipRange", one)?),
        });
    }
    properties(root, go, |_, _, _| Ok(()))?;
    Ok(Blob::Channel(Channel {
        name: text(root, "name", go)?,
        package: text(root, "package", go)?,
        entries,
    }))
}

fn bundle(meta: &Meta<'_>) -> Result<Blob, String> {
    let root = meta.root;
    let go = "declcfg.Bundle";
    let one = "declcfg.RelatedImage";
    let mut related = None;
    for (at, image) in list(root, "relatedImages", go, one)?.enumerate() {
        object(image, one)?;
        text(image, "name", one)?;
        let image = crate::facts::borrowed(image, "image", one)?;
        if related.is_none()
            && at < RELATED_IMAGES
            && let Some(problem) = pull_spec(&image)
        {
            related = Some((at, image.chars().take(300).collect(), problem));
        }
    }
    let (name, package) = (text(root, "name", go)?, text(root, "package", go)?);
    let mut facts = Facts::default();
    // The first property that cannot be read. Where it is a manifest, opm does not even load the catalog.
    let mut problem = None;
    let mut unquoted = None;
    let mut fatal = None;
    properties(root, go, |at, type_, value| {
        if type_ == crate::walk::MAX_PROPERTY
            && let Some(value) = value.filter(|it| it.number().is_some())
        {
            unquoted = Some(String::from_utf8_lossy(value.raw()).into_owned());
        }
        if let Err(error) = facts.add(at, type_, value) {
            if type_ == "olm.bundle.object" && fatal.is_none() {
                fatal = Some(format!(
                    "read bundle objects: package {package:?}, bundle {name:?}: parse property at index {at} as bundle object: {error}"
                ));
            }
            problem.get_or_insert(error);
        }
        Ok(())
    })?;
    if let Some(fatal) = fatal {
        return Err(fatal);
    }
    Ok(Blob::Bundle(Box::new(Bundle {
        image: text(root, "image", go)?,
        facts: problem.map_or(Ok(facts), Err),
        related,
        unquoted,
        name,
        package,
    })))
}

fn deprecations(root: Node<'_>) -> Result<Blob, String> {
    let go = "declcfg.Deprecation";
    let one = "declcfg.DeprecationEntry";
    let of = "declcfg.PackageScopedReference";
    let mut entries = Vec::new();
    for entry in list(root, "entries", go, one)? {
        object(entry, one)?;
        let reference = entry.field("reference");
        let field = |name| match reference {
            Some(reference) => text(reference, name, of),
            None => Ok(String::new()),
        };
        if let Some(reference) = reference {
            object(reference, of)?;
        }
        entries.push(Deprecation {
            schema: field("schema")?,
            name: field("name")?,
            message: text(entry, "message", one)?,
        });
    }
    Ok(Blob::Deprecations(Deprecations {
        package: text(root, "package", go)?,
        entries,
    }))
}

/// Shows each property: its place, type and value.
fn properties<'a>(
    root: Node<'a>,
    go: &str,
    mut each: impl FnMut(usize, &str, Option<Node<'a>>) -> Result<(), String>,
) -> Result<(), String> {
    let one = "property.Property";
    for (at, property) in list(root, "properties", go, one)?.enumerate() {
        object(property, one)?;
        let type_ = crate::facts::borrowed(property, "type", one)?;
        // A value is kept as it is, so a null is one.
        let value = property.entries().filter(|(key, _)| key.is("value"));
        let value = value.last().map(|(_, value)| value);
        each(at, &type_, value.or_else(|| property.field("value")))?;
    }
    Ok(())
}

/// Why a text is no image reference. An empty one is none and nobody minds.
pub(crate) fn pull_spec(image: &str) -> Option<String> {
    if image.is_empty() {
        return None;
    }
    let parsed: Result<manifests::image::Reference, _> = image.parse();
    parsed.err().map(|error| error.to_string())
}
