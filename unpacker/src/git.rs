//! Git without git: a folder of a commit, straight from the server.
//!
//! The image that this runs in has neither git nor ssh, and a bundle needs little of git: one commit, its folders, some
//! files. So this speaks the protocol itself (version 2, or what older servers speak), over HTTP through the client
//! that every source uses, or over ssh. No process is started, no configuration read, nothing checked out; hooks,
//! filters, submodules, `file:` and `ext::` do not exist here.
//!
//! ```text
//!  refs ── which commit? ──> fetch, one commit deep ──> pack ──> spool (unnamed file) + where each object begins
//!                                                                   │ names of objects: computed, not believed
//!  Tree <── files <── folders <── commit <─────────────────────────┘
//! ```
//!
//! What arrives is believed only as far as its SHA-1 goes, with detection of collisions: from the commit that the
//! server named (or the caller demanded) every folder and file is found by its hash. Sizes, counts and depths are
//! compared with their bounds before anything is allocated; files outside of the folder that is wanted cost their
//! transfer, and inflating once.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use unpacker::{Access, Options, Progress, Source, git};
//!
//! let source = Source::parse("git+https://example.com/org/repo.git#main:bundle", |_| false)?;
//! let Source::Git(source) = source else { unreachable!() };
//! let fetched = git::fetch(&source, &Access::default(), &Options::default(), &Progress::default()).await?;
//! println!("{}: {} files", fetched.resolved, fetched.tree.len());
//! # Ok(())
//! # }
//! ```

#[cfg(test)]
mod attacks;
mod delta;
mod error;
mod id;
mod inflate;
mod known_hosts;
mod line;
mod pack;
mod receive;
mod refs;
mod smart;
mod ssh;
mod talk;
mod tree;
mod walk;

use std::{
    collections::BTreeMap,
    future::Future,
    io::{self, Read},
    time::Instant,
};

use bytes::{Buf as _, Bytes};
use tokio::{sync::mpsc, task::spawn_blocking, time::timeout};

pub use error::{Error, Problem};

use crate::{
    Access, Options, Progress, Source,
    fetch::Fetched,
    source::{Git, Revision},
    web,
};
use error::Result;
use id::{Id, Kind};
use pack::{Bounds, Pack};
use refs::Target;
use talk::{Depth, Talk};
use walk::Blame;

/// Reads a folder of a commit.
///
/// # Errors
/// When the server gives no such commit or folder, or what it gives cannot be taken.
pub async fn fetch(
    git: &Git,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> crate::Result<Fetched> {
    bounded(git, access, transfer(git, access, options, progress)).await
}

/// The same source, with the commit that its branch or tag stands for now.
///
/// # Errors
/// When the server has no such branch or tag.
pub async fn resolve(git: &Git, access: &Access) -> crate::Result<Git> {
    if let Revision::Commit(commit) = &git.revision {
        refs::commit(commit).map_err(|problem| at(git, problem))?;
        return Ok(git.clone());
    }
    let found = || async {
        let mut talk = connect(git, access).await?;
        let target = choose(git, &mut talk).await?;
        talk.end().await;
        Ok(target)
    };
    let target = bounded(git, access, persist(access, &Progress::default(), found)).await?;
    // Without a commit of their own only commits are chosen, and those were dealt with.
    let commit = target.map(|target| target.commit.to_string());
    let commit = commit.ok_or_else(|| at(git, Problem::Aborted))?;
    Ok(pinned(git, commit))
}

/// Waits no longer than is allowed for everything, and says which repository it was.
async fn bounded<T>(
    git: &Git,
    access: &Access,
    work: impl Future<Output = Result<T, Blame>>,
) -> crate::Result<T> {
    let total = access.patience.total;
    let done = timeout(total, work).await;
    let done = done
        .unwrap_or_else(|_| Err(Problem::Slow { total }.into()))
        .map_err(|blame| match blame {
            Blame::Repository(problem) => at(git, problem),
            Blame::Content(error) => error,
        });
    access.quotes.apply(done)
}

fn at(git: &Git, problem: Problem) -> crate::Error {
    let repository = (&git.repository).into();
    let problem = Box::new(problem);
    Error {
        repository,
        problem,
    }
    .into()
}

fn pinned(git: &Git, commit: String) -> Git {
    Git {
        revision: Revision::Commit(commit),
        ..git.clone()
    }
}

async fn connect(git: &Git, access: &Access) -> Result<Talk> {
    match git.repository.scheme() {
        "https" | "http" => smart::connect(&git.repository, access).await,
        "ssh" => ssh::connect(&git.repository, access).await,
        _ => Err(Problem::Scheme),
    }
}

/// What the revision stands for, unless it is a commit that has to be asked for by its hash.
async fn choose(git: &Git, talk: &mut Talk) -> Result<Option<Target>, Blame> {
    let refs = talk.refs(&refs::prefixes(&git.revision)).await?;
    match refs.choose(&git.revision) {
        Ok(target) => Ok(target),
        // Only now all names are of interest, and if they cannot be had, the error is told without them.
        Err(problem @ (Problem::NoReference { .. } | Problem::NoHead { .. })) => {
            let all = if talk.is_listed() {
                Ok(refs)
            } else {
                talk.refs(&refs::everything()).await
            };
            Err(match all {
                Ok(all) => all.explain(problem).into(),
                Err(_) => problem.into(),
            })
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn transfer(
    git: &Git,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched, Blame> {
    let attempt = || download(git, access, options, progress);
    let (pack, start) = persist(access, progress, attempt).await?;
    let (git, options) = (git.clone(), options.clone());
    let read = spawn_blocking(move || {
        let mut pack = pack;
        pack.resolve(&[Kind::Commit, Kind::Tag, Kind::Tree], None)?;
        let commit = walk::commit(&mut pack, start).map_err(|problem| match &git.revision {
            // Everything that branches and tags lead to is there, and the commit is not.
            Revision::Commit(commit) if matches!(problem, Problem::Missing { .. }) => {
                Problem::NoCommit {
                    commit: commit.clone(),
                    how: " in the history of its branches and tags",
                }
            }
            _ => problem,
        })?;
        let (tree, unselected) = walk::read(&mut pack, commit, git.directory.as_deref(), &options)?;
        Ok(Fetched {
            resolved: Source::Git(pinned(&git, commit.to_string())),
            digest: None,
            tree,
            unselected,
            labels: BTreeMap::new(),
        })
    });
    read.await.unwrap_or(Err(Problem::Aborted.into()))
}

/// Begins anew when the connection breaks, as often as is allowed.
async fn persist<T, F: Future<Output = Result<T, Blame>>>(
    access: &Access,
    progress: &Progress,
    attempt: impl Fn() -> F,
) -> Result<T, Blame> {
    let patience = &access.patience;
    let (begin, mut tries) = (Instant::now(), 1);
    loop {
        let outcome = attempt().await;
        let Err(Blame::Repository(
            problem @ (Problem::CutShort { .. } | Problem::Web(web::Error::Broken { .. })),
        )) = &outcome
        else {
            return outcome;
        };
        let pause = patience.pause_after(tries);
        let is_in_time = begin.elapsed().saturating_add(pause) < patience.total;
        if tries >= patience.tries || !is_in_time {
            return outcome;
        }
        tracing::debug!(error = %problem, "asking a git server again");
        progress.restart();
        tokio::time::sleep(pause).await;
        tries += 1;
    }
}

/// Receives what the revision stands for, over one connection.
async fn download(
    git: &Git,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<(Pack, Id), Blame> {
    let bounds = Bounds::new(options.limits.file);
    let mut talk = connect(git, access).await?;
    let received = if let Revision::Commit(text) = &git.revision {
        let commit = refs::commit(text)?;
        by_hash(git, access, &mut talk, commit, bounds, progress).await?
    } else {
        let target = choose(git, &mut talk).await?;
        let want = target.ok_or(Problem::Aborted)?.want;
        let pack = receive(&mut talk, &[want], Depth::One, bounds, progress).await?;
        (pack, want)
    };
    talk.end().await;
    Ok(received)
}

/// Fetches a commit of which only the hash is known.
async fn by_hash(
    git: &Git,
    access: &Access,
    talk: &mut Talk,
    commit: Id,
    bounds: Bounds,
    progress: &Progress,
) -> Result<(Pack, Id)> {
    if talk.may_want_any() {
        match receive(talk, &[commit], Depth::One, bounds, progress).await {
            Ok(pack) => return Ok((pack, commit)),
            Err(Problem::Refused { .. } | Problem::NotFound { .. }) if talk.is_final() => {
                return Err(Problem::NoCommit {
                    commit: commit.to_string(),
                    how: "",
                });
            }
            // Some servers give away only what a branch or a tag leads to, and hang up on other wishes.
            Err(Problem::Refused { .. }) => *talk = connect(git, access).await?,
            Err(problem) => return Err(problem),
        }
    }
    let refs = talk.refs(&refs::everything()).await?;
    if let Some(target) = refs.choose(&git.revision)? {
        let pack = receive(talk, &[target.want], Depth::One, bounds, progress).await?;
        return Ok((pack, target.want));
    }
    let tips = refs.tips();
    if tips.is_empty() || tips.len() > MOST_TIPS {
        return Err(Problem::NoCommit {
            commit: commit.to_string(),
            how: ", or the server gives only what a branch or tag stands for",
        });
    }
    let pack = receive(talk, &tips, Depth::All, bounds, progress).await?;
    Ok((pack, commit))
}

/// How many branches and tags are fetched to find a commit among them.
const MOST_TIPS: usize = 5000;

/// Asks for commits, and reads the pack while it arrives.
async fn receive(
    talk: &mut Talk,
    wants: &[Id],
    depth: Depth,
    bounds: Bounds,
    progress: &Progress,
) -> Result<Pack> {
    let (sender, receiver) = mpsc::channel(16);
    let parts = Parts {
        receiver,
        part: Bytes::new(),
    };
    let reading = spawn_blocking(move || receive::receive(parts, bounds));
    let sent = talk
        .fetch(wants, depth, bounds.received, sender, progress)
        .await;
    let read = reading.await.unwrap_or(Err(Problem::Aborted));
    match (sent, read) {
        // The pack is cut short since the transfer failed, and not the other way round.
        (Err(problem), Ok(_) | Err(Problem::CutShort { .. })) => Err(problem),
        (_, read) => read,
    }
}

/// Reads what comes through a channel.
struct Parts {
    receiver: mpsc::Receiver<Bytes>,
    part: Bytes,
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.receiver.blocking_recv() {
                Some(part) => self.part = part,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.part.len());
        if let Some(to) = buffer.get_mut(..count) {
            self.part.copy_to_slice(to);
        }
        Ok(count)
    }
}
