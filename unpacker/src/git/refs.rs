//! Branches and tags of a repository, and the choice of one.

use super::{
    error::{Problem, Result},
    object_id::ObjectId,
};
use crate::{http_client::printable, source::Revision};

/// Maximum number of branches and tags. Repositories with bundles have fewer.
const MAX_REFS: usize = 200_000;
/// Maximum number of names in a message.
const MAX_SHOWN: usize = 10;

/// A branch or tag of the server, and the object that it points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ref {
    pub(super) name: String,
    pub(super) id: ObjectId,
    /// Commit that an annotated tag points to; `None` for other references.
    pub(super) peeled: Option<ObjectId>,
}

/// HEAD, branches and tags. Other references of a server, such as pull requests, are ignored.
#[derive(Debug, Default)]
pub(super) struct Refs(Vec<Ref>);

/// The object to request, and the commit that it is or points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) want: ObjectId,
    pub(super) commit: ObjectId,
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
    pub(super) fn add(
        &mut self,
        name: &[u8],
        id: ObjectId,
        peeled: Option<ObjectId>,
    ) -> Result<()> {
        let is_relevant =
            name == b"HEAD" || name.starts_with(b"refs/heads/") || name.starts_with(b"refs/tags/");
        let Some(name) = std::str::from_utf8(name).ok().filter(|_| is_relevant) else {
            return Ok(());
        };
        // The older protocol lists the commit of an annotated tag in a separate line directly after the tag.
        if let Some(tag) = name.strip_suffix("^{}") {
            if let Some(last) = self.0.last_mut().filter(|last| last.name == tag) {
                last.peeled = Some(id);
            }
            return Ok(());
        }
        if self.0.len() >= MAX_REFS {
            return Err(Problem::TooLarge {
                resource: "its branches and tags",
                limit: MAX_REFS as u64,
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
        self.0.iter().find(|reference| reference.name == name)
    }

    /// Returns the target of a revision; `None` for a commit that no branch or tag points to.
    pub(super) fn choose(&self, revision: &Revision) -> Result<Option<Target>> {
        let get = |prefix: &str, name: &str| self.get(&format!("{prefix}{name}")).map(Ref::target);
        let or_missing = |target: Option<Target>, kind, name: &String| {
            target.map(Some).ok_or_else(|| Problem::NoReference {
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
            Revision::Branch(name) => or_missing(get("refs/heads/", name), "branch", name),
            Revision::Tag(name) => or_missing(get("refs/tags/", name), "tag", name),
            Revision::Name(name) => match (get("refs/heads/", name), get("refs/tags/", name)) {
                (Some(_), Some(_)) => Err(Problem::Ambiguous {
                    name: printable(name, 200),
                }),
                (None, None) if is_short_hash(name) => Err(Problem::NotACommit {
                    text: printable(name, 100),
                }),
                (branch, tag) => or_missing(branch.or(tag), "branch or tag", name),
            },
            Revision::Commit(text) => {
                let id = commit(text)?;
                let points_to_commit = |reference: &&Ref| reference.target().commit == id;
                Ok(self.0.iter().find(points_to_commit).map(Ref::target))
            }
        }
    }

    /// Returns the objects that all branches and tags point to, without duplicates.
    pub(super) fn tips(&self) -> Vec<ObjectId> {
        let mut tips: Vec<ObjectId> = self.0.iter().map(|reference| reference.id).collect();
        tips.sort_unstable();
        tips.dedup();
        tips
    }

    /// Adds existing names to an error. Names that resemble the missing one come first.
    pub(super) fn explain(&self, problem: Problem) -> Problem {
        let short_names = |prefix: &str| {
            let names = self
                .0
                .iter()
                .filter_map(|reference| reference.name.strip_prefix(prefix));
            names.map(|name| printable(name, 100)).collect::<Vec<_>>()
        };
        match problem {
            Problem::NoReference {
                kind,
                name,
                others: _,
            } => {
                let mut others = match kind {
                    "branch" => short_names("refs/heads/"),
                    "tag" => short_names("refs/tags/"),
                    _ => [short_names("refs/heads/"), short_names("refs/tags/")].concat(),
                };
                others
                    .sort_by_key(|other| !(other.contains(&name) || name.contains(other.as_str())));
                others.truncate(MAX_SHOWN);
                Problem::NoReference { kind, name, others }
            }
            Problem::NoHead { .. } => {
                let mut others = short_names("refs/heads/");
                others.truncate(MAX_SHOWN);
                Problem::NoHead { others }
            }
            other => other,
        }
    }
}

/// Returns the reference prefixes to request for a revision.
pub(super) fn prefixes(revision: &Revision) -> Vec<String> {
    match revision {
        Revision::Head => vec!["HEAD".to_owned()],
        Revision::Branch(name) => vec![format!("refs/heads/{name}")],
        Revision::Tag(name) => vec![format!("refs/tags/{name}")],
        Revision::Name(name) => vec![format!("refs/heads/{name}"), format!("refs/tags/{name}")],
        Revision::Commit(_) => ref_prefixes(),
    }
}

/// Returns the prefixes of all branches and tags.
pub(super) fn ref_prefixes() -> Vec<String> {
    vec!["refs/heads/".to_owned(), "refs/tags/".to_owned()]
}

/// Reports whether a name could be an abbreviated commit hash. The protocol does not support them.
fn is_short_hash(name: &str) -> bool {
    (7..40).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_hexdigit())
        && name.bytes().any(|b| b.is_ascii_digit())
}

/// Parses the hash of a commit.
pub(super) fn commit(text: &str) -> Result<ObjectId> {
    if text.len() == 64 {
        return Err(Problem::Sha256);
    }
    ObjectId::from_hex(text.as_bytes()).ok_or_else(|| Problem::NotACommit {
        text: printable(text, 100),
    })
}
