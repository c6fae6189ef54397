//! A bundle's files to its `olm.bundle`, as `opm render` reads them.
//!
//! opm does not read bundles as OLM or this project's converter does: the folders are always `manifests` and
//! `metadata`, of each file the first document counts alone, and the first ClusterServiceVersion wins. What is left out
//! thereby is told as a warning.

mod csv;
mod manifests_folder;
mod metadata;
mod properties;

use std::collections::HashSet;

use manifests::{content::Content, yaml};
use serde_json::Value;

use self::csv::Csv;
use super::{
    Error, Template,
    blob::{Bundle, RelatedImage},
    parts::Icon,
};
use crate::shape;

/// By what reference a bundle is known.
#[derive(Debug, Clone, Copy)]
pub enum Image<'a> {
    /// This one.
    Reference(&'a str),
    /// The bundle has none yet; the template says what it will be.
    Template(&'a Template),
    /// Nobody knows.
    Unknown,
}

/// An API: one kind in one version.
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

/// A bundle that was read, and its ClusterServiceVersion.
pub(super) struct Read {
    pub(super) bundle: Bundle,
    pub(super) csv: Value,
}

/// Reads a bundle.
pub(super) fn read(
    content: &Content,
    image: Image<'_>,
    warnings: &mut Vec<String>,
) -> Result<Read, Error> {
    let mut limits = yaml::Limits::default();
    let objects = manifests_folder::read(content, &mut limits, warnings)?;
    let csv = Csv::of(&objects.all)?;
    let provided = csv.provided(&objects.all)?;
    csv.check_owned(&provided)?;
    let metadata = metadata::read(content, &mut limits, warnings)?;
    let listed = properties::listed(&csv, &metadata, &provided, warnings)?;
    let image = match image {
        Image::Reference(image) => image.to_owned(),
        Image::Template(template) => {
            let version = properties::first_version(&listed)?;
            template.fill(&metadata.package, csv.name(), &version)
        }
        Image::Unknown => String::new(),
    };
    let properties = properties::all(&csv, &metadata, &listed, &provided, &objects.all)?;
    let related_images = related_images(&csv, &image)?;
    let name = csv.name().to_owned();
    let place = objects.csv;
    Ok(Read {
        bundle: Bundle {
            name,
            package: metadata.package,
            image,
            properties,
            related_images,
        },
        csv: objects.all.into_iter().nth(place).unwrap_or_default(),
    })
}

/// The first icon of a ClusterServiceVersion, if all of them are icons.
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
        let data = text("base64data")?.map(shape::base64);
        Some(Icon {
            data: data.transpose().ok()?,
            media_type: text("mediatype")?.unwrap_or_default().to_owned(),
        })
    });
    let read: Option<Vec<Icon>> = read.collect();
    read?.into_iter().next()
}

/// The images that the ClusterServiceVersion lists, the bundle's own, and those of its pods.
fn related_images(csv: &Csv<'_>, own: &str) -> Result<Vec<RelatedImage>, Error> {
    let mut images = csv.related_images()?;
    let listed: HashSet<String> = images.iter().map(|it| it.image.clone()).collect();
    let unnamed = |image: &str| RelatedImage {
        name: String::new(),
        image: image.to_owned(),
    };
    if !own.is_empty() && !listed.contains(own) {
        images.push(unnamed(own));
    }
    let used = csv.pod_images()?;
    let used = used.iter().filter(|it| !listed.contains(it.as_str()));
    images.extend(used.map(|it| unnamed(it)));
    Ok(images)
}
