//! Git client that reads a directory of a commit from a server, without the `git` program.
//!
//! The container image has neither git nor ssh, and a bundle needs little of git: one commit, its directories and
//! some files. Therefore this module implements the protocol itself: version 2, or the older versions of older
//! servers. The transports are HTTP, through the client of all sources, and ssh. The module starts no process, reads no
//! configuration and checks nothing out. Hooks, filters, submodules, `file:` and `ext::` are not supported.
//!
//! ```text
//!  refs ── choose commit ──> fetch, one commit deep ──> pack ──> spool (unnamed file) + offset of each object
//!                                                                   │ names of objects: computed, not trusted
//!  Tree <── files <── directories <── commit <──────────────────────┘
//! ```
//!
//! Received objects are trusted only as far as their SHA-1 is, with detection of collisions. Starting at the commit
//! that the server or the caller named, every directory and file is found by its hash. Sizes, counts and depths are
//! checked against limits before memory is allocated. Files outside of the requested directory cost only their
//! transfer and one decompression.
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
mod checkout;
mod delta;
mod error;
mod inflate;
mod known_hosts;
mod object_id;
mod pack;
mod pack_parser;
mod pkt_line;
mod protocol;
mod refs;
mod smart_http;
mod ssh;
mod tree;

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
    Access, Fetched, Options, Progress, Source, http_client,
    source::{Git, Revision},
};
use checkout::FaultOrigin;
use error::Result;
use object_id::{Kind, ObjectId};
use pack::{Bounds, Pack};
use protocol::{Depth, GitConnection};
use refs::Target;

/// Fetches a directory of a commit.
///
/// # Errors
/// Returns an error if the commit or directory does not exist, if the server is unreachable, or if the content is
/// rejected.
pub async fn fetch(
    git: &Git,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> crate::Result<Fetched> {
    bounded(git, access, transfer(git, access, options, progress)).await
}

/// Resolves the branch or tag of a source to its current commit.
///
/// # Errors
/// Returns an error if the branch or tag does not exist, or if the server is unreachable.
pub async fn resolve(git: &Git, access: &Access) -> crate::Result<Git> {
    if let Revision::Commit(commit) = &git.revision {
        refs::commit(commit).map_err(|problem| at(git, problem))?;
        return Ok(git.clone());
    }
    let resolve_target = || async {
        let mut talk = connect(git, access).await?;
        let target = choose(git, &mut talk).await?;
        talk.end().await;
        Ok(target)
    };
    let target = bounded(
        git,
        access,
        with_retries(access, &Progress::default(), resolve_target),
    )
    .await?;
    // `choose` returns `None` only for revisions that are commits, and those are handled above.
    let commit = target.map(|target| target.commit.to_string());
    let commit = commit.ok_or_else(|| at(git, Problem::Aborted))?;
    Ok(pinned(git, commit))
}

/// Limits an operation to the total timeout, and adds the repository to its error.
async fn bounded<T>(
    git: &Git,
    access: &Access,
    work: impl Future<Output = Result<T, FaultOrigin>>,
) -> crate::Result<T> {
    let total = access.timeouts.total;
    let result = timeout(total, work).await;
    let result = result
        .unwrap_or_else(|_| Err(Problem::Slow { total }.into()))
        .map_err(|blame| match blame {
            FaultOrigin::Repository(problem) => at(git, problem),
            FaultOrigin::Content(error) => error,
        });
    access.quotes.apply(result)
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

async fn connect(git: &Git, access: &Access) -> Result<GitConnection> {
    match git.repository.scheme() {
        "https" | "http" => smart_http::connect(&git.repository, access).await,
        "ssh" => ssh::connect(&git.repository, access).await,
        _ => Err(Problem::Scheme),
    }
}

/// Returns the target of the revision, or `None` for a commit that has to be fetched by its hash.
async fn choose(git: &Git, talk: &mut GitConnection) -> Result<Option<Target>, FaultOrigin> {
    let refs = talk.refs(&refs::prefixes(&git.revision)).await?;
    match refs.choose(&git.revision) {
        Ok(target) => Ok(target),
        // The error lists similar names. If the server does not list all names, the error is returned without them.
        Err(problem @ (Problem::NoReference { .. } | Problem::NoHead { .. })) => {
            let all_refs = if talk.is_listed() {
                Ok(refs)
            } else {
                talk.refs(&refs::ref_prefixes()).await
            };
            Err(match all_refs {
                Ok(all_refs) => all_refs.explain(problem).into(),
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
) -> Result<Fetched, FaultOrigin> {
    let attempt = || download(git, access, options, progress);
    let (pack, start) = with_retries(access, progress, attempt).await?;
    let (git, options) = (git.clone(), options.clone());
    let read = spawn_blocking(move || {
        let mut pack = pack;
        pack.resolve(&[Kind::Commit, Kind::Tag, Kind::Tree], None)?;
        let commit = checkout::commit(&mut pack, start).map_err(|problem| match &git.revision {
            // All commits of branches and tags were fetched, so the commit is not among them.
            Revision::Commit(commit) if matches!(problem, Problem::Missing { .. }) => {
                Problem::NoCommit {
                    commit: commit.clone(),
                    how: " in the history of the branches and tags",
                }
            }
            _ => problem,
        })?;
        let (tree, unselected) =
            checkout::read(&mut pack, commit, git.directory.as_deref(), &options)?;
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

/// Repeats an operation while its connection breaks, within the limits for attempts and time.
async fn with_retries<T, F: Future<Output = Result<T, FaultOrigin>>>(
    access: &Access,
    progress: &Progress,
    attempt: impl Fn() -> F,
) -> Result<T, FaultOrigin> {
    let timeouts = &access.timeouts;
    let (start, mut attempts) = (Instant::now(), 1);
    loop {
        let outcome = attempt().await;
        let Err(FaultOrigin::Repository(
            problem @ (Problem::Disconnected { .. }
            | Problem::Web(http_client::Error::Disconnected { .. })),
        )) = &outcome
        else {
            return outcome;
        };
        let delay = timeouts.delay_after(attempts);
        let is_in_time = start.elapsed().saturating_add(delay) < timeouts.total;
        if attempts >= timeouts.attempts || !is_in_time {
            return outcome;
        }
        tracing::debug!(error = %problem, "retrying a request to a git server");
        progress.restart();
        tokio::time::sleep(delay).await;
        attempts += 1;
    }
}

/// Fetches the target of the revision over one connection.
async fn download(
    git: &Git,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<(Pack, ObjectId), FaultOrigin> {
    let bounds = Bounds::new(options.limits.file);
    let mut talk = connect(git, access).await?;
    let received = if let Revision::Commit(text) = &git.revision {
        let commit = refs::commit(text)?;
        fetch_by_hash(git, access, &mut talk, commit, bounds, progress).await?
    } else {
        let target = choose(git, &mut talk).await?;
        let want = target.ok_or(Problem::Aborted)?.want;
        let pack = receive(&mut talk, &[want], Depth::Shallow, bounds, progress).await?;
        (pack, want)
    };
    talk.end().await;
    Ok(received)
}

/// Fetches a commit by its hash.
async fn fetch_by_hash(
    git: &Git,
    access: &Access,
    talk: &mut GitConnection,
    commit: ObjectId,
    bounds: Bounds,
    progress: &Progress,
) -> Result<(Pack, ObjectId)> {
    if talk.allows_any_object() {
        match receive(talk, &[commit], Depth::Shallow, bounds, progress).await {
            Ok(pack) => return Ok((pack, commit)),
            Err(Problem::Refused { .. } | Problem::NotFound { .. }) if talk.is_final() => {
                return Err(Problem::NoCommit {
                    commit: commit.to_string(),
                    how: "",
                });
            }
            // Some servers send only commits that branches or tags point to, and close the connection for other
            // requests.
            Err(Problem::Refused { .. }) => *talk = connect(git, access).await?,
            Err(problem) => return Err(problem),
        }
    }
    let refs = talk.refs(&refs::ref_prefixes()).await?;
    if let Some(target) = refs.choose(&git.revision)? {
        let pack = receive(talk, &[target.want], Depth::Shallow, bounds, progress).await?;
        return Ok((pack, target.want));
    }
    let tips = refs.tips();
    if tips.is_empty() || tips.len() > MAX_TIPS {
        return Err(Problem::NoCommit {
            commit: commit.to_string(),
            how: ", or the server sends only commits that a branch or tag points to",
        });
    }
    let pack = receive(talk, &tips, Depth::All, bounds, progress).await?;
    Ok((pack, commit))
}

/// Maximum number of branches and tags that are fetched to find a commit in their history.
const MAX_TIPS: usize = 5000;

/// Requests commits, and reads the pack while it arrives.
async fn receive(
    talk: &mut GitConnection,
    wants: &[ObjectId],
    depth: Depth,
    bounds: Bounds,
    progress: &Progress,
) -> Result<Pack> {
    let (sender, receiver) = mpsc::channel(16);
    let chunks = ChunkReader {
        receiver,
        chunk: Bytes::new(),
    };
    let reading = spawn_blocking(move || pack_parser::receive(chunks, bounds));
    let sent = talk
        .fetch(wants, depth, bounds.received, sender, progress)
        .await;
    let read = reading.await.unwrap_or(Err(Problem::Aborted));
    match (sent, read) {
        // The truncated pack is a consequence of the failed transfer, which is therefore the error to return.
        (Err(problem), Ok(_) | Err(Problem::Disconnected { .. })) => Err(problem),
        (_, read) => read,
    }
}

/// A reader of the chunks that arrive through a channel.
struct ChunkReader {
    receiver: mpsc::Receiver<Bytes>,
    chunk: Bytes,
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.chunk = chunk,
                None => return Ok(0),
            }
        }
        let count = buffer.len().min(self.chunk.len());
        if let Some(to) = buffer.get_mut(..count) {
            self.chunk.copy_to_slice(to);
        }
        Ok(count)
    }
}
