//! Tables of acceptance lists, which stand above the tests that try them: what they name exists, and no row is missing.

use std::{collections::BTreeSet, fs, path::PathBuf};

use super::documents::{quoted, read, root};

/// The folders that have tests.
const FOLDERS: &[&str] = &[
    "catalog",
    "cli",
    "convert",
    "manifests",
    "provisioner",
    "tests",
    "unpacker",
];

/// The text of every source in which something is tried, by its path below the project's folder.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = FOLDERS.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
                found.push((name.to_owned(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_start).filter_map(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        line.strip_prefix("fn ")?.split(['(', '<']).next()
    })
}

/// What a row of a table names: the last part of a path, if it is a sentence and not a word of something else.
fn names(row: &str) -> impl Iterator<Item = &str> {
    let names = quoted(row).map(|it| it.rsplit("::").next().unwrap_or(it));
    names.filter(|it| {
        let is_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        it.matches('_').count() > 1 && it.chars().all(|it| it == '_' || is_name(it))
    })
}

fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("//! | "))
}

#[test]
fn what_a_table_names_exists() {
    let sources = sources();
    let known: BTreeSet<&str> = sources.iter().flat_map(|it| functions(&it.1)).collect();
    let tables = sources.iter().filter(|it| it.0.contains("tests"));
    let (mut count, mut missing) = (0, Vec::new());
    for (path, text) in tables {
        for name in rows(text).flat_map(names) {
            count += 1;
            if !known.contains(name) {
                missing.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(count > 100, "{count}");
}

#[test]
fn no_row_of_a_numbered_list_is_missing() {
    for (path, numbers) in [
        ("provisioner/tests/controllers/catalogs.rs", 66..=86),
        ("cli/tests/cluster/run.rs", 87..=90),
    ] {
        let text = read(path);
        let rows: Vec<&str> = rows(&text).collect();
        for number in numbers {
            let begin = format!("{number} ");
            let row = rows.iter().find(|row| row.starts_with(&begin));
            let count = row.map_or(0, |row| names(row).count());
            assert!(count > 0, "{path}: row {number}");
        }
    }
}
