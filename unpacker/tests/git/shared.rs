//! Helpers of these tests: sources, access and the outcome in one line.

use std::{
    io::Write as _,
    process::{Command, Stdio},
    time::Duration,
};

use tests::{Authority, Repository, Script, User, Values, chain, write};
use unpacker::{
    Access, Error, Options, Progress, Source,
    access::{Basic, Ssh, Trust},
    fetch::Fetched,
    source::Git,
    web::Patience,
};

/// A source as people write it: a URL, and what stands behind the `#`.
pub(crate) fn source(url: &str, fragment: &str) -> Git {
    match Source::parse(&format!("git+{url}#{fragment}"), |_| false).unwrap() {
        Source::Git(git) => git,
        other => panic!("{other}"),
    }
}

pub(crate) async fn fetch(git: &Git, access: &Access) -> Result<Fetched, Error> {
    unpacker::git::fetch(git, access, &Options::default(), &Progress::default()).await
}

/// The files as `path=text`, or the message.
pub(crate) async fn outcome(url: &str, fragment: &str, access: &Access) -> String {
    show(fetch(&source(url, fragment), access).await)
}

pub(crate) fn show(fetched: Result<Fetched, Error>) -> String {
    let fetched = match fetched {
        Ok(fetched) => fetched,
        Err(error) => return chain(&error),
    };
    let content = fetched.tree.into_content().unwrap();
    let files = content.files().map(|(path, file)| {
        let text: String = String::from_utf8_lossy(&file.bytes)
            .chars()
            .take(20)
            .collect();
        let mark = if file.mode & 0o100 == 0 { "" } else { "*" };
        format!("{path}{mark}={text}")
    });
    files.collect::<Vec<_>>().join(" ")
}

/// Files below a folder, and a commit of them.
pub(crate) fn commit<T: AsRef<[u8]>>(
    repository: &Repository,
    branch: &str,
    files: &[(&str, T)],
) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write(folder.path(), path, text);
    }
    repository.commit(branch, folder.path())
}

pub(crate) fn as_user(user: User) -> Access {
    Access {
        basic: Some(Basic {
            username: user.name.to_owned(),
            password: user.password.to_owned().into(),
        }),
        ..Access::default()
    }
}

pub(crate) fn trusting(authority: &Authority) -> Trust {
    Trust {
        roots: authority.pem(),
        ..Trust::default()
    }
}

/// As many tries as by default, without the waits between them.
pub(crate) fn brisk() -> Access {
    Access {
        patience: Patience {
            pause: Duration::from_millis(1),
            ..Patience::default()
        },
        ..Access::default()
    }
}

pub(crate) fn with_key(key: String, known_hosts: String) -> Access {
    Access {
        ssh: Some(Ssh {
            key: key.into(),
            passphrase: None,
            known_hosts,
        }),
        ..Access::default()
    }
}

/// A script for a server in front of another one.
pub(crate) fn script(rules: &str, upstream: &str) -> Script {
    Script::new(rules, &Values::default().with("upstream", upstream))
}

/// A branch, both kinds of tags, and directories.
pub(crate) fn fill(repository: &Repository) -> (String, String) {
    let first = commit(
        repository,
        "main",
        &[("bundle/manifests/a.yaml", "one"), ("README", "r")],
    );
    repository.git(&["tag", "light", &first]);
    repository.git(&["tag", "--annotate", "--message", "m", "v1", &first]);
    repository.git(&["tag", "--annotate", "--message", "m", "again", "v1"]);
    let second = commit(
        repository,
        "main",
        &[("bundle/manifests/a.yaml", "two"), ("README", "r")],
    );
    repository.git(&["branch", "dev", &first]);
    (first, second)
}

/// A commit of a folder that is written as `git ls-tree` prints it, which a tag leads to.
pub(crate) fn commit_of(repository: &Repository, listed: &str) -> String {
    let tree = pipe(repository, &["mktree", "--missing"], listed.as_bytes());
    commit_tree(repository, &tree)
}

/// A commit of a folder in the bytes of its object: as no git would make it.
pub(crate) fn commit_raw(repository: &Repository, tree: &[u8]) -> String {
    let args = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
    let tree = pipe(repository, &args, tree);
    commit_tree(repository, &tree)
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
