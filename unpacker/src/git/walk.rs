//! From a commit to the files of one folder in it.

use std::collections::HashSet;

use manifests::content::{self, Irregular, Kind as EntryKind};

use super::{
    error::{Problem, Result},
    id::{Id, Kind},
    pack::Pack,
    tree::{self, Sort},
};
use crate::{Options, Tree, select::Select, tree::Builder, web::printable};

/// How many names a message lists.
const SHOWN: usize = 10;

/// Why content could not be read: the repository is to blame, or the content itself.
pub(super) enum Blame {
    Repository(Problem),
    Content(crate::Error),
}

impl From<Problem> for Blame {
    fn from(problem: Problem) -> Self {
        Self::Repository(problem)
    }
}

impl From<crate::Error> for Blame {
    fn from(error: crate::Error) -> Self {
        Self::Content(error)
    }
}

impl From<content::Error> for Blame {
    fn from(error: content::Error) -> Self {
        Self::Content(error.into())
    }
}

/// The commit that an object leads to: itself, or what a tag points to.
pub(super) fn commit(pack: &mut Pack, start: Id) -> Result<Id> {
    let mut id = start;
    for _ in 0..8 {
        match pack.kind(id) {
            Some(Kind::Commit) => return Ok(id),
            Some(Kind::Tag) => {
                let tag = pack.read(id, Kind::Tag)?;
                id = field(&tag, b"object ").ok_or(Problem::Damaged {
                    problem: "a tag points nowhere",
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
        problem: "tags point to tags without end",
    })
}

/// The id on the first line of a commit or tag, which has to begin with this word.
fn field(object: &[u8], word: &[u8]) -> Option<Id> {
    let line = object.split(|byte| *byte == b'\n').next()?;
    Id::from_hex(line.strip_prefix(word)?)
}

/// Reads the files of a folder of a commit.
pub(super) fn read(
    pack: &mut Pack,
    commit: Id,
    directory: Option<&str>,
    options: &Options,
) -> Result<(Tree, usize), Blame> {
    let bytes = pack.read(commit, Kind::Commit)?;
    let root = field(&bytes, b"tree ").ok_or(Problem::Damaged {
        problem: "a commit has no folder",
    })?;
    let folder = match directory {
        Some(directory) => find(pack, commit, root, directory)?,
        None => root,
    };
    let mut walk = Walk {
        pack,
        select: Select::new(options).map_err(Blame::Content)?,
        limit: options.limits.entries,
        files: Builder::new(options.limits, options.room()),
        listed: 0,
        wanted: Vec::new(),
        unselected: 0,
    };
    let mut waiting = vec![(String::new(), folder)];
    while let Some((path, id)) = waiting.pop() {
        let mut below = walk.folder(&path, id)?;
        below.reverse();
        waiting.append(&mut below);
    }
    walk.add(options.limits.file)
}

/// The folder at a path, link by link of the chain. Links are not followed.
fn find(pack: &mut Pack, commit: Id, root: Id, directory: &str) -> Result<Id> {
    let mut id = root;
    let mut path = String::new();
    for part in directory.split('/') {
        let bytes = pack.read(id, Kind::Tree)?;
        let entries = tree::entries(&bytes)?;
        let found = entries.iter().find(|entry| entry.name == part.as_bytes());
        path = join(&path, part);
        let refuse = |problem| {
            let folders = entries.iter().filter(|entry| entry.sort == Sort::Folder);
            let others = folders.take(SHOWN).map(|entry| shown(entry.name));
            Err(Problem::NoDirectory {
                directory: directory.to_owned(),
                commit: commit.to_string(),
                problem,
                others: others.collect(),
            })
        };
        id = match found.map(|entry| (entry.sort, entry.id)) {
            Some((Sort::Folder, id)) => id,
            Some((Sort::File(_), _)) => return refuse("it is a file"),
            Some((Sort::Link, _)) => {
                return refuse("it is a symbolic link, and those are not followed");
            }
            Some((Sort::Submodule, _)) => return Err(Problem::Submodule { path }),
            None => return refuse("it does not exist"),
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
    wanted: Vec<(String, u32, Id)>,
    unselected: usize,
}

impl Walk<'_> {
    /// Lists one folder, notes its files, and gives the folders in it that are to be read.
    fn folder(&mut self, folder: &str, id: Id) -> Result<Vec<(String, Id)>, Blame> {
        let bytes = self.pack.read(id, Kind::Tree)?;
        let mut below = Vec::new();
        for entry in tree::entries(&bytes)? {
            // Listing counts, not adding: a folder that contains one folder ten times over, ten levels deep, is small.
            self.listed += 1;
            if self.listed > self.limit {
                return Err(content::Error::TooManyEntries { limit: self.limit }.into());
            }
            if let Some(problem) = tree::problem_of(entry.name) {
                let path = join(folder, &shown(entry.name));
                return Err(Problem::Name { path, problem }.into());
            }
            let Ok(name) = std::str::from_utf8(entry.name) else {
                let path = join(folder, &String::from_utf8_lossy(entry.name));
                if self.select.takes(&path) {
                    return Err(crate::Error::Name { path }.into());
                }
                self.unselected += 1;
                continue;
            };
            let path = join(folder, name);
            // A link in the place of a folder hides what is selected in it.
            let may_hold_more = matches!(entry.sort, Sort::Folder | Sort::Link);
            if !(self.select.takes(&path) || may_hold_more && self.select.enters(&path)) {
                self.unselected += 1;
                continue;
            }
            match entry.sort {
                Sort::Folder => {
                    // The depth is checked before the way down, and all else with it.
                    self.files.skip(&path)?;
                    below.push((path, entry.id));
                }
                Sort::File(mode) => self.wanted.push((path, mode, entry.id)),
                Sort::Link => {
                    let link = Irregular::new(EntryKind::Symlink);
                    self.files.record(&path, link)?;
                }
                Sort::Submodule => return Err(Problem::Submodule { path }.into()),
            }
        }
        Ok(below)
    }

    /// Reads what was noted.
    fn add(mut self, limit: u64) -> Result<(Tree, usize), Blame> {
        let ids: HashSet<Id> = self.wanted.iter().map(|(_, _, id)| *id).collect();
        self.pack.resolve(&[Kind::Blob], Some(&ids))?;
        for (path, mode, id) in std::mem::take(&mut self.wanted) {
            match self.pack.read(id, Kind::Blob) {
                Ok(bytes) => self.files.add(&path, mode, &mut bytes.as_slice())?,
                // Only what is larger than any file may be is left without a name, or not read.
                Err(Problem::Missing { .. }) if self.pack.has_oversized() => {
                    return Err(content::Error::FileTooLarge { path, limit }.into());
                }
                Err(Problem::TooLarge { what, .. }) if what == super::pack::ONE_OBJECT => {
                    return Err(content::Error::FileTooLarge { path, limit }.into());
                }
                Err(problem) => return Err(problem.into()),
            }
        }
        Ok((self.files.finish(), self.unselected))
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn shown(name: &[u8]) -> String {
    printable(&String::from_utf8_lossy(name), 200)
}
