//! Listing of a directory and its subdirectories.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    io::Read,
    mem,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use manifests::content::{self, Assessment, EntryLimiter, Irregular, Kind};

use super::{DirListing, Links, ListedFile, WalkScope, failed, open};
use crate::{Error, Options, Result, select::Select};

/// Directories in the root of a container with entries that are not from the image.
const RUNTIME_FOLDERS: [&str; 5] = ["bin", "dev", "etc", "proc", "sys"];
/// Files in the root of a container that identify the machine.
const RUNTIME_FILES: [&str; 2] = ["product_name", "product_uuid"];

/// Lists the selected files. Pending directories are stored in a list, so that depth needs no stack.
pub(super) fn walk(
    root: &Path,
    options: &Options,
    bounds: WalkScope,
    links: Links,
) -> Result<DirListing> {
    let device = match bounds {
        WalkScope::Unlimited => None,
        WalkScope::Container => Some(fs::metadata(root).map_err(|error| failed("", error))?.dev()),
    };
    let mut walk = Walk {
        root,
        select: Select::new(options)?,
        device,
        files: EntryLimiter::new(options.limits),
        remaining: options.limits.entries,
        limit: options.limits.entries,
        unselected: 0,
        file_limit: options.limits.file,
        links,
        followed: Vec::new(),
    };
    let mut waiting = vec![String::new()];
    while let Some(dir) = waiting.pop() {
        let mut subdirs = walk.list_dir(&dir)?;
        subdirs.reverse();
        waiting.append(&mut subdirs);
    }
    walk.follow()?;
    Ok(DirListing {
        root: root.to_owned(),
        files: walk.files.finish(),
        unselected: walk.unselected,
    })
}

struct Walk<'a> {
    root: &'a Path,
    select: Select,
    /// Device of the only file system to visit; `None` visits all.
    device: Option<u64>,
    files: EntryLimiter<ListedFile>,
    /// Number of entries that may still be listed. Listed entries are counted, not added ones, so that a directory
    /// with millions of files is rejected before their names fill the memory.
    remaining: usize,
    limit: usize,
    unselected: usize,
    /// Maximum size of a file to read, in bytes.
    file_limit: u64,
    links: Links,
    /// Symbolic links to regular files, which are followed if the bundle needs them.
    followed: Vec<(String, ListedFile)>,
}

impl Walk<'_> {
    /// Lists the files of one directory, and returns the subdirectories to visit.
    fn list_dir(&mut self, dir: &str) -> Result<Vec<String>> {
        let mut subdirs = Vec::new();
        for (name, kind) in self.list(dir)? {
            let Some(path) = name.to_str().map(|name| join(dir, name)) else {
                let path = join(dir, &name.to_string_lossy());
                if self.select.matches(&path) {
                    return Err(Error::Name { path });
                }
                self.unselected += 1;
                continue;
            };
            // A link in place of a directory hides selected files below it.
            let is_selected =
                self.select.matches(&path) || !kind.is_file() && self.select.descends_into(&path);
            if !is_selected || self.is_runtime_file(&path, kind)? {
                self.unselected += 1;
            } else if kind.is_dir() {
                self.files.skip(&path)?;
                subdirs.push(path);
            } else if kind.is_file() {
                let file = ListedFile::new(&self.metadata(&path)?);
                self.files.count_entry(&path, file.size, file)?;
            } else if kind.is_symlink() {
                self.link(&path)?;
            } else {
                self.files.record(&path, Irregular::new(Kind::Special))?;
            }
        }
        Ok(subdirs)
    }

    fn link(&mut self, path: &str) -> Result<()> {
        let target = fs::read_link(self.root.join(path)).map_err(|error| failed(path, error))?;
        let text = target.to_string_lossy();
        let link = Irregular::link(Kind::Symlink, &text);
        self.files.record(path, link)?;
        if self.links == Links::Follow
            && let Some(target) = target.to_str().and_then(|target| resolve(path, target))
            && let Some(mut file) = self.regular(&target)
        {
            file.target = Some(target);
            self.followed.push((path.to_owned(), file));
        }
        Ok(())
    }

    /// Returns a regular file unless a path component is a link. The reader repeats the check.
    fn regular(&self, path: &str) -> Option<ListedFile> {
        for (at, _) in path.match_indices('/') {
            let directory = fs::symlink_metadata(self.root.join(path.get(..at)?)).ok()?;
            directory.is_dir().then_some(())?;
        }
        let file = fs::symlink_metadata(self.root.join(path)).ok()?;
        file.is_file().then(|| ListedFile::new(&file))
    }

    /// Adds the files behind links that the bundle requires.
    fn follow(&mut self) -> Result<()> {
        // The annotations that name the directories of the bundle may be behind a link, too.
        for _ in 0..2 {
            if self.followed.is_empty() {
                return Ok(());
            }
            let (root, limit) = (self.root, self.file_limit);
            let assessment = Assessment::new(self.files.paths(), |path, file| {
                let mut bytes = Vec::new();
                let file = open(root, path, file).ok()?;
                file.take(limit).read_to_end(&mut bytes).ok()?;
                Some(bytes)
            });
            let needed: BTreeSet<String> = assessment
                .rejected
                .into_iter()
                .map(|entry| entry.path.to_owned())
                .collect();
            for (path, file) in mem::take(&mut self.followed) {
                if needed.contains(&path) {
                    self.files.follow(&path, file.size, file)?;
                } else {
                    self.followed.push((path, file));
                }
            }
        }
        Ok(())
    }

    /// Returns the sorted entries of a directory. Sorting makes the first error deterministic.
    fn list(&mut self, dir: &str) -> Result<Vec<(OsString, fs::FileType)>> {
        let failed = |source| failed(dir, source);
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(dir)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            self.remaining = self
                .remaining
                .checked_sub(1)
                .ok_or(content::Error::TooManyEntries { limit: self.limit })?;
            names.push((entry.file_name(), entry.file_type().map_err(failed)?));
        }
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(names)
    }

    /// Reports whether the container runtime added the entry. The device is reliable only for directories: on an
    /// overlay, a file may have the device of its layer.
    fn is_runtime_file(&self, path: &str, kind: fs::FileType) -> Result<bool> {
        let Some(device) = self.device else {
            return Ok(false);
        };
        if kind.is_dir() {
            Ok(RUNTIME_FOLDERS.contains(&path) || self.metadata(path)?.dev() != device)
        } else {
            Ok(RUNTIME_FILES.contains(&path))
        }
    }

    fn metadata(&self, path: &str) -> Result<fs::Metadata> {
        fs::symlink_metadata(self.root.join(path)).map_err(|error| failed(path, error))
    }
}

impl ListedFile {
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

/// Returns the path of a link target relative to the root. Returns `None` if the target is absolute or outside of the
/// root. Also returns `None` for a `..` after a name, because its meaning depends on further links.
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

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() {
        name.to_owned()
    } else {
        format!("{dir}/{name}")
    }
}
