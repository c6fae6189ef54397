//! Who may depend on whom: the picture of docs/architecture.md, kept true.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// What each crate may use of the workspace. Tests may use everything.
const ARROWS: &[(&str, &[&str])] = &[
    ("manifests", &[]),
    ("convert", &["manifests"]),
    ("catalog", &["convert", "manifests"]),
    ("unpacker", &["manifests"]),
    ("cli", &["catalog", "convert", "manifests", "unpacker"]),
    (
        "provisioner",
        &["catalog", "convert", "manifests", "unpacker"],
    ),
];

/// What must not even be linked into the crates that only compute, with all of their features.
const NO_IO: &[(&str, &[&str])] = &[
    (
        "manifests",
        &[
            "tokio",
            "hyper",
            "rustls",
            "reqwest",
            "kube-client",
            "tar",
            "flate2",
        ],
    ),
    (
        "convert",
        &["tokio", "hyper", "rustls", "reqwest", "kube-client", "tar"],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

fn texts<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

#[test]
fn crates_depend_only_downwards() {
    let metadata = metadata();
    let members: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| package["source"].is_null())
        .map(|package| (texts(package, "name"), package))
        .collect();
    let known: BTreeSet<&str> = ARROWS
        .iter()
        .map(|arrow| arrow.0)
        .chain(["tests", "cluster"])
        .collect();
    assert_eq!(
        members.keys().copied().collect::<BTreeSet<_>>(),
        known,
        "a crate has no place in the picture"
    );
    for (name, allowed) in ARROWS {
        for dependency in members[name]["dependencies"].as_array().unwrap() {
            let to = texts(dependency, "name");
            let for_tests = dependency["kind"] == "dev";
            assert!(
                !members.contains_key(to) || allowed.contains(&to) || for_tests,
                "{name} must not use {to}"
            );
        }
    }
}

#[test]
fn crates_that_compute_link_nothing_that_does_io() {
    for (name, banned) in NO_IO {
        // Of the one crate: what other members want of a dependency of both does not count.
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--locked", "--offline", "--all-features"])
            .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"])
            .args(["--package", name])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "cargo tree: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let tree = String::from_utf8(output.stdout).unwrap();
        let linked: BTreeSet<&str> = tree
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        assert!(linked.contains(name), "{tree}");
        for bad in *banned {
            assert!(!linked.contains(bad), "{name} links {bad}");
        }
    }
}

/// A test file that no `mod` line names is never compiled, and looks like a passing one.
#[test]
fn every_test_file_is_compiled() {
    let mut sources = Vec::new();
    let mut roots = BTreeSet::new();
    let mut open = vec![root()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                sources.push(path);
            } else if name == "Cargo.toml" {
                // A target that is not where Cargo looks.
                let text = fs::read_to_string(&path).unwrap();
                let named = text
                    .lines()
                    .filter_map(|line| line.strip_prefix("path = \""));
                let folder = path.parent().unwrap();
                roots.extend(named.map(|name| folder.join(name.trim_end_matches('"'))));
            }
        }
    }
    let text: BTreeMap<&PathBuf, String> = sources
        .iter()
        .map(|path| (path, fs::read_to_string(path).unwrap()))
        .collect();
    for path in &sources {
        let stem = path.file_stem().unwrap().to_string_lossy();
        let folder = path.parent().unwrap();
        let is_root = matches!(&*stem, "lib" | "main" | "build")
            || ["tests", "benches", "examples", "bin"]
                .iter()
                .any(|f| folder.ends_with(f))
            || roots.contains(path);
        if is_root {
            continue;
        }
        let near = |other: &&PathBuf| {
            other.parent().unwrap() == folder
                || other.with_extension("") == folder
                || roots.contains(*other) && other.parent() == folder.parent()
        };
        let declared = sources.iter().filter(near).any(|other| {
            text[other].lines().any(|line| {
                line.trim()
                    .trim_end_matches(';')
                    .ends_with(&format!("mod {stem}"))
            })
        });
        assert!(declared, "{} is declared nowhere", path.display());
    }
}
