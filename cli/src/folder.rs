//! A folder of results that appear all at once, or not at all.

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

use crate::{
    args::Manifests,
    interrupt::{self, Guard},
};

/// The mode of files that are no programs.
pub(crate) const FILE: u32 = 0o644;

/// What may be in the folder already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing but hidden files, none of which is replaced.
    Nothing,
    /// What others have put there. Nothing is replaced, and nothing of an earlier run may be left.
    Others,
    /// Anything. What is new takes its place.
    Anything,
}

/// Files on their way into a folder. They wait in a hidden folder inside it, where moving them is but a change of name,
/// and are gone if [`Staged::publish`] is never reached.
#[derive(Debug)]
pub(crate) struct Staged {
    folder: PathBuf,
    before: Before,
    /// Holds what is new and, while it is replaced, what is old.
    waiting: PathBuf,
    /// How many files wait.
    files: AtomicUsize,
    // Dropped in this order.
    _waiting: Guard,
    /// The folder and those that it is in, as far as they are ours to remove if nothing comes of it.
    made: Made,
}

impl Staged {
    pub(crate) fn new(folder: &Path, before: Before) -> anyhow::Result<Self> {
        let folder: PathBuf = folder.components().collect(); // without what cannot be created: a dot at the end
        let failed = || format!("failed to create the folder {}", folder.display());
        let made = Made::new(&folder).with_context(failed)?;
        if before == Before::Nothing && !visible(&folder)?.is_empty() {
            anyhow::bail!(
                "the folder {} is not empty; choose another one, or give --force",
                folder.display()
            );
        }
        let (waiting, guard) = waiting(&folder)?;
        let failed = || format!("failed to create a folder in {}", waiting.display());
        for side in [NEW, OLD] {
            fs::create_dir(waiting.join(side)).with_context(failed)?;
        }
        Ok(Self {
            folder,
            before,
            waiting,
            files: AtomicUsize::new(0),
            _waiting: guard,
            made,
        })
    }

    /// Adds a file under a normalized relative path, in the folders that it needs.
    pub(crate) fn add(&self, path: &str, mode: u32, reader: &mut impl Read) -> anyhow::Result<()> {
        self.add_with(path, mode, |file| io::copy(reader, file).map(drop))
    }

    /// The same for what writes itself.
    pub(crate) fn add_with(
        &self,
        path: &str,
        mode: u32,
        write: impl FnOnce(&mut fs::File) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let at = self.waiting.join(NEW).join(path);
        let create = || {
            if let Some(parent) = at.parent().filter(|_| path.contains('/')) {
                fs::create_dir_all(parent)?;
            }
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(mode).open(&at)
        };
        let place = || self.folder.join(path).display().to_string();
        let mut file = create().with_context(|| {
            let hint = if at.exists() {
                "; there is one whose name differs only in capital letters, which this file system does not tell apart"
            } else {
                ""
            };
            format!("failed to create {}{hint}", place())
        })?;
        write(&mut file).with_context(|| format!("failed to write {}", place()))?;
        self.files.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Lets everything appear, in the place of what has the same names, and files of an earlier run, told by `is_old`,
    /// disappear. If that fails, everything is as it was.
    pub(crate) fn publish(self, is_old: impl Fn(&str) -> bool) -> anyhow::Result<usize> {
        let new = listed(&self.waiting.join(NEW))?;
        let old: Vec<OsString> = visible(&self.folder)?
            .into_iter()
            .filter(|name| !new.contains(name) && name.to_str().is_some_and(&is_old))
            .collect();
        interrupt::uninterrupted(|| self.exchange(&old, &new))?;
        self.made.keep();
        Ok(self.files.into_inner())
    }

    fn exchange(&self, old: &[OsString], new: &[OsString]) -> anyhow::Result<()> {
        let mut moves = Moves::default();
        for name in old.iter().chain(new) {
            let place = self.folder.join(name);
            let failed = || format!("failed to replace {}", place.display());
            let found = match fs::symlink_metadata(&place) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(failed),
            };
            self.may_replace(name, &place, &found)?;
            moves
                .rename(&place, &self.waiting.join(OLD).join(name))
                .with_context(failed)?;
        }
        for name in new {
            let place = self.folder.join(name);
            moves
                .rename(&self.waiting.join(NEW).join(name), &place)
                .with_context(|| format!("failed to write {}", place.display()))?;
        }
        moves.0.clear();
        Ok(())
    }

    /// Says what of that which is there already has to stay.
    fn may_replace(&self, name: &OsStr, place: &Path, found: &fs::Metadata) -> anyhow::Result<()> {
        let shown = place.display();
        // Nothing brings back commits that were nowhere else.
        if name.eq_ignore_ascii_case(".git") {
            anyhow::bail!(
                "{shown} belongs to a git repository and is never replaced; choose another folder, or leave it out by --only"
            );
        }
        if self.before != Before::Anything {
            anyhow::bail!("{shown} exists already; choose another folder, or give --force");
        }
        let next = fs::symlink_metadata(self.waiting.join(NEW).join(name));
        if next.is_ok_and(|next| next.is_dir() != found.is_dir()) {
            if found.is_symlink() {
                anyhow::bail!(
                    "{shown} is in the way: it is a symbolic link, which a folder cannot replace; remove it"
                );
            }
            anyhow::bail!(
                "{shown} is in the way: of a file and a folder one cannot replace the other; remove it"
            );
        }
        Ok(())
    }
}

const NEW: &str = "new";
const OLD: &str = "old";

/// A folder of our own inside another one. An earlier run that was killed may have left its own behind, and in a
/// container every run has the same number.
fn waiting(folder: &Path) -> anyhow::Result<(PathBuf, Guard)> {
    let mut attempt = 0;
    loop {
        let number = std::process::id();
        let path = folder.join(match attempt {
            0 => format!(".rukpak-{number}"),
            more => format!(".rukpak-{number}-{more}"),
        });
        match Guard::folder(&path) {
            Ok(guard) => return Ok((path, guard)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                attempt += 1;
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("failed to create the folder {}", path.display()));
            }
        }
    }
}

/// Names that are tried for a folder.
const ATTEMPTS: u32 = 1000;

/// Folders that were created, and go again, the innermost first, unless they are kept.
#[derive(Debug)]
struct Made(Vec<Guard>);

impl Made {
    /// Creates a folder and those that it is in, as far as they are missing.
    fn new(folder: &Path) -> io::Result<Self> {
        let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
        let mut made = Self(Vec::new());
        for path in missing.into_iter().rev() {
            match Guard::empty_folder(path) {
                Ok(guard) => made.0.push(guard),
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(made)
    }

    fn keep(mut self) {
        self.0.drain(..).for_each(Guard::keep);
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        while let Some(guard) = self.0.pop() {
            drop(guard);
        }
    }
}

/// Changes of names that are taken back unless they are forgotten.
#[derive(Debug, Default)]
struct Moves(Vec<(PathBuf, PathBuf)>);

impl Moves {
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        self.0.push((from.to_owned(), to.to_owned()));
        Ok(())
    }
}

impl Drop for Moves {
    fn drop(&mut self) {
        while let Some((from, to)) = self.0.pop() {
            let _ = fs::rename(to, from); // the first failure is the one that is told
        }
    }
}

/// What a listing shows: hidden files (`.git`, `.gitkeep`) are nobody's results.
fn visible(folder: &Path) -> anyhow::Result<Vec<OsString>> {
    let mut names = listed(folder)?;
    names.retain(|name| !name.as_encoded_bytes().starts_with(b"."));
    Ok(names)
}

fn listed(folder: &Path) -> anyhow::Result<Vec<OsString>> {
    let failed = || format!("failed to list the folder {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(failed)? {
        names.push(entry.with_context(failed)?.file_name());
    }
    names.sort();
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
        let metadata = json!({"name": "a:b/../c_d"});
        let role = json!({"apiVersion": "v1", "kind": "Role", "metadata": metadata});
        let role = Object::try_from(role).unwrap();
        ::tests::assert_rows! {
            file_name(4, 12, &role, Manifests::Yaml) => "05-role-a-b-..-c-d.yaml";
            file_name(4, 120, &role, Manifests::Json) => "005-role-a-b-..-c-d.json";
            is_file_name("05-role-a-b-..-c-d.yaml") => true;
            is_file_name("123-configmap-x.json") => true;
        }
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
