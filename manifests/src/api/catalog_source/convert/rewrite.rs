//! The form of a manifest, changed by hand as it were: what the new form has no place for is dropped and told.

use std::fmt;

use serde_json::{Map, Value};

use super::{Object, Version, convert, legacy, put_source, renewed, take_source};
use crate::{
    api::catalog_source::{
        CatalogSource, CatalogSourceSpec, Invalid, Origin, rules::MEMBERS, without_nulls,
    },
    object::shortened,
};

/// A way to say where a catalog is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// By a member of its own.
    New,
    /// In OLM's fields.
    Legacy,
}

/// An object in another form.
#[derive(Debug, Clone, PartialEq)]
pub struct Rewritten {
    /// The object.
    pub object: Value,
    /// What is not in it any more.
    pub dropped: Vec<Dropped>,
}

/// A field that is not there any more: nobody read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The field's path.
    pub field: String,
    /// What it was, as JSON, or the beginning of that.
    pub value: String,
    /// Why nobody read it.
    pub why: &'static str,
}

/// Why an object cannot be said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no CatalogSource, inside.
    #[error("spec cannot be read: {0}")]
    Spec(#[from] serde_json::Error),
    /// It does not say where the catalog is.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// It has something that only the new form has a place for.
    #[error(
        "spec.{0} has fields that the old form has no place for; remove them, or keep the new form"
    )]
    Newer(String),
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} dropped: {}", self.field, self.value, self.why)
    }
}

/// A CatalogSource in another form. What is in it already stays as it is, and so does its version, but that v1 has no old
/// form and becomes v1alpha1 for that, as the apiserver does it.
///
/// # Errors
/// When nothing, or several things, say where the catalog is.
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
    let mut source = take_source(&mut object);
    let mut dropped = Vec::new();
    match form {
        Form::New => {
            if !has_member(&source) {
                dropped = ignored(&source, &origin);
            }
            dropped.extend(without_unread(&mut object, &origin));
            source = renewed(&source);
        }
        Form::Legacy => {
            source = legacy(&source);
            // OLM dials the address as it is written, and has no port for one without.
            if let Origin::Service { address } = &origin {
                source.insert("address".to_owned(), address.to_string().into());
            }
            if let Some(member) = MEMBERS.iter().find(|member| source.contains_key(**member)) {
                return Err(Error::Newer((*member).to_owned()));
            }
        }
    }
    put_source(&mut object, source);
    Ok(Rewritten {
        object: object.into(),
        dropped,
    })
}

/// A CatalogSource without what nobody reads, as the apiserver takes it when it is written anew, in the form that it has.
///
/// # Errors
/// When nothing, or several things, say where the catalog is.
pub fn mend(object: Value) -> Result<Rewritten, Error> {
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
    let mut source = take_source(&mut object);
    if has_member(&source) {
        // Beside these, only what is empty: anything else would have been several things.
        source = renewed(&source);
        dropped = without_unread(&mut object, &origin);
    } else {
        dropped = ignored(&source, &origin);
        source.retain(|field, value| {
            let path = format!("spec.{field}");
            value.as_str() != Some("") && dropped.iter().all(|dropped| dropped.field != path)
        });
    }
    put_source(&mut object, source);
    Ok(Rewritten {
        object: object.into(),
        dropped,
    })
}

/// What of an old source is not read. What is empty is not there, and so not missed.
fn ignored(source: &Object, origin: &Origin<'_>) -> Vec<Dropped> {
    const POD: &str = "only an image is served by a pod of its own";
    const MAP: &str = "not read with a ConfigMap";
    let unread: &[(&str, &str)] = match origin {
        Origin::Image { .. } => &[
            ("address", "not read beside image"),
            ("configMap", "not read with sourceType grpc"),
        ],
        Origin::Service { .. } => &[
            ("configMap", "not read with sourceType grpc"),
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

/// Takes out of a spec what the new form has for images alone.
fn without_unread(object: &mut Object, origin: &Origin<'_>) -> Vec<Dropped> {
    if matches!(origin, Origin::Image { .. }) {
        return Vec::new();
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return Vec::new();
    };
    let unread = [
        (
            "updateStrategy",
            "only an image is looked for in a registry",
        ),
        ("secrets", "only an image is pulled with them"),
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
            value: shortened(&value.to_string(), 120),
            why,
        }
    }
}
