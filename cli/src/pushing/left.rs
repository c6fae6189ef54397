//! Links and special files, which no image gets: nothing here follows the ones or opens the others.

use std::{collections::BTreeSet, fs, path::Path};

use unpacker::Skipped;

use crate::message::{self, count};

/// Names that are told; the rest is counted.
const NAMES: usize = 5;

/// Says what is missing in the image. Names are known of what lies in folders of a bundle that is a folder itself.
pub(super) fn warn(skipped: Skipped, bundle: Option<&Path>, folders: &[String]) {
    let Some(number) = number(skipped) else {
        return;
    };
    let names = bundle.map(|root| names(root, folders)).unwrap_or_default();
    let mut listed: Vec<String> = names.iter().take(NAMES).cloned().collect();
    let more = names.len().saturating_sub(NAMES);
    if more > 0 {
        listed.push(format!("{more} more"));
    }
    let listed = if listed.is_empty() {
        String::new()
    } else {
        format!(" ({})", listed.join(", "))
    };
    message::warning(&format!(
        "the image is made without {number} of the bundle{listed}; put regular files in their place if they belong to it"
    ));
}

/// `2 links and 1 special file`, if there are any.
pub(super) fn number(skipped: Skipped) -> Option<String> {
    let (links, special) = (skipped.symlinks, skipped.special);
    let parts = [
        (links, count(links, "link")),
        (special, count(special, "special file")),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts.map(|(_, text)| text).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

/// A folder that is needed must not be a link, nor lie behind one.
pub(super) fn check(bundle: &Path, folder: &str) -> anyhow::Result<()> {
    for path in Path::new(folder).ancestors() {
        let is_link = |found: fs::Metadata| found.is_symlink();
        let is_named = !path.as_os_str().is_empty();
        if is_named && fs::symlink_metadata(bundle.join(path)).is_ok_and(is_link) {
            anyhow::bail!(
                "{} is a symbolic link, which is not followed; put the folder in its place",
                path.display()
            );
        }
    }
    Ok(())
}

/// What cannot be listed any more has no names: the bundle was read a moment ago.
fn names(root: &Path, folders: &[String]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut waiting = folders.to_vec();
    while let Some(path) = waiting.pop() {
        let Ok(found) = fs::symlink_metadata(root.join(&path)) else {
            continue;
        };
        if found.is_dir() {
            let entries = fs::read_dir(root.join(&path)).into_iter().flatten();
            let below = entries.flatten().map(|entry| entry.file_name());
            waiting.extend(below.map(|name| format!("{path}/{}", name.to_string_lossy())));
        } else if !found.is_file() {
            names.insert(path);
        }
    }
    names
}
