//! A folder of results that appear all at once, or not at all.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Mutex,
};

use anyhow::Context;
use manifests::object::Object;

use crate::args::Manifests;

/// What may be in the folder already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing but hidden files.
    Nothing,
    /// Anything.
    Anything,
}

/// Files on their way into a folder. They wait in a hidden folder inside it, where moving them is but a change of name,
/// and are gone if [`Staged::publish`] is never reached.
#[derive(Debug)]
pub(crate) struct Staged {
    folder: PathBuf,
    waiting: PathBuf,
    names: Mutex<Vec<String>>,
    /// Whether the folder is ours to remove when nothing comes of it.
    is_new: bool,
}

impl Staged {
    pub(crate) fn new(folder: &Path, before: Before) -> anyhow::Result<Self> {
        let failed = || format!("failed to create the folder {}", folder.display());
        let is_new = match fs::create_dir(folder) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(folder).with_context(failed)?;
                true
            }
            Err(error) => return Err(error).with_context(failed),
        };
        if before == Before::Nothing && !is_new && !visible(folder)?.is_empty() {
            anyhow::bail!(
                "the folder {} is not empty; choose another one, or give --force",
                folder.display()
            );
        }
        let waiting = folder.join(format!(".rukpak-{}", std::process::id()));
        fs::create_dir(&waiting).with_context(failed)?;
        Ok(Self {
            folder: folder.to_owned(),
            waiting,
            names: Mutex::default(),
            is_new,
        })
    }

    /// Adds a file.
    pub(crate) fn write(&self, name: String, text: &str) -> anyhow::Result<()> {
        fs::write(self.waiting.join(&name), text)
            .with_context(|| format!("failed to write {}", self.folder.join(&name).display()))?;
        self.names
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(name);
        Ok(())
    }

    /// Lets the files appear, and those of an earlier run, told by `is_old`, disappear.
    pub(crate) fn publish(mut self, is_old: impl Fn(&str) -> bool) -> anyhow::Result<usize> {
        let names = std::mem::take(
            self.names
                .get_mut()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        if !self.is_new {
            for old in visible(&self.folder)?.iter().filter(|name| is_old(name)) {
                let old = self.folder.join(old);
                fs::remove_file(&old)
                    .with_context(|| format!("failed to remove {}", old.display()))?;
            }
        }
        for name in &names {
            let place = self.folder.join(name);
            fs::rename(self.waiting.join(name), &place)
                .with_context(|| format!("failed to write {}", place.display()))?;
        }
        self.is_new = false;
        Ok(names.len())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Whatever made this fail was said already, or will be by the next run.
        let _ = fs::remove_dir_all(&self.waiting);
        if self.is_new {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// What a listing shows: hidden files (`.git`, `.gitkeep`) are nobody's results.
fn visible(folder: &Path) -> anyhow::Result<Vec<String>> {
    let failed = || format!("failed to list the folder {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        let name = entry
            .with_context(failed)?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    Ok(names)
}

/// `03-clusterrole-admin.yaml`: sorts as the objects are to be applied. The names of roles may hold characters that
/// those of files had better not; the number keeps them apart.
pub(crate) fn file_name(position: usize, of: usize, object: &Object, format: Manifests) -> String {
    let width = of.to_string().len().max(2);
    let name: String = object
        .name()
        .chars()
        .take(200)
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') {
                c
            } else {
                '-'
            }
        })
        .collect();
    let kind: String = object
        .kind()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(40)
        .collect();
    format!(
        "{:0width$}-{}-{name}.{}",
        position + 1,
        kind.to_ascii_lowercase(),
        ending(format)
    )
}

/// Whether a file has a name that [`file_name`] gives.
pub(crate) fn is_file_name(name: &str) -> bool {
    let mut parts = name.splitn(3, '-');
    let number = parts
        .next()
        .is_some_and(|n| n.len() >= 2 && n.bytes().all(|b| b.is_ascii_digit()));
    let kind = parts.next().is_some_and(|kind| {
        !kind.is_empty()
            && kind
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    });
    let ending = [Manifests::Yaml, Manifests::Json]
        .iter()
        .any(|format| name.ends_with(&format!(".{}", ending(*format))));
    number && kind && ending && parts.next().is_some()
}

pub(crate) fn ending(format: Manifests) -> &'static str {
    match format {
        Manifests::Yaml => "yaml",
        Manifests::Json => "json",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn file_names_sort_and_are_known_again() {
        let object = Object::try_from(
            json!({"apiVersion": "v1", "kind": "Role", "metadata": {"name": "a:b/../c_d"}}),
        )
        .unwrap();
        let name = file_name(4, 12, &object, Manifests::Yaml);
        assert_eq!(name, "05-role-a-b-..-c-d.yaml");
        assert!(is_file_name(&name) && is_file_name("123-configmap-x.json"));
        assert_eq!(
            file_name(4, 120, &object, Manifests::Json),
            "005-role-a-b-..-c-d.json"
        );
        for other in [
            "values.yaml",
            "1-role-a.yaml",
            "01-role.yaml",
            "2024-10-20-notes.txt",
            "01-Role-a.yaml",
        ] {
            assert!(!is_file_name(other), "{other}");
        }
    }
}
