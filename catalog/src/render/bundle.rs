//! Conversion of a bundle's files to its `olm.bundle`, as `opm render` reads them.
//!
//! opm differs from OLM and from this project's converter. The directories are always `manifests` and `metadata`, only
//! the first document of each file is read, and the first ClusterServiceVersion is used. Everything else is skipped
//! with a warning.

mod csv;
mod manifests_dir;
mod metadata;
mod properties;

use std::collections::HashSet;

use manifests::{content::Content, yaml};
use serde_json::Value;

use self::csv::CsvView;
use super::{
    Error, Template,
    blob::{Bundle, RelatedImage},
    builders::Icon,
};
use crate::go_json;

/// Image reference of a bundle.
#[derive(Debug, Clone, Copy)]
pub enum BundleImageRef<'a> {
    /// The reference is known.
    Reference(&'a str),
    /// The bundle is not pushed yet; the template yields its future reference.
    Template(&'a Template),
    /// The reference is unknown.
    Unknown,
}

/// An API: one version of a kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Api {
    group: String,
    version: String,
    kind: String,
    plural: String,
}

impl std::fmt::Display for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            group,
            version,
            kind,
            plural,
        } = self;
        write!(f, "{group}/{version}/{kind} ({plural})")
    }
}

/// A bundle and its ClusterServiceVersion.
pub(super) struct RenderedBundle {
    pub(super) bundle: Bundle,
    pub(super) csv: Value,
}

/// Reads a bundle from its files.
pub(super) fn read(
    content: &Content,
    image: BundleImageRef<'_>,
    warnings: &mut Vec<String>,
) -> Result<RenderedBundle, Error> {
    let mut limits = yaml::Limits::default();
    let objects = manifests_dir::read(content, &mut limits, warnings)?;
    let csv = CsvView::find(&objects.all)?;
    let provided = csv.provided(&objects.all)?;
    csv.check_owned(&provided)?;
    let metadata = metadata::read(content, &mut limits, warnings)?;
    let listed = properties::declared_properties(&csv, &metadata, &provided, warnings)?;
    let image = match image {
        BundleImageRef::Reference(image) => image.to_owned(),
        BundleImageRef::Template(template) => {
            let version = properties::first_version(&listed)?;
            template.fill(&metadata.package, csv.name(), &version)
        }
        BundleImageRef::Unknown => String::new(),
    };
    let properties = properties::all(&csv, &metadata, &listed, &provided, &objects.all)?;
    let related_images = related_images(&csv, &image)?;
    let name = csv.name().to_owned();
    let csv_index = objects.csv;
    Ok(RenderedBundle {
        bundle: Bundle {
            name,
            package: metadata.package,
            image,
            properties,
            related_images,
        },
        csv: objects.all.into_iter().nth(csv_index).unwrap_or_default(),
    })
}

/// Returns the first icon of a ClusterServiceVersion, or `None` if any icon is malformed.
pub(super) fn icon(csv: &Value) -> Option<Icon> {
    let icons = csv.get("spec")?.get("icon")?.as_array()?.iter();
    let read = icons.map(|icon| {
        let text = |name| match metadata::field(icon, name) {
            None | Some(Value::Null) => Some(None),
            Some(Value::String(text)) => Some(Some(text.as_str())),
            Some(_) => None,
        };
        if !matches!(icon, Value::Object(_) | Value::Null) {
            return None;
        }
        let data = text("base64data")?.map(go_json::base64);
        Some(Icon {
            data: data.transpose().ok()?,
            media_type: text("mediatype")?.unwrap_or_default().to_owned(),
        })
    });
    let read: Option<Vec<Icon>> = read.collect();
    read?.into_iter().next()
}

/// Returns the images that the ClusterServiceVersion lists, the image of the bundle, and those of the operator's pods.
fn related_images(csv: &CsvView<'_>, own: &str) -> Result<Vec<RelatedImage>, Error> {
    let mut images = csv.related_images()?;
    let listed: HashSet<String> = images.iter().map(|image| image.image.clone()).collect();
    let unnamed = |image: &str| RelatedImage {
        name: String::new(),
        image: image.to_owned(),
    };
    if !own.is_empty() && !listed.contains(own) {
        images.push(unnamed(own));
    }
    let used = csv.pod_images()?;
    let used = used.iter().filter(|image| !listed.contains(image.as_str()));
    images.extend(used.map(|image| unnamed(image)));
    Ok(images)
}
