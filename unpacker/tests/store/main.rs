//! The content store on real disks and among real processes, with failures of both.

// clippy.toml allows the first lints in test functions, but not in shared helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::wildcard_imports)]

#[macro_use(assert_rows, with)]
extern crate tests;

mod damage;
mod directories;
mod disk_full;
mod eviction;
mod kills;
mod memory;
mod processes;
mod property_model;
mod sources;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    fs,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use manifests::content::Builder;
use tempfile::TempDir;
use tests::{Cell, Values, assert_has, fuzz::Random, table, write};
use unpacker::{
    Access, Content, Digest, Format, Limits, Options, Selection, SkippedEntries, Source, Store,
    Tree,
    access::{Basic, Ssh},
    registry::Credentials,
    store::{Budget, Error, Hold, SourceKey, Stored},
};

/// Variable with the role of a process that a test starts from its own binary.
const ROLE: &str = "STORE_TEST_ROLE";
/// Variable with the directory of such a process.
const DIRECTORY: &str = "STORE_TEST_FOLDER";

/// Returns content of about this size, which depends only on the seed.
fn content(seed: u64, size: usize) -> Content {
    let mut files = Builder::new(Limits::default());
    let bytes = Random::new(seed).bytes(size);
    let (first, second) = bytes.split_at(size / 3);
    let long = format!("manifests/{}.yaml", "long".repeat(30));
    let csv = "manifests/csv.yaml";
    files.add(csv, 0o644, &mut &*first).unwrap();
    files.add(&long, 0o755, &mut &*second).unwrap();
    files.finish()
}

fn tree(seed: u64, size: usize) -> Tree {
    Tree::from_content(content(seed, size))
}

fn open(directory: &Path, disk: u64, memory: u64) -> Store {
    Store::open(directory, Budget { disk, memory }).unwrap()
}

fn fresh(disk: u64, memory: u64) -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), disk, memory);
    (directory, store)
}

fn put(store: &Store, seed: u64, size: usize) -> Stored {
    store.put(&tree(seed, size)).unwrap()
}

fn key(store: &Store, path: impl Display) -> SourceKey {
    let text = format!("https://h/{path}#{}", Digest::sha256(b""));
    let source = Source::parse(&text, |_| false).unwrap();
    let access = with!(Access, basic: Some(basic("tenant", "hunter2")));
    store.key(&source, &Options::default(), &access).unwrap()
}

fn basic(name: &str, password: &str) -> Basic {
    Basic {
        username: name.to_owned(),
        password: password.to_owned().into(),
    }
}

fn skipped(symlinks: usize) -> SkippedEntries {
    with!(SkippedEntries, symlinks)
}

fn is_missing(store: &Store, digest: &Digest) -> bool {
    matches!(store.hold(digest), Err(Error::Missing { .. }))
}

fn file(directory: &Path, digest: &Digest) -> PathBuf {
    directory.join(format!("content/{}.tar", digest.hex()))
}

/// Returns the names and sizes of the entries of one directory of the store.
fn listed(directory: &Path, name: &str) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(directory.join(name)).unwrap();
    let entry = |entry: fs::DirEntry| {
        let size = fs::symlink_metadata(entry.path()).unwrap().len();
        (entry.file_name().into_string().unwrap(), size)
    };
    entries.map(|found| entry(found.unwrap())).collect()
}

fn digests(directory: &Path) -> Vec<Digest> {
    let names = listed(directory, "content").into_keys();
    let digest = |name: String| format!("sha256:{}", name.strip_suffix(".tar").unwrap());
    names.map(|name| digest(name).parse().unwrap()).collect()
}

/// Checks a store that was just opened: content verifies, no temporary files remain, and the count is correct.
fn assert_whole(store: &Store, directory: &Path) {
    assert_eq!(listed(directory, "tmp"), BTreeMap::new());
    for digest in digests(directory) {
        store.reader(&digest).unwrap();
    }
    assert_rows!(store.stats().disk => listed(directory, "content").values().sum::<u64>());
    for link in listed(directory, "sources").keys() {
        assert_rows!(directory.join("sources").join(link).exists() => true, "{link} dangles");
    }
}

/// Returns the command that runs one test of this binary in a separate process.
fn alone(test: &str, role: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(DIRECTORY, directory);
    command
}

/// Runs one test of this binary again in a process started by a command.
fn run_again(test: &str, command: &mut Command) {
    let directory = tempfile::tempdir().unwrap();
    let output = command
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ROLE, "again")
        .env(DIRECTORY, directory.path())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let remedy = "run this as root, or where users may make mount namespaces (unshare -rm)";
    assert_rows!(output.status.success() && text.contains("1 passed") => true, "{remedy}:\n{text}");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Returns role and directory of this process if a test started it.
fn role() -> Option<(String, PathBuf)> {
    let directory = std::env::var_os(DIRECTORY)?;
    Some((std::env::var(ROLE).ok()?, directory.into()))
}
