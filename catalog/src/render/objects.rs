//! `olm.bundle.object`: manifests inside the blob of a bundle.

use manifests::{
    object::text,
    yaml::{self, Limits},
};
use serde_json::Value;

use super::blob::{BUNDLE_OBJECT, Bundle};
use crate::{go_json, json::Tape};

/// Maximum number of values in one property. The decoded manifest has its own limit.
const MAX_VALUES: usize = 10_000;

/// Checks the objects of a bundle as opm does when it loads a catalog. Returns the ClusterServiceVersion if `with_csv`
/// is set.
///
/// # Errors
/// Returns the problem of an object, in the wording of opm.
pub(super) fn read(bundle: &Bundle, with_csv: bool) -> Result<Option<Value>, String> {
    let mut csv = None;
    let mut limits = Limits::default();
    for (at, property) in bundle.properties.iter().enumerate() {
        if property.type_ != BUNDLE_OBJECT {
            continue;
        }
        let fail = |action: &str, error: &str| {
            format!(
                "read bundle objects: package {:?}, bundle {:?}: {action}: {error}",
                bundle.package, bundle.name
            )
        };
        let data = data(&property.value).map_err(|error| {
            let action = format!("parse property at index {at} as bundle object");
            fail(&action, &error)
        })?;
        let is_json = data.trim_ascii_start().starts_with(b"{");
        let may_be_csv = with_csv && csv.is_none() && contains_csv(&data);
        if is_json && !may_be_csv {
            continue;
        }
        let mut documents = yaml::documents_with(&data, limits);
        let first = documents.next();
        limits = documents.remaining_values();
        match first {
            Some(Ok(value)) if text(&value, &["kind"]) == Some("ClusterServiceVersion") => {
                csv.get_or_insert(value);
            }
            Some(Err(error)) if !is_json => {
                let action = format!("convert bundle object property at index {at} to JSON");
                return Err(fail(&action, &error.to_string()));
            }
            _ => {}
        }
    }
    Ok(csv.filter(|_| with_csv))
}

fn contains_csv(data: &[u8]) -> bool {
    memchr::memmem::find(data, b"ClusterServiceVersion").is_some()
}

/// Decodes the manifest in a property.
fn data(value: &[u8]) -> Result<Vec<u8>, String> {
    let mut tape = Tape::default();
    let root = tape
        .read(value, MAX_VALUES)
        .map_err(|error| error.to_string())?;
    go_json::check(root, &go_json::BUNDLE_OBJECT)?;
    go_json::base64(&go_json::type_name_of(root, "data"))
}
