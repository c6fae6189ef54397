//! CatalogSource that tolerates malformed objects, so that one of them does not break the whole list.
//!
//! A list is parsed as a whole. A single object that is nested too deep, or has a number in place of a string, would make
//! the list fail. The API server rejects such objects, but may still store some from before their validation.

use std::borrow::Cow;

use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use manifests::api::catalog_source::{CatalogSource, CatalogSourceSpec};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::cluster::shallow_json::DepthLimited;

/// A CatalogSource. If the spec of the object is malformed, the value has only the error in its spec.
#[derive(Debug, Clone)]
pub(super) struct TolerantCatalogSource(pub(super) CatalogSource);

impl<'de> Deserialize<'de> for TolerantCatalogSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let DepthLimited(mut object) = DepthLimited::deserialize(deserializer)?;
        // The managed fields are not used, and have one level of nesting for each level of the object.
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        let unread = match CatalogSource::deserialize(&object) {
            Ok(source) => return Ok(Self(source)),
            Err(error) => error.to_string(),
        };
        let part = |name: &str| object.get(name).cloned().unwrap_or_default();
        Ok(Self(CatalogSource {
            // The API server validates metadata regardless of the CRD.
            metadata: serde_json::from_value(part("metadata")).map_err(D::Error::custom)?,
            spec: CatalogSourceSpec {
                unread: Some(unread),
                ..CatalogSourceSpec::default()
            },
            status: serde_json::from_value(part("status")).unwrap_or_default(),
        }))
    }
}

impl Resource for TolerantCatalogSource {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        CatalogSource::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        CatalogSource::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        CatalogSource::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        CatalogSource::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectList;
    use manifests::api::catalog_source::Invalid;
    use serde_json::json;

    use super::*;

    fn object(name: &str, more: &str) -> String {
        format!(
            r#"{{"apiVersion":"operators.coreos.com/v1alpha1","kind":"CatalogSource","metadata":{{"name":{name:?},"uid":"u"}},{more}}}"#
        )
    }

    /// `catalogs/unreadable_sources.rs` covers watches.
    #[test]
    fn unreadable_catalog_source_leaves_the_others() {
        let deep = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let image = r#""sourceType":"grpc","image":"a:1""#;
        let status = json!({"message": "before"});
        let mut list = ::tests::rows![
            "good" => format!(r#""spec":{{{image}}},"status":{status}"#);
            // Nested deeper than the parser reads.
            "deep" => format!(r#""spec":{{{image},"grpcPodConfig":{}}}"#, deep(5000));
            "owned" => format!(r#""spec":{{{image}}}"#);
            "typed" => format!(r#""spec":{{"image":5}},"status":{status}"#);
            "state" => r#""spec":{},"status":{"message":5}"#.to_owned();
            "none" => r#""status":{}"#.to_owned();
        ]
        .map(|(name, more)| object(name, &more));
        let managed = format!(r#""managedFields":[{{"fieldsV1":{}}}]"#, deep(200));
        list[2] = list[2].replace(r#""uid":"u""#, &managed);
        let text = format!(
            r#"{{"apiVersion":"operators.coreos.com/v1alpha1","kind":"CatalogSourceList","metadata":{{}},"items":[{}]}}"#,
            list.join(",")
        );
        let found: ObjectList<TolerantCatalogSource> = serde_json::from_str(&text).unwrap();
        let of = |index: usize| &found.items[index].0;
        for index in 0..3 {
            assert_eq!(of(index).spec.image.as_deref(), Some("a:1"), "{index}");
            assert_eq!(of(index).metadata.managed_fields, None);
        }
        for (index, why) in [
            (3, "invalid type: integer `5`"),
            (4, "invalid type"),
            (5, "missing field `spec`"),
        ] {
            let Err(Invalid::Unread(message)) = of(index).origin() else {
                panic!("{index} was read");
            };
            assert!(message.contains(why), "{message}");
            assert_eq!(of(index).metadata.uid.as_deref(), Some("u"));
        }
        let message = |index: usize| of(index).status.as_ref()?.message.as_deref();
        assert_rows!([0, 3, 4].map(message) => [Some("before"), Some("before"), None]);
    }
}
