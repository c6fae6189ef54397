//! The content store on real disks, among real processes, and with whatever may happen to either.

// clippy.toml allows the first ones in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::wildcard_imports)]

#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

mod damage;
mod eviction;
mod folders;
mod full;
mod kills;
mod memory;
mod model;
mod processes;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};
use std::{cell::RefCell, fmt::Display, fs, sync::Arc, thread};

use manifests::content::Builder;
use tempfile::TempDir;
use tests::{Cell, Values, assert_has, fuzz::Random, table, write};
use unpacker::access::{Basic, Ssh};
use unpacker::store::{Budget, Error, Hold, Key, Stored};
use unpacker::{
    Access, Content, Digest, Format, Limits, Options, Selection, SkippedEntries, Source, Store,
    Tree, registry::Credentials,
};

/// In a process that a test starts from its own binary: what it is there for.
const ROLE: &str = "STORE_TEST_ROLE";
/// And where.
const FOLDER: &str = "STORE_TEST_FOLDER";

/// Content of about this size, the same for the same seed.
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

fn open(folder: &Path, disk: u64, memory: u64) -> Store {
    Store::open(folder, Budget { disk, memory }).unwrap()
}

/// A store in a directory of its own.
fn fresh(disk: u64, memory: u64) -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), disk, memory);
    (folder, store)
}

fn put(store: &Store, seed: u64, size: usize) -> Stored {
    store.put(&tree(seed, size)).unwrap()
}

/// The key of the source at a path, which is pinned and needs a password.
fn key(store: &Store, path: impl Display) -> Key {
    let text = format!("https://h/{path}#{}", Digest::of(b""));
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

/// The file of content.
fn file(folder: &Path, digest: &Digest) -> PathBuf {
    folder.join(format!("content/{}.tar", digest.hex()))
}

/// What lies in one of the store's folders, with the sizes.
fn listed(folder: &Path, name: &str) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(folder.join(name)).unwrap();
    let entry = |entry: fs::DirEntry| {
        let size = fs::symlink_metadata(entry.path()).unwrap().len();
        (entry.file_name().into_string().unwrap(), size)
    };
    entries.map(|found| entry(found.unwrap())).collect()
}

/// All content in a folder, by its names.
fn digests(folder: &Path) -> Vec<Digest> {
    let names = listed(folder, "content").into_keys();
    let digest = |name: String| format!("sha256:{}", name.strip_suffix(".tar").unwrap());
    names.map(|name| digest(name).parse().unwrap()).collect()
}

/// A store that has just been opened is whole: everything verifies, nothing is left over, and the count is right.
fn assert_whole(store: &Store, folder: &Path) {
    assert_eq!(listed(folder, "tmp"), BTreeMap::new());
    for digest in digests(folder) {
        store.reader(&digest).unwrap();
    }
    assert_rows!(store.stats().disk => listed(folder, "content").values().sum::<u64>());
    for link in listed(folder, "sources").keys() {
        assert!(folder.join("sources").join(link).exists(), "{link} dangles");
    }
}

/// One test of this binary, alone in a process of its own.
fn alone(test: &str, role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, role)
        .env(FOLDER, folder);
    command
}

/// Runs one test of this binary again, in a process that a command starts.
fn again(test: &str, command: &mut Command) {
    let folder = tempfile::tempdir().unwrap();
    let output = command
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ROLE, "again")
        .env(FOLDER, folder.path())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "run this as root, or where users may make mount namespaces (unshare -rm):\n{text}"
    );
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The role of this process, if a test started it.
fn role() -> Option<(String, PathBuf)> {
    let folder = std::env::var_os(FOLDER)?;
    Some((std::env::var(ROLE).ok()?, folder.into()))
}
