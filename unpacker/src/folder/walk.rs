//! Listing a folder and what is below it.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::Read,
    mem,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use manifests::content::{self, Assessment, Gate, Irregular, Kind};

use super::{Bounds, Found, Links, Survey, failed, open};
use crate::{Error, Options, Result, select::Select};

/// Folders in a container's root in which not all is the image's.
const RUNTIME_FOLDERS: [&str; 5] = ["bin", "dev", "etc", "proc", "sys"];
/// Files in a container's root that name the machine.
const RUNTIME_FILES: [&str; 2] = ["product_name", "product_uuid"];

/// Lists all that is selected. Folders wait on a list of their own, so depth costs no stack.
pub(super) fn walk(root: &Path, options: &Options, bounds: Bounds, links: Links) -> Result<Survey> {
    let device = match bounds {
        Bounds::Everything => None,
        Bounds::Container => Some(fs::metadata(root).map_err(|error| failed("", error))?.dev()),
    };
    let mut walk = Walk {
        root,
        select: Select::new(options)?,
        device,
        files: Gate::new(options.limits),
        left: options.limits.entries,
        limit: options.limits.entries,
        unselected: 0,
        file_limit: options.limits.file,
        links,
        followed: Vec::new(),
    };
    let mut waiting = vec![String::new()];
    while let Some(folder) = waiting.pop() {
        let mut below = walk.folder(&folder)?;
        below.reverse();
        waiting.append(&mut below);
    }
    walk.follow()?;
    Ok(Survey {
        root: root.to_owned(),
        files: walk.files.finish(),
        unselected: walk.unselected,
    })
}

struct Walk<'a> {
    root: &'a Path,
    select: Select,
    /// The only file system that is entered.
    device: Option<u64>,
    files: Gate<Found>,
    /// Entries that may still be listed. Listing counts, not adding: a folder of millions is refused before its
    /// names fill the memory.
    left: usize,
    limit: usize,
    unselected: usize,
    /// The bytes of one file that may be read.
    file_limit: u64,
    links: Links,
    /// Symbolic links to regular files, which are followed if the bundle needs them.
    followed: Vec<(String, Found)>,
}

impl Walk<'_> {
    /// Notes the files of one folder and returns the folders in it that are to be listed.
    fn folder(&mut self, folder: &str) -> Result<Vec<String>> {
        let mut below = Vec::new();
        for (name, kind) in self.list(folder)? {
            let Some(path) = name.to_str().map(|name| join(folder, name)) else {
                let path = join(folder, &name.to_string_lossy());
                if self.select.takes(&path) {
                    return Err(Error::Name { path });
                }
                self.unselected += 1;
                continue;
            };
            // A link in the place of a directory hides what is selected in it.
            let is_wanted =
                self.select.takes(&path) || !kind.is_file() && self.select.enters(&path);
            if !is_wanted || self.is_of_runtime(&path, kind)? {
                self.unselected += 1;
            } else if kind.is_dir() {
                self.files.skip(&path)?;
                below.push(path);
            } else if kind.is_file() {
                let found = Found::new(&self.look(&path)?);
                self.files.note(&path, found.size, found)?;
            } else if kind.is_symlink() {
                self.link(&path)?;
            } else {
                self.files.record(&path, Irregular::new(Kind::Special))?;
            }
        }
        Ok(below)
    }

    fn link(&mut self, path: &str) -> Result<()> {
        let target = fs::read_link(self.root.join(path)).map_err(|error| failed(path, error))?;
        let text = target.to_string_lossy();
        let link = Irregular::link(Kind::Symlink, &text);
        self.files.record(path, link)?;
        if self.links == Links::Follow
            && let Some(target) = target.to_str().and_then(|target| resolve(path, target))
            && let Some(mut found) = self.regular(&target)
        {
            found.target = Some(target);
            self.followed.push((path.to_owned(), found));
        }
        Ok(())
    }

    /// Returns a regular file, unless a link leads to it. The reader checks that again.
    fn regular(&self, path: &str) -> Option<Found> {
        for (at, _) in path.match_indices('/') {
            let directory = fs::symlink_metadata(self.root.join(path.get(..at)?)).ok()?;
            directory.is_dir().then_some(())?;
        }
        let file = fs::symlink_metadata(self.root.join(path)).ok()?;
        file.is_file().then(|| Found::new(&file))
    }

    /// Adds the files behind links that the bundle would be incomplete without.
    fn follow(&mut self) -> Result<()> {
        // The annotations that name the bundle's directories may be behind a link themselves.
        for _ in 0..2 {
            if self.followed.is_empty() {
                return Ok(());
            }
            let (root, limit) = (self.root, self.file_limit);
            let found = Assessment::new(self.files.paths(), |path, found| {
                let mut bytes = Vec::new();
                let file = open(root, path, found).ok()?;
                file.take(limit).read_to_end(&mut bytes).ok()?;
                Some(bytes)
            });
            let needed: BTreeSet<String> = found
                .rejected
                .into_iter()
                .map(|entry| entry.path.to_owned())
                .collect();
            for (path, found) in mem::take(&mut self.followed) {
                if needed.contains(&path) {
                    self.files.follow(&path, found.size, found)?;
                } else {
                    self.followed.push((path, found));
                }
            }
        }
        Ok(())
    }

    /// The names in a folder, ordered, so that the same folder always fails at the same file.
    fn list(&mut self, folder: &str) -> Result<Vec<(OsString, fs::FileType)>> {
        let failed = |source| failed(folder, source);
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(folder)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            self.left = self
                .left
                .checked_sub(1)
                .ok_or(content::Error::TooManyEntries { limit: self.limit })?;
            names.push((entry.file_name(), entry.file_type().map_err(failed)?));
        }
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(names)
    }

    /// Whether the runtime put this here. Only of folders does the device tell: on an overlay, a file may bear that
    /// of the layer it is in.
    fn is_of_runtime(&self, path: &str, kind: fs::FileType) -> Result<bool> {
        let Some(device) = self.device else {
            return Ok(false);
        };
        if kind.is_dir() {
            Ok(RUNTIME_FOLDERS.contains(&path) || self.look(path)?.dev() != device)
        } else {
            Ok(RUNTIME_FILES.contains(&path))
        }
    }

    fn look(&self, path: &str) -> Result<fs::Metadata> {
        fs::symlink_metadata(self.root.join(path)).map_err(|error| failed(path, error))
    }
}

impl Found {
    fn new(file: &fs::Metadata) -> Self {
        Self {
            target: None,
            mode: file.permissions().mode(),
            size: file.len(),
            device: file.dev(),
            inode: file.ino(),
        }
    }
}

/// Returns the path of a link's target relative to the root; `None` if the target is outside of the root, is absolute,
/// or has a `..` after a name, whose meaning depends on further links.
fn resolve(link: &str, target: &str) -> Option<String> {
    if target.starts_with('/') || target.ends_with('/') {
        return None;
    }
    let (directory, _) = link.rsplit_once('/').unwrap_or_default();
    let mut parts: Vec<&str> = directory
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let mut has_name = false;
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if has_name => return None,
            ".." => {
                parts.pop()?;
            }
            name => {
                has_name = true;
                parts.push(name);
            }
        }
    }
    has_name.then(|| parts.join("/"))
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_resolved_only_within_the_root() {
        assert_each!(|link, target, expected| resolve(link, target).as_deref() => expected;
            "manifests/a", "b" => Some("manifests/b");
            "manifests/a", "./b" => Some("manifests/b");
            "manifests/a", "../b/c" => Some("b/c");
            "manifests/x/a", "../../b" => Some("b");
            "a", "b" => Some("b");
            "a", "../b" => None;
        );
        for target in "../../b ../manifests/../b b/ /etc/passwd .. . ".split(' ') {
            assert_eq!(resolve("manifests/a", target), None, "{target}");
        }
    }
}
