//! Branches and tags, and which of them is meant.

use super::{
    error::{Problem, Result},
    id::Id,
};
use crate::{source::Revision, web::printable};

/// How many are read. Nobody lists more branches and tags of a repository with bundles.
const MOST: usize = 200_000;
/// How many a message lists.
const SHOWN: usize = 10;

/// A name of the server, and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ref {
    pub(super) name: String,
    pub(super) id: Id,
    /// The commit behind an annotated tag.
    pub(super) peeled: Option<Id>,
}

/// HEAD, branches and tags. What else a server has, as the heads of pull requests, is not kept.
#[derive(Debug, Default)]
pub(super) struct Refs(Vec<Ref>);

/// What to ask for, and the commit that it is or leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) want: Id,
    pub(super) commit: Id,
}

impl Ref {
    fn target(&self) -> Target {
        Target {
            want: self.id,
            commit: self.peeled.unwrap_or(self.id),
        }
    }
}

impl Refs {
    pub(super) fn add(&mut self, name: &[u8], id: Id, peeled: Option<Id>) -> Result<()> {
        let is_kept =
            name == b"HEAD" || name.starts_with(b"refs/heads/") || name.starts_with(b"refs/tags/");
        let Some(name) = std::str::from_utf8(name).ok().filter(|_| is_kept) else {
            return Ok(());
        };
        // The older protocol tells what a tag leads to in a line of its own, right behind the tag.
        if let Some(tag) = name.strip_suffix("^{}") {
            if let Some(last) = self.0.last_mut().filter(|last| last.name == tag) {
                last.peeled = Some(id);
            }
            return Ok(());
        }
        if self.0.len() >= MOST {
            return Err(Problem::TooLarge {
                what: "its branches and tags",
                limit: MOST as u64,
            });
        }
        self.0.push(Ref {
            name: name.to_owned(),
            id,
            peeled,
        });
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&Ref> {
        self.0.iter().find(|found| found.name == name)
    }

    /// What a revision means here; `None` for commits that no branch or tag stands for.
    pub(super) fn choose(&self, revision: &Revision) -> Result<Option<Target>> {
        let get = |prefix: &str, name: &str| self.get(&format!("{prefix}{name}")).map(Ref::target);
        let or = |found: Option<Target>, kind, name: &String| {
            found.map(Some).ok_or_else(|| Problem::NoReference {
                kind,
                name: printable(name, 200),
                others: Vec::new(),
            })
        };
        match revision {
            Revision::Head => match self.get("HEAD") {
                Some(head) => Ok(Some(head.target())),
                None => Err(Problem::NoHead { others: Vec::new() }),
            },
            Revision::Branch(name) => or(get("refs/heads/", name), "branch", name),
            Revision::Tag(name) => or(get("refs/tags/", name), "tag", name),
            Revision::Name(name) => match (get("refs/heads/", name), get("refs/tags/", name)) {
                (Some(_), Some(_)) => Err(Problem::Ambiguous {
                    name: printable(name, 200),
                }),
                (None, None) if is_short_hash(name) => Err(Problem::NotACommit {
                    text: printable(name, 100),
                }),
                (branch, tag) => or(branch.or(tag), "branch or tag", name),
            },
            Revision::Commit(text) => {
                let id = commit(text)?;
                let is_it = |found: &&Ref| found.target().commit == id;
                Ok(self.0.iter().find(is_it).map(Ref::target))
            }
        }
    }

    /// Everything that a branch or tag stands for, each once.
    pub(super) fn tips(&self) -> Vec<Id> {
        let mut tips: Vec<Id> = self.0.iter().map(|found| found.id).collect();
        tips.sort_unstable();
        tips.dedup();
        tips
    }

    /// The error with names of what does exist: those that resemble the missing one first.
    pub(super) fn explain(&self, problem: Problem) -> Problem {
        let short = |prefix: &str| {
            let names = self
                .0
                .iter()
                .filter_map(|found| found.name.strip_prefix(prefix));
            names.map(|name| printable(name, 100)).collect::<Vec<_>>()
        };
        match problem {
            Problem::NoReference {
                kind,
                name,
                others: _,
            } => {
                let mut others = match kind {
                    "branch" => short("refs/heads/"),
                    "tag" => short("refs/tags/"),
                    _ => [short("refs/heads/"), short("refs/tags/")].concat(),
                };
                others
                    .sort_by_key(|other| !(other.contains(&name) || name.contains(other.as_str())));
                others.truncate(SHOWN);
                Problem::NoReference { kind, name, others }
            }
            Problem::NoHead { .. } => {
                let mut others = short("refs/heads/");
                others.truncate(SHOWN);
                Problem::NoHead { others }
            }
            other => other,
        }
    }
}

/// What to ask a server for that lists only what is asked for.
pub(super) fn prefixes(revision: &Revision) -> Vec<String> {
    match revision {
        Revision::Head => vec!["HEAD".to_owned()],
        Revision::Branch(name) => vec![format!("refs/heads/{name}")],
        Revision::Tag(name) => vec![format!("refs/tags/{name}")],
        Revision::Name(name) => vec![format!("refs/heads/{name}"), format!("refs/tags/{name}")],
        Revision::Commit(_) => everything(),
    }
}

/// All branches and tags.
pub(super) fn everything() -> Vec<String> {
    vec!["refs/heads/".to_owned(), "refs/tags/".to_owned()]
}

/// Whether git would look for a commit whose hash begins like this. A server cannot be asked for one.
fn is_short_hash(name: &str) -> bool {
    (7..40).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_hexdigit())
        && name.bytes().any(|b| b.is_ascii_digit())
}

/// The hash of a commit.
pub(super) fn commit(text: &str) -> Result<Id> {
    if text.len() == 64 {
        return Err(Problem::Sha256);
    }
    Id::from_hex(text.as_bytes()).ok_or_else(|| Problem::NotACommit {
        text: printable(text, 100),
    })
}
