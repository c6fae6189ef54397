//! Directories of commits, from git's own servers and from hostile ones.

// clippy.toml allows the first ones in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::wildcard_imports)]

#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

mod broken;
mod content;
mod hostile;
mod revisions;
mod ssh;

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};
use std::{fs, io::Write as _, net::TcpListener, path::Path, time::Duration};

use tests::{
    Authority, Cell, FileServer, GitServer, OWNER, Port, Received, Repository, Script,
    ScriptedServer, Sshd, TENANT, User, Values, assert_has, chain, noise, pairs, table, write,
};
use unpacker::access::{Basic, Ssh, Trust, Verify};
use unpacker::source::{Git, Revision};
use unpacker::{Access, Error, Fetched, Limits, Options, Progress, Selection, Source, Tree};

/// A source as people write it: a URL, and what stands behind the `#`.
fn source(url: &str, fragment: &str) -> Git {
    match Source::parse(&format!("git+{url}#{fragment}"), |_| false).unwrap() {
        Source::Git(git) => git,
        other => panic!("{other}"),
    }
}

async fn fetch(git: &Git, access: &Access) -> Result<Fetched, Error> {
    unpacker::git::fetch(git, access, &Options::default(), &Progress::default()).await
}

/// The files as `path=text`, or the message.
async fn outcome(url: &str, fragment: &str, access: &Access) -> String {
    show(fetch(&source(url, fragment), access).await)
}

fn show(fetched: Result<Fetched, Error>) -> String {
    let fetched = match fetched {
        Ok(fetched) => fetched,
        Err(error) => return chain(&error),
    };
    let content = fetched.tree.into_content().unwrap();
    let files = content.files().map(|(path, file)| {
        let text = String::from_utf8_lossy(&file.bytes);
        let mark = if file.mode & 0o100 == 0 { "" } else { "*" };
        format!("{path}{mark}={text:.20}")
    });
    files.collect::<Vec<_>>().join(" ")
}

/// Files below a folder, and a commit of them.
fn commit<T: AsRef<[u8]>>(repository: &Repository, branch: &str, files: &[(&str, T)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(folder.path(), path, text);
    }
    repository.commit(branch, folder.path())
}

fn as_user(user: User) -> Access {
    with!(Access, basic: Some(Basic { username: user.name.to_owned(), password: user.password.to_owned().into() }))
}

fn trusting(authority: &Authority) -> Trust {
    with!(Trust, roots: authority.pem())
}

/// As many tries as by default, without the waits between them.
fn brisk() -> Access {
    with!(Access::default() => patience.pause: Duration::from_millis(1))
}

fn with_key(key: String, known_hosts: String) -> Access {
    with!(Access, ssh: Some(Ssh { key: key.into(), passphrase: None, known_hosts }))
}

/// A server in front of another one, which follows a script.
fn front(rules: &str, upstream: &str) -> ScriptedServer {
    let values = Values::default().with("upstream", upstream);
    ScriptedServer::start(Script::new(rules, &values))
}

/// A branch, both kinds of tags, and directories.
fn fill(repository: &Repository) -> (String, String) {
    let committed = |text| {
        let files = [("bundle/manifests/a.yaml", text), ("README", "r")];
        commit(repository, "main", &files)
    };
    let first = committed("one");
    repository.git(&["tag", "light", &first]);
    repository.git(&["tag", "--annotate", "--message", "m", "v1", &first]);
    repository.git(&["tag", "--annotate", "--message", "m", "again", "v1"]);
    let second = committed("two");
    repository.git(&["branch", "dev", &first]);
    (first, second)
}

/// A commit of a folder that is written as `git ls-tree` prints it, which a tag leads to.
fn commit_of(repository: &Repository, listed: &str) -> String {
    let tree = pipe(repository, &["mktree", "--missing"], listed.as_bytes());
    commit_tree(repository, &tree)
}

/// A commit of a folder in the bytes of its object: as no git would make it.
fn commit_raw(repository: &Repository, tree: &[u8]) -> String {
    let args = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
    commit_tree(repository, &pipe(repository, &args, tree))
}

fn commit_tree(repository: &Repository, tree: &str) -> String {
    let commit = repository.git(&["commit-tree", "-m", "made by hand", tree]);
    repository.git(&["update-ref", &format!("refs/tags/at-{commit}"), &commit]);
    commit
}

fn pipe(repository: &Repository, args: &[&str], input: &[u8]) -> String {
    let mut child = Command::new("git")
        .args(args)
        .current_dir(repository.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
