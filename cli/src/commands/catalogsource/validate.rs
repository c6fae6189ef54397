//! `rukpak catalogsource validate`: checks CatalogSources like the API server, without one.
//!
//! ```text
//!  file ─ documents ─ Lists ─ objects ─ manifests::validation ──► messages
//!              │                └─ other kinds ──► note
//!              └─ duplicate fields ──► messages
//! ```
//!
//! The schema and the rules are those of rukpak's CRD. They are checked as for a new object: rules that exempt existing
//! objects exempt none here.

mod crd;
mod file;

use self::{crd::Crd, file::File};
use super::read;
use crate::{ExitStatus, args::CatalogSourceValidateArgs, output};

pub(super) fn run(args: &CatalogSourceValidateArgs) -> anyhow::Result<ExitStatus> {
    let mut crd = Crd::default();
    let mut files = Vec::new();
    for path in args.files.iter() {
        let mut file = File::new(path.display().to_string());
        match read(path) {
            Ok(text) => file.validate(&text, &mut crd)?,
            Err(error) => file.add_unreadable(&error),
        }
        files.push(file);
    }
    let sources: Vec<_> = files.iter().flat_map(|file| &file.sources).collect();
    if let Some(text) = output::described(&sources, args.output)? {
        output::print(&text)?;
    } else {
        for source in sources.iter().filter(|source| source.errors.is_empty()) {
            output::print(&format!("{}: valid\n", source.title()))?;
        }
    }
    files.iter().for_each(File::report);
    let is_valid = files.iter().all(File::is_valid);
    Ok(if is_valid {
        ExitStatus::Done
    } else {
        ExitStatus::Failed
    })
}
