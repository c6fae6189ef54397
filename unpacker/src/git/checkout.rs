//! Traversal from a commit to the files of one of its directories.

use std::collections::HashSet;

use manifests::content::{self, Irregular, Kind as IrregularKind};

use super::{
    error::{Problem, Result},
    object_id::{Kind, ObjectId},
    pack::Pack,
    tree::{self, EntryKind},
};
use crate::{Options, Tree, http_client::printable, select::Select, tree::Builder};

/// Maximum number of names in a message.
const MAX_SHOWN: usize = 10;

/// The origin of an error: the repository or its content.
pub(super) enum FaultOrigin {
    Repository(Problem),
    Content(crate::Error),
}

impl From<Problem> for FaultOrigin {
    fn from(problem: Problem) -> Self {
        Self::Repository(problem)
    }
}

impl From<crate::Error> for FaultOrigin {
    fn from(error: crate::Error) -> Self {
        Self::Content(error)
    }
}

impl From<content::Error> for FaultOrigin {
    fn from(error: content::Error) -> Self {
        Self::Content(error.into())
    }
}

/// Returns the commit that an object is, or that a tag points to.
pub(super) fn commit(pack: &mut Pack, start: ObjectId) -> Result<ObjectId> {
    let mut id = start;
    for _ in 0..8 {
        match pack.kind(id) {
            Some(Kind::Commit) => return Ok(id),
            Some(Kind::Tag) => {
                let tag = pack.read(id, Kind::Tag)?;
                id = field(&tag, b"object ").ok_or(Problem::Damaged {
                    problem: "a tag has no target",
                })?;
            }
            Some(kind) => {
                return Err(Problem::TagOfOther {
                    name: start.to_string(),
                    kind: kind.name(),
                });
            }
            None => return Err(Problem::Missing { id: id.to_string() }),
        }
    }
    Err(Problem::Damaged {
        problem: "tags are nested too deeply",
    })
}

/// Returns the id on the first line of a commit or tag, which must start with `word`.
fn field(object: &[u8], word: &[u8]) -> Option<ObjectId> {
    let line = object.split(|byte| *byte == b'\n').next()?;
    ObjectId::from_hex(line.strip_prefix(word)?)
}

/// Reads the files of a directory of a commit.
pub(super) fn read(
    pack: &mut Pack,
    commit: ObjectId,
    directory: Option<&str>,
    options: &Options,
) -> Result<(Tree, usize), FaultOrigin> {
    let bytes = pack.read(commit, Kind::Commit)?;
    let root = field(&bytes, b"tree ").ok_or(Problem::Damaged {
        problem: "a commit has no tree",
    })?;
    let dir = match directory {
        Some(directory) => find(pack, commit, root, directory)?,
        None => root,
    };
    let mut walk = Walk {
        pack,
        select: Select::new(options).map_err(FaultOrigin::Content)?,
        limit: options.limits.entries,
        files: Builder::new(options.limits, options.storage()),
        listed: 0,
        selected: Vec::new(),
        unselected: 0,
    };
    let mut waiting = vec![(String::new(), dir)];
    while let Some((path, id)) = waiting.pop() {
        let mut subdirs = walk.dir(&path, id)?;
        subdirs.reverse();
        waiting.append(&mut subdirs);
    }
    walk.add(options.limits.file)
}

/// Returns the directory at a path. Symbolic links are not followed.
fn find(pack: &mut Pack, commit: ObjectId, root: ObjectId, directory: &str) -> Result<ObjectId> {
    let mut id = root;
    let mut path = String::new();
    for part in directory.split('/') {
        let bytes = pack.read(id, Kind::Tree)?;
        let entries = tree::entries(&bytes)?;
        let found = entries.iter().find(|entry| entry.name == part.as_bytes());
        path = join(&path, part);
        let fail = |problem| {
            let dirs = entries
                .iter()
                .filter(|entry| entry.sort == EntryKind::Directory);
            let others = dirs.take(MAX_SHOWN).map(|entry| printable_name(entry.name));
            Err(Problem::NoDirectory {
                directory: directory.to_owned(),
                commit: commit.to_string(),
                problem,
                others: others.collect(),
            })
        };
        id = match found.map(|entry| (entry.sort, entry.id)) {
            Some((EntryKind::Directory, id)) => id,
            Some((EntryKind::File(_), _)) => return fail("the path is a file"),
            Some((EntryKind::Link, _)) => {
                return fail("the path is a symbolic link, which is not followed");
            }
            Some((EntryKind::Submodule, _)) => return Err(Problem::Submodule { path }),
            None => return fail("the path does not exist"),
        };
    }
    Ok(id)
}

struct Walk<'a> {
    pack: &'a mut Pack,
    select: Select,
    limit: usize,
    files: Builder,
    listed: usize,
    selected: Vec<(String, u32, ObjectId)>,
    unselected: usize,
}

impl Walk<'_> {
    /// Lists one directory: records its selected files, and returns the subdirectories to visit.
    fn dir(&mut self, dir: &str, id: ObjectId) -> Result<Vec<(String, ObjectId)>, FaultOrigin> {
        let bytes = self.pack.read(id, Kind::Tree)?;
        let mut subdirs = Vec::new();
        for entry in tree::entries(&bytes)? {
            // The listed entries are counted, not the added ones. A directory that contains one directory ten times,
            // ten levels deep, is small but lists many entries.
            self.listed += 1;
            if self.listed > self.limit {
                return Err(content::Error::TooManyEntries { limit: self.limit }.into());
            }
            if let Some(problem) = tree::problem_of(entry.name) {
                let path = join(dir, &printable_name(entry.name));
                return Err(Problem::Name { path, problem }.into());
            }
            let Ok(name) = std::str::from_utf8(entry.name) else {
                let path = join(dir, &String::from_utf8_lossy(entry.name));
                if self.select.matches(&path) {
                    return Err(crate::Error::Name { path }.into());
                }
                self.unselected += 1;
                continue;
            };
            let path = join(dir, name);
            // A link in place of a directory hides selected files below it.
            let may_hold_more = matches!(entry.sort, EntryKind::Directory | EntryKind::Link);
            if !(self.select.matches(&path) || may_hold_more && self.select.descends_into(&path)) {
                self.unselected += 1;
                continue;
            }
            match entry.sort {
                EntryKind::Directory => {
                    // Checks the depth and the other limits before the descent.
                    self.files.skip(&path)?;
                    subdirs.push((path, entry.id));
                }
                EntryKind::File(mode) => self.selected.push((path, mode, entry.id)),
                EntryKind::Link => {
                    let link = Irregular::new(IrregularKind::Symlink);
                    self.files.record(&path, link)?;
                }
                EntryKind::Submodule => return Err(Problem::Submodule { path }.into()),
            }
        }
        Ok(subdirs)
    }

    /// Reads the recorded files.
    fn add(mut self, limit: u64) -> Result<(Tree, usize), FaultOrigin> {
        let ids: HashSet<ObjectId> = self.selected.iter().map(|(_, _, id)| *id).collect();
        self.pack.resolve(&[Kind::Blob], Some(&ids))?;
        for (path, mode, id) in std::mem::take(&mut self.selected) {
            match self.pack.read(id, Kind::Blob) {
                Ok(bytes) => self.files.add(&path, mode, &mut bytes.as_slice())?,
                // Only objects above the file size limit have no name or are not read.
                Err(Problem::Missing { .. }) if self.pack.has_oversized() => {
                    return Err(content::Error::FileTooLarge { path, limit }.into());
                }
                Err(Problem::TooLarge { resource, .. }) if resource == super::pack::ONE_OBJECT => {
                    return Err(content::Error::FileTooLarge { path, limit }.into());
                }
                Err(problem) => return Err(problem.into()),
            }
        }
        Ok((self.files.finish(), self.unselected))
    }
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() {
        name.to_owned()
    } else {
        format!("{dir}/{name}")
    }
}

fn printable_name(name: &[u8]) -> String {
    printable(&String::from_utf8_lossy(name), 200)
}
