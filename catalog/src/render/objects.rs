//! `olm.bundle.object`: manifests that a bundle carries within its blob.

use manifests::{
    object::text,
    yaml::{self, Limits},
};
use serde_json::Value;

use super::blob::{BUNDLE_OBJECT, Bundle};
use crate::{json::Tape, shape};

/// Values in one property; what they hold is counted again when it is read.
const VALUES: usize = 10_000;

/// Checks a bundle's objects as opm does when it loads a catalog, and returns its ClusterServiceVersion if that is wanted.
///
/// # Errors
/// What is wrong with one of them, in opm's words.
pub(super) fn read(bundle: &Bundle, wants_csv: bool) -> Result<Option<Value>, String> {
    let mut csv = None;
    let mut limits = Limits::default();
    for (at, property) in bundle.properties.iter().enumerate() {
        if property.type_ != BUNDLE_OBJECT {
            continue;
        }
        let fail = |what: &str, error: &str| {
            format!(
                "read bundle objects: package {:?}, bundle {:?}: {what}: {error}",
                bundle.package, bundle.name
            )
        };
        let data = data(&property.value).map_err(|error| {
            let what = format!("parse property at index {at} as bundle object");
            fail(&what, &error)
        })?;
        let is_json = data.trim_ascii_start().starts_with(b"{");
        let may_be_csv = wants_csv && csv.is_none() && mentions_csv(&data);
        if is_json && !may_be_csv {
            continue;
        }
        let mut documents = yaml::documents_with(&data, limits);
        let first = documents.next();
        limits = documents.left();
        match first {
            Some(Ok(value)) if text(&value, &["kind"]) == Some("ClusterServiceVersion") => {
                csv.get_or_insert(value);
            }
            Some(Err(error)) if !is_json => {
                let what = format!("convert bundle object property at index {at} to JSON");
                return Err(fail(&what, &error.to_string()));
            }
            _ => {}
        }
    }
    Ok(csv.filter(|_| wants_csv))
}

fn mentions_csv(data: &[u8]) -> bool {
    memchr::memmem::find(data, b"ClusterServiceVersion").is_some()
}

/// The manifest in a property.
fn data(value: &[u8]) -> Result<Vec<u8>, String> {
    let mut tape = Tape::default();
    let root = tape.read(value, VALUES).map_err(|it| it.to_string())?;
    shape::check(root, &shape::BUNDLE_OBJECT)?;
    shape::base64(&shape::borrowed(root, "data"))
}
