//! Loading and validation of a catalog.

#[cfg(test)]
mod tests;

use crate::{
    documents,
    finding::{Finding, Level, OpmScope},
    model::Catalog,
    schema,
    source::{Error, Limits, Source, describe_skipped},
    validate::Validator,
};

/// Reads and validates a catalog.
///
/// # Errors
/// Returns an error if the directory cannot be read, or if the whole catalog exceeds a limit. Problems of documents and
/// packages are findings.
pub fn load(source: Source<'_>, limits: &Limits) -> Result<Catalog, Error> {
    let parsed = documents::collect(source, limits, schema::parse_blob)?;
    let skipped = source.skipped(limits)?;
    let mut catalog = Validator::default().run(parsed);
    catalog.enforce_limits(limits);
    catalog
        .findings
        .extend(describe_skipped(&skipped).map(|message| Finding {
            level: Level::Warning,
            file: None,
            line: None,
            package: None,
            message,
            scope: OpmScope::FirstOnly,
        }));
    Ok(catalog)
}
