//! Directories of commits, from git's own servers and from hostile ones.

// clippy.toml allows the first lints in test functions, but not in shared helpers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::wildcard_imports)]

#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

mod content;
mod hostile;
mod revisions;
mod ssh;
mod transient_failures;

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use tests::{
    Cell, FileServer, GitServer, OWNER, Port, Received, Repository, Script, ScriptedServer, Sshd,
    TENANT, User, Values, assert_has, chain, noise, pairs, table, write,
};
use unpacker::{
    Access, Error, Fetched, Limits, Options, Progress, Selection, Source, Tree,
    access::{Basic, Ssh, Trust, Verify},
    source::{Git, Revision},
};

fn source(url: &str, fragment: &str) -> Git {
    match Source::parse(&format!("git+{url}#{fragment}"), |_| false).unwrap() {
        Source::Git(git) => git,
        other => panic!("{other}"),
    }
}

async fn fetch(git: &Git, access: &Access) -> Result<Fetched, Error> {
    unpacker::git::fetch(git, access, &Options::default(), &Progress::default()).await
}

/// Returns the files as `path=text`, or the error message.
async fn outcome(url: &str, fragment: &str, access: &Access) -> String {
    describe(fetch(&source(url, fragment), access).await)
}

fn describe(fetched: Result<Fetched, Error>) -> String {
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

fn commit<T: AsRef<[u8]>>(repository: &Repository, branch: &str, files: &[(&str, T)]) -> String {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(directory.path(), path, text);
    }
    repository.commit(branch, directory.path())
}

fn as_user(user: User) -> Access {
    with!(Access, basic: Some(Basic { username: user.name.to_owned(), password: user.password.to_owned().into() }))
}

/// Returns settings with the default number of attempts and a delay of 1 ms.
fn brisk() -> Access {
    with!(Access::default() => timeouts.retry_delay: Duration::from_millis(1))
}

fn with_key(key: String, known_hosts: String) -> Access {
    with!(Access, ssh: Some(Ssh { key: key.into(), passphrase: None, known_hosts }))
}

/// Starts a proxy server that follows a script.
fn front(rules: &str, upstream: &str) -> ScriptedServer {
    let values = Values::default().with("upstream", upstream);
    ScriptedServer::start(Script::new(rules, &values))
}

/// Creates branches, both kinds of tags, and directories; returns the first and the second commit.
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

/// Creates a tagged commit of the bytes of a tree object, which git itself would not write.
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
