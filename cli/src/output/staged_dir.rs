//! Output directory whose files appear all at once, or not at all.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use anyhow::Context;
use manifests::object::Object;

use super::interrupt::{self, CleanupGuard};
use crate::args::ManifestFormat;

/// Mode of files that are not executable.
pub(crate) const FILE: u32 = 0o644;

/// Policy for the existing entries of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExistingPolicy {
    /// Only hidden files may exist, and none of them is replaced.
    Empty,
    /// Unrelated files may exist. No file is replaced, and no file of an earlier run may remain.
    Unrelated,
    /// Any files may exist; new ones replace them.
    Anything,
}

/// Files that are written to a hidden staging directory inside the output directory, from which they are renamed. They are
/// deleted if [`StagedDir::publish`] is not called.
#[derive(Debug)]
pub(crate) struct StagedDir {
    directory: PathBuf,
    before: ExistingPolicy,
    /// Directory with the new files and, during the exchange, the replaced ones.
    staging: PathBuf,
    /// Number of staged files.
    files: AtomicUsize,
    // The fields are dropped in this order.
    _staging: CleanupGuard,
    /// Created directories, which are removed unless the files are published.
    created: CreatedDirs,
}

impl StagedDir {
    pub(crate) fn new(directory: &Path, before: ExistingPolicy) -> anyhow::Result<Self> {
        let directory: PathBuf = directory.components().collect(); // removes a trailing dot, which cannot be created
        let failed = || format!("failed to create directory {}", directory.display());
        let created = CreatedDirs::new(&directory).with_context(failed)?;
        if before == ExistingPolicy::Empty && !list_visible_names(&directory)?.is_empty() {
            anyhow::bail!(
                "directory {} is not empty; choose another one, or use --force",
                directory.display()
            );
        }
        let failed = || format!("failed to create a directory in {}", directory.display());
        let (staging, guard) =
            interrupt::create_unique(&directory, OsStr::new(".rukpak-"), CleanupGuard::directory)
                .with_context(failed)?;
        for side in [NEW, OLD] {
            fs::create_dir(staging.join(side)).with_context(failed)?;
        }
        Ok(Self {
            directory,
            before,
            staging,
            files: AtomicUsize::new(0),
            _staging: guard,
            created,
        })
    }

    /// Adds a file under a normalized relative path, and creates its parent directories.
    pub(crate) fn add(&self, path: &str, mode: u32, reader: &mut impl Read) -> anyhow::Result<()> {
        self.add_with(path, mode, |file| io::copy(reader, file).map(drop))
    }

    /// Adds a file that `write` writes.
    pub(crate) fn add_with(
        &self,
        path: &str,
        mode: u32,
        write: impl FnOnce(&mut fs::File) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let at = self.staging.join(NEW).join(path);
        let create = || {
            if let Some(parent) = at.parent().filter(|_| path.contains('/')) {
                fs::create_dir_all(parent)?;
            }
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(mode).open(&at)
        };
        let target = || self.directory.join(path).display().to_string();
        let mut file = create().with_context(|| {
            let hint = if at.exists() {
                "; a file whose name differs only in case exists, and this file system is case-insensitive"
            } else {
                ""
            };
            format!("failed to create {}{hint}", target())
        })?;
        write(&mut file).with_context(|| format!("failed to write {}", target()))?;
        self.files.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Publishes the staged files. They replace files of the same names, and files of an earlier run, for which `is_old`
    /// returns true, are deleted. If a step fails, the earlier state is restored.
    pub(crate) fn publish(self, is_old: impl Fn(&str) -> bool) -> anyhow::Result<usize> {
        let new = list_names(&self.staging.join(NEW))?;
        let old: Vec<OsString> = list_visible_names(&self.directory)?
            .into_iter()
            .filter(|name| !new.contains(name) && name.to_str().is_some_and(&is_old))
            .collect();
        interrupt::without_interrupt(|| self.exchange(&old, &new))?;
        self.created.commit();
        Ok(self.files.into_inner())
    }

    fn exchange(&self, old: &[OsString], new: &[OsString]) -> anyhow::Result<()> {
        let mut renames = Renames::default();
        for name in old.iter().chain(new) {
            let place = self.directory.join(name);
            let failed = || format!("failed to replace {}", place.display());
            let metadata = match fs::symlink_metadata(&place) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(failed),
            };
            self.check_replaceable(name, &place, &metadata)?;
            renames
                .rename(&place, &self.staging.join(OLD).join(name))
                .with_context(failed)?;
        }
        for name in new {
            let place = self.directory.join(name);
            renames
                .rename(&self.staging.join(NEW).join(name), &place)
                .with_context(|| format!("failed to write {}", place.display()))?;
        }
        renames.0.clear();
        Ok(())
    }

    /// Returns an error if an existing file must not be replaced.
    fn check_replaceable(
        &self,
        name: &OsStr,
        place: &Path,
        metadata: &fs::Metadata,
    ) -> anyhow::Result<()> {
        let display = place.display();
        // Commits of a local repository cannot be restored.
        if name.eq_ignore_ascii_case(".git") {
            anyhow::bail!(
                "{display} belongs to a git repository and is never replaced; choose another directory, or exclude it with \
                 --only"
            );
        }
        if self.before != ExistingPolicy::Anything {
            anyhow::bail!("{display} already exists; choose another directory, or use --force");
        }
        let next = fs::symlink_metadata(self.staging.join(NEW).join(name));
        if next.is_ok_and(|next| next.is_dir() != metadata.is_dir()) {
            if metadata.is_symlink() {
                anyhow::bail!(
                    "{display} is a symbolic link, which a directory cannot replace; remove it"
                );
            }
            anyhow::bail!(
                "{display} cannot be replaced: a file and a directory cannot replace each other; remove it"
            );
        }
        Ok(())
    }
}

const NEW: &str = "new";
const OLD: &str = "old";

/// Created directories. They are removed again, the innermost first, unless they are committed.
#[derive(Debug)]
struct CreatedDirs(Vec<CleanupGuard>);

impl CreatedDirs {
    /// Creates a directory and its missing parents.
    fn new(directory: &Path) -> io::Result<Self> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
        let mut created = Self(Vec::new());
        for path in missing.into_iter().rev() {
            match CleanupGuard::empty_directory(path) {
                Ok(guard) => created.0.push(guard),
                // Another process has created the directory.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(created)
    }

    fn commit(mut self) {
        self.0.drain(..).for_each(CleanupGuard::commit);
    }
}

impl Drop for CreatedDirs {
    fn drop(&mut self) {
        while let Some(guard) = self.0.pop() {
            drop(guard);
        }
    }
}

/// Renames that are reverted when the value is dropped, unless they are cleared.
#[derive(Debug, Default)]
struct Renames(Vec<(PathBuf, PathBuf)>);

impl Renames {
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        self.0.push((from.to_owned(), to.to_owned()));
        Ok(())
    }
}

impl Drop for Renames {
    fn drop(&mut self) {
        while let Some((from, to)) = self.0.pop() {
            let _ = fs::rename(to, from); // only the first failure is reported
        }
    }
}

/// Returns the visible names in a directory. Hidden files (`.git`, `.gitkeep`) are not results of a run.
fn list_visible_names(directory: &Path) -> anyhow::Result<Vec<OsString>> {
    let mut names = list_names(directory)?;
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    Ok(names)
}

fn list_names(directory: &Path) -> anyhow::Result<Vec<OsString>> {
    let failed = || format!("failed to list directory {}", directory.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(failed)? {
        names.push(entry.with_context(failed)?.file_name());
    }
    names.sort();
    Ok(names)
}

/// Returns a file name that sorts in apply order: `03-clusterrole-admin.yaml`. Names of roles may contain characters that
/// are unsuitable for file names; the number keeps the names distinct.
pub(crate) fn file_name(
    position: usize,
    of: usize,
    object: &Object,
    format: ManifestFormat,
) -> String {
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
        extension(format)
    )
}

/// Reports whether [`file_name`] may have returned the name.
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
    let extension = [ManifestFormat::Yaml, ManifestFormat::Json]
        .iter()
        .any(|format| name.ends_with(&format!(".{}", extension(*format))));
    number && kind && extension && parts.next().is_some()
}

pub(crate) fn extension(format: ManifestFormat) -> &'static str {
    match format {
        ManifestFormat::Yaml => "yaml",
        ManifestFormat::Json => "json",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn file_names_sort_and_are_recognized() {
        let role = json!({"apiVersion": "v1", "kind": "Role", "metadata": {"name": "a:b/../c_d"}});
        let role = Object::try_from(role).unwrap();
        ::tests::assert_rows! {
            file_name(4, 12, &role, ManifestFormat::Yaml) => "05-role-a-b-..-c-d.yaml";
            file_name(4, 120, &role, ManifestFormat::Json) => "005-role-a-b-..-c-d.json";
            is_file_name("05-role-a-b-..-c-d.yaml") => true;
            is_file_name("123-configmap-x.json") => true;
        }
        let others = "values.yaml 1-role-a.yaml 01-role.yaml 2024-10-20-notes.txt 01-Role-a.yaml";
        for other in others.split(' ') {
            assert!(!is_file_name(other), "{other}");
        }
    }
}
