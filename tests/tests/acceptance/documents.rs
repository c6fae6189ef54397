//! What the documentation names exists: tests, and reasons of conditions.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The names of all functions of the provisioner, of the command, of their tests, and of those on a node.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let folders = ["provisioner", "cli", "tests/tests/e2e"];
    let mut open: Vec<PathBuf> = folders.map(|folder| root().join(folder)).into();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let text = fs::read_to_string(path).unwrap();
                let named = text.lines().filter_map(|line| {
                    let (_, rest) = line.split_once("fn ")?;
                    rest.split_once(['(', '<']).map(|(name, _)| name.to_owned())
                });
                names.extend(named);
            }
        }
    }
    names
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_row_of_rukpak_has_an_answer_and_every_test_that_is_named_exists() {
    let page = read("docs/rukpak-parity.md");
    let functions = functions();
    let is_test = |name: &&str| {
        name.matches('_').count() > 2
            && name
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    let named: Vec<&str> = page.lines().flat_map(quoted).filter(is_test).collect();
    assert!(named.len() > 50, "{named:?}");
    for name in named {
        assert!(functions.contains(name), "there is no test {name}");
    }

    let expected = [
        ("B", 23),
        ("I", 15),
        ("G", 5),
        ("V", 10),
        ("C", 6),
        ("R", 2),
        ("K", 6),
    ];
    for (letter, last) in expected {
        for number in 1..=last {
            let start = format!("| {letter}{number} | ");
            let row = page.lines().find(|line| line.starts_with(&start));
            let answer = row.and_then(|row| row.rsplit('|').nth(1));
            assert!(
                answer.is_some_and(|answer| !answer.trim().is_empty()),
                "{letter}{number} has no answer"
            );
        }
    }
}

#[test]
fn every_reason_of_a_condition_is_explained() {
    for (guide, sources, most) in [
        (
            "docs/instances.md",
            &["manifests/src/api/condition.rs"][..],
            20,
        ),
        (
            "docs/platform-operators.md",
            &[
                "manifests/src/api/platform.rs",
                "provisioner/src/platform/aggregate.rs",
                "provisioner/src/platform/approval.rs",
                "provisioner/src/platform/gate.rs",
            ],
            15,
        ),
    ] {
        let page = read(guide);
        let explained: BTreeSet<&str> = page.lines().flat_map(quoted).collect();
        let texts: Vec<String> = sources.iter().map(|source| read(source)).collect();
        let reasons: Vec<&str> = texts
            .iter()
            .flat_map(|source| {
                let (_, reasons) = source.split_once("pub mod reason").unwrap();
                let (reasons, _) = reasons.split_once("\n}").unwrap();
                reasons.lines()
            })
            .filter(|line| line.contains("pub const"))
            .filter_map(|line| line.split('"').nth(1))
            .collect();
        assert!(reasons.len() > most, "{reasons:?}");
        for reason in reasons {
            assert!(explained.contains(reason), "{guide}: {reason}");
        }
    }
}
