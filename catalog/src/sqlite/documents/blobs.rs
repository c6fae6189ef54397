//! Serialized blobs. The order of fields is that of opm.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize)]
pub(super) struct PackageBlob<'a> {
    pub(super) schema: &'a str,
    pub(super) name: &'a str,
    #[serde(rename = "defaultChannel")]
    pub(super) default_channel: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) icon: Option<Icon>,
}

#[derive(Serialize)]
pub(super) struct Icon {
    pub(super) base64data: String,
    pub(super) mediatype: String,
}

#[derive(Serialize)]
pub(super) struct ChannelBlob<'a> {
    pub(super) schema: &'a str,
    pub(super) package: &'a str,
    pub(super) name: &'a str,
    pub(super) entries: Vec<Entry<'a>>,
}

#[derive(Serialize)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) replaces: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) skips: Vec<&'a str>,
    #[serde(rename = "skipRange", skip_serializing_if = "str::is_empty")]
    pub(super) skip_range: &'a str,
}

#[derive(Serialize)]
pub(super) struct BundleBlob<'a> {
    pub(super) schema: &'a str,
    pub(super) name: &'a str,
    pub(super) package: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) image: &'a str,
    pub(super) properties: Vec<Property>,
    #[serde(rename = "relatedImages", skip_serializing_if = "Vec::is_empty")]
    pub(super) related_images: Vec<RelatedImage>,
}

/// Property of a bundle.
#[derive(Serialize)]
pub(super) struct Property {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) value: Box<RawValue>,
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct RelatedImage {
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) image: String,
}

/// Reads null as the default value, as Go does.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
