//! Rewrites a manifest in another form, as a user would: fields that the new form cannot express are dropped and reported.

use std::fmt;

use serde_json::{Map, Value};

use super::{Object, Version, convert, insert_source, legacy, remove_source, v1_source};
use crate::{
    api::catalog_source::{
        CatalogSource, CatalogSourceSpec, Invalid, Origin, rules::MEMBERS, without_nulls,
    },
    object::truncate,
};

/// Form of a catalog's location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One of the members whose names end in Source.
    New,
    /// OLM's own fields.
    Legacy,
}

/// An object in another form.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewritten {
    /// The rewritten object.
    pub object: Value,
    /// Fields that were dropped.
    pub dropped: Vec<Dropped>,
}

/// A dropped field, which had no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The path of the field.
    pub field: String,
    /// The former value as JSON, truncated.
    pub value: String,
    /// The reason why the field had no effect.
    pub why: &'static str,
}

/// Reason why an object cannot be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The spec is not that of a CatalogSource.
    #[error("failed to read spec: {0}")]
    Spec(#[from] serde_json::Error),
    /// The spec does not declare exactly one location.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The object has fields that only the new form can express.
    #[error(
        "spec.{0} has fields that the old form does not support; remove them, or keep the new form"
    )]
    MemberOnly(String),
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} dropped: {}", self.field, self.value, self.why)
    }
}

/// Returns a CatalogSource in another form. An object that already has this form keeps it, and its version. The exception
/// is v1: it has no old form and becomes v1alpha1, as on the API server.
///
/// # Errors
/// Returns an error if the spec has no location, or more than one.
pub fn rewrite(object: Value, form: Form) -> Result<Rewritten, Error> {
    let object = without_nulls(object);
    let object = match form {
        Form::Legacy => convert(object, Version::V1alpha1),
        Form::New => object,
    };
    let spec = object.get("spec").cloned();
    let spec: CatalogSourceSpec =
        serde_json::from_value(spec.unwrap_or_else(|| Map::new().into()))?;
    let catalog = CatalogSource::new("", spec);
    let origin = catalog.origin()?;
    let Value::Object(mut object) = object else {
        return Ok(Rewritten {
            object,
            dropped: Vec::new(),
        });
    };
    let mut source = remove_source(&mut object);
    let mut dropped = Vec::new();
    match form {
        Form::New => {
            if !has_member(&source) {
                dropped = ignored_fields(&source, &origin);
            }
            dropped.extend(remove_image_fields(&mut object, &origin));
            source = v1_source(&source);
        }
        Form::Legacy => {
            source = legacy(&source);
            // OLM dials the address literally and has no default port.
            if let Origin::Service { address } = &origin {
                source.insert("address".to_owned(), address.to_string().into());
            }
            if let Some(member) = MEMBERS.iter().find(|member| source.contains_key(**member)) {
                return Err(Error::MemberOnly((*member).to_owned()));
            }
        }
    }
    insert_source(&mut object, source);
    Ok(Rewritten {
        object: object.into(),
        dropped,
    })
}

/// Returns a CatalogSource without its ignored fields, in the form that it has, as the API server accepts it on create.
///
/// # Errors
/// Returns an error if the spec has no location, or more than one.
pub fn drop_ignored(object: Value) -> Result<Rewritten, Error> {
    let object = without_nulls(object);
    let spec = object.get("spec").cloned();
    let spec: CatalogSourceSpec =
        serde_json::from_value(spec.unwrap_or_else(|| Map::new().into()))?;
    let catalog = CatalogSource::new("", spec);
    let origin = catalog.origin()?;
    let mut dropped = Vec::new();
    let Value::Object(mut object) = object else {
        return Ok(Rewritten { object, dropped });
    };
    let mut source = remove_source(&mut object);
    if has_member(&source) {
        // Only empty fields can exist beside a member; others would be a second location.
        source = v1_source(&source);
        dropped = remove_image_fields(&mut object, &origin);
    } else {
        dropped = ignored_fields(&source, &origin);
        source.retain(|field, value| {
            let path = format!("spec.{field}");
            value.as_str() != Some("") && dropped.iter().all(|dropped| dropped.field != path)
        });
    }
    insert_source(&mut object, source);
    Ok(Rewritten {
        object: object.into(),
        dropped,
    })
}

/// Returns the ignored fields of a source in OLM's form. Empty fields count as absent.
fn ignored_fields(source: &Object, origin: &Origin<'_>) -> Vec<Dropped> {
    const POD: &str = "only images are served by a registry pod";
    const MAP: &str = "ignored when configMap is set";
    let unread: &[(&str, &str)] = match origin {
        Origin::Image { .. } => &[
            ("address", "ignored when image is set"),
            ("configMap", "ignored with sourceType grpc"),
        ],
        Origin::Service { .. } => &[
            ("configMap", "ignored with sourceType grpc"),
            ("grpcPodConfig", POD),
        ],
        Origin::ConfigMap { .. } => &[("image", MAP), ("address", MAP), ("grpcPodConfig", POD)],
    };
    unread
        .iter()
        .filter_map(|&(field, why)| Some((field, source.get(field)?, why)))
        .filter(|(_, value, _)| value.as_str() != Some(""))
        .map(|(field, value, why)| Dropped::new(field, value, why))
        .collect()
}

fn has_member(source: &Object) -> bool {
    MEMBERS.iter().any(|member| source.contains_key(*member))
}

/// Removes the fields that the new form allows only for images.
fn remove_image_fields(object: &mut Object, origin: &Origin<'_>) -> Vec<Dropped> {
    if matches!(origin, Origin::Image { .. }) {
        return Vec::new();
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    let unread = [
        ("updateStrategy", "only images are polled in a registry"),
        ("secrets", "only images are pulled with secrets"),
    ];
    let unread = unread.into_iter().filter_map(|(field, why)| {
        let value = spec.remove(field)?;
        let is_empty = value.as_array().is_some_and(Vec::is_empty);
        (!is_empty).then(|| Dropped::new(field, &value, why))
    });
    unread.collect()
}

impl Dropped {
    fn new(field: &str, value: &Value, why: &'static str) -> Self {
        Self {
            field: format!("spec.{field}"),
            value: truncate(&value.to_string(), 120),
            why,
        }
    }
}
