//! The dependencies of the crates are those of the picture in the README.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tests::root;

/// Crates for tests, which are not in the picture.
const FOR_TESTS: &[&str] = &["tests", "cluster"];

/// Dependencies that must not be linked into the pure crates, with any feature.
const NO_IO: &[(&str, &[&str])] = &tests::rows![
    "manifests" => &["tokio", "hyper", "rustls", "reqwest", "kube-client", "tar", "flate2"];
    "convert" => &["tokio", "hyper", "rustls", "reqwest", "kube-client", "tar"];
];

/// Runs Cargo without the network, and returns its standard output.
fn cargo(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(args)
        .args(["--locked", "--offline"])
        .current_dir(root());
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn metadata() -> Value {
    // The workspace's crates are sufficient, and Cargo does not need the crates of other platforms.
    let printed = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    serde_json::from_str(&printed).unwrap()
}

fn texts<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

/// The crates of each row of the README's picture. The rest of a line is a description.
fn rows_of_picture<'a>(readme: &'a str, crates: &BTreeSet<&str>) -> Vec<BTreeSet<&'a str>> {
    let (_, section) = readme.split_once("## Architecture").unwrap();
    let picture = section.split("```").nth(1).unwrap();
    let row = |line: &'a str| -> BTreeSet<&'a str> {
        let names = line.split_whitespace();
        names.take_while(|word| crates.contains(word)).collect()
    };
    let rows = picture.lines().map(row);
    rows.filter(|row| !row.is_empty()).collect()
}

/// Returns the workspace crates that each crate depends on, without its dev-dependencies.
fn edges(metadata: &Value) -> BTreeMap<&str, BTreeSet<&str>> {
    let packages = metadata["packages"].as_array().unwrap().iter();
    let members: BTreeMap<&str, &Value> = packages
        .map(|package| (texts(package, "name"), package))
        .collect();
    members
        .iter()
        .map(|(name, package)| {
            let dependencies = package["dependencies"].as_array().unwrap().iter();
            let used = dependencies
                .filter(|dependency| dependency["kind"] != "dev")
                .map(|dependency| texts(dependency, "name"))
                .filter(|used| members.contains_key(used));
            (*name, used.collect())
        })
        .collect()
}

#[test]
fn each_crate_uses_all_crates_above_its_row_of_the_picture() {
    let metadata = metadata();
    let edges = edges(&metadata);
    let crates: BTreeSet<&str> = edges.keys().copied().collect();
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let rows = rows_of_picture(&readme, &crates);
    let mut above = BTreeSet::new();
    for row in &rows {
        for name in row {
            assert_eq!(
                edges[name], above,
                "what {name} uses, and the rows above it"
            );
        }
        above.extend(row);
    }
    for name in FOR_TESTS {
        assert_eq!(edges[name], BTreeSet::new(), "what {name} uses");
    }
    above.extend(FOR_TESTS);
    assert_eq!(crates, above, "the crates, and those of the picture");
}

#[test]
fn pure_crates_link_no_io() {
    for (name, banned) in NO_IO {
        // Resolved for this crate alone, without features that other members enable on shared dependencies.
        let args = "tree --all-features --edges normal --prefix none --format {p} --package";
        let args: Vec<&str> = args.split(' ').chain([*name]).collect();
        let tree = cargo(&args);
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

/// `apply` uses only those modules of `manifests::api` that define no resource: callers translate the API types.
#[test]
fn engine_names_no_rukpak_resource_type() {
    let api = root().join("manifests/src/api");
    let modules: BTreeSet<String> = sources(&api)
        .into_iter()
        .filter(|path| fs::read_to_string(path).unwrap().contains("#[kube("))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert!(modules.contains("instance") && modules.contains("bundle"));
    let engine = root().join("apply/src");
    let names = |text: &str, module: &str| {
        let path = format!("{module}::");
        text.match_indices(&path).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
        })
    };
    for path in sources(&engine) {
        let text = fs::read_to_string(&path).unwrap();
        for module in &modules {
            assert!(!names(&text, module), "{} names {module}::", path.display());
        }
    }
}

/// Returns the Rust files of a directory and its subdirectories.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                sources.push(path);
            }
        }
    }
    sources
}

/// A test file without a `mod` line is never compiled, and seems to pass.
#[test]
fn every_test_file_is_compiled() {
    let mut sources = Vec::new();
    let mut roots = BTreeSet::new();
    let mut open = vec![root().to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                sources.push(path);
            } else if name == "Cargo.toml" {
                // A target outside of Cargo's default directories.
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
