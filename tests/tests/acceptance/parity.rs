//! What docs/parity.md says of the proposals and of other programs: each row has an answer, and tests that exist, or the
//! reason why there is none.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

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

/// One row of a table.
#[derive(Debug)]
struct Row<'a> {
    asked: &'a str,
    here: &'a str,
    shown_by: &'a str,
}

/// The tests of every file of the project, by its path below the project's folder.
fn tests() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let mut open: Vec<PathBuf> = FOLDERS.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
                let text = fs::read_to_string(&path).unwrap();
                found.insert(name.to_owned(), tests_of(&text));
            }
        }
    }
    found
}

/// The functions of a file that have the attribute of a test.
fn tests_of(text: &str) -> BTreeSet<String> {
    let (mut is_test, mut names) = (false, BTreeSet::new());
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line
            .strip_prefix("async fn ")
            .or_else(|| line.strip_prefix("fn "))
        {
            if is_test {
                let name: &str = rest.split(['(', '<']).next().unwrap();
                names.insert(name.to_owned());
            }
            is_test = false;
        }
    }
    names
}

/// The rows of the tables that compare, without their heads.
fn rows(page: &str) -> Vec<Row<'_>> {
    let (mut is_compared, mut rows) = (false, Vec::new());
    for line in page.lines() {
        if line == "| asked for, or done there | here | shown by |" {
            is_compared = true;
        } else if !line.starts_with('|') {
            is_compared = false;
        } else if is_compared && !line.starts_with("| ---") {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [asked, here, shown_by] = cells[..] else {
                panic!("three cells, but for `|` in them: {line}");
            };
            rows.push(Row {
                asked,
                here,
                shown_by,
            });
        }
    }
    rows
}

/// What is wrong with a row; nothing if it is good.
fn wrong(row: &Row<'_>, tests: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut found = Vec::new();
    let is_reasoned = |answers: &[&str]| {
        let mut texts = answers
            .iter()
            .filter_map(|answer| row.here.strip_prefix(answer));
        texts.any(|text| text.len() > 10)
    };
    let is_as_there = row
        .here
        .strip_prefix("as there")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ';', ' ']));
    if row.asked.is_empty() {
        found.push("says nothing".to_owned());
    }
    if !is_as_there && !is_reasoned(&["better: ", "otherwise: ", "partly: ", "not there: "]) {
        found.push(format!("answers {:?}", row.here));
    }
    if row.shown_by == "none" {
        if !is_reasoned(&["otherwise: ", "not there: "]) {
            found.push("has neither a test nor a reason".to_owned());
        }
        return found;
    }
    let named: Vec<&str> = quoted(row.shown_by).collect();
    if named.is_empty() {
        found.push(format!("is shown by {:?}", row.shown_by));
    }
    for name in named {
        let exists = name
            .split_once("::")
            .and_then(|(file, test)| tests.get(file).map(|tests| tests.contains(test)));
        if exists != Some(true) {
            found.push(format!("there is no test {name}"));
        }
    }
    found
}

/// The rows of rukpak's own tests that the first cell of a row names: `B4, B5: …`, `B10 to B13, B22: …`.
fn named(asked: &str) -> Vec<String> {
    let Some((names, _)) = asked.split_once(": ") else {
        return Vec::new();
    };
    let number = |name: &str| -> Option<(char, u32)> {
        let letter = name.chars().next()?;
        let number = name.get(1..)?.parse().ok()?;
        letter.is_ascii_uppercase().then_some((letter, number))
    };
    let mut found = Vec::new();
    for part in names.split(", ") {
        let (first, last) = part.split_once(" to ").unwrap_or((part, part));
        if let (Some((letter, first)), Some((_, last))) = (number(first), number(last)) {
            found.extend((first..=last).map(|number| format!("{letter}{number}")));
        }
    }
    found
}

#[test]
fn every_row_has_an_answer_and_tests_that_exist() {
    let page = read("docs/parity.md");
    let (rows, tests) = (rows(&page), tests());
    assert!(rows.len() > 400, "{}", rows.len());
    let bad: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            let said = wrong(row, &tests);
            said.into_iter()
                .map(|said| format!("{:?}: {said}", row.asked))
        })
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// The page is for those who know the proposals and the programs by their names.
#[test]
fn every_proposal_and_every_program_has_a_table() {
    let page = read("docs/parity.md");
    let mut parts = page.split("\n#").map(|part| part.trim_start_matches('#'));
    let mut rows_of = |title: &str| {
        let part = parts.find(|part| part.trim_start().starts_with(title));
        rows(part.unwrap_or_else(|| panic!("nothing about {title}"))).len()
    };
    for title in [
        "Automatic Catalog Switching on Cluster Upgrades",
        "How OLM does it",
        "catalogsource-spec-update",
        "How OLM serves it",
        "Pods of catalogs",
        "Add FBC support to run bundle-upgrade",
        "operator-sdk",
        "Allow OLM Managed Operators to Specify a Max OpenShift Version",
        "How OLM does it",
        "Platform Operators Content Sourcing",
        "openshift/platform-operators",
        "Validation",
        "Rendering",
        "gRPC (`opm serve`)",
        "HTTP (catalogd)",
        "SQLite catalogs",
        "Checks of bundles",
        "rukpakctl",
        "Bundles of OLM converted",
        "Complaints about OLM",
    ] {
        assert!(rows_of(title) > 4, "{title}");
    }
}

#[test]
fn every_test_of_rukpak_has_a_row() {
    let page = read("docs/parity.md");
    let found: BTreeSet<String> = rows(&page)
        .iter()
        .flat_map(|row| named(row.asked))
        .collect();
    for (letter, last) in [
        ('B', 23),
        ('I', 15),
        ('G', 5),
        ('V', 10),
        ('C', 6),
        ('R', 2),
        ('K', 6),
    ] {
        for number in 1..=last {
            let row = format!("{letter}{number}");
            assert!(found.contains(&row), "{row} has no row");
        }
    }
}

#[test]
fn what_is_wrong_with_a_row_is_found() {
    let text = "#[test]\nfn a() {}\n\n    #[tokio::test]\n    async fn b() {}\n\nfn c() {}\n";
    let tests = BTreeMap::from([("x/y.rs".to_owned(), tests_of(text))]);
    let page = |here: &str, shown_by: &str| {
        format!(
            "| asked for, or done there | here | shown by |\n| --- | --- | --- |\n| row | {here} | {shown_by} |\n"
        )
    };
    for (here, shown_by, expected) in [
        ("as there", "`x/y.rs::a`", ""),
        ("as there, in other words", "`x/y.rs::a`<br>`x/y.rs::b`", ""),
        ("not there: nobody has wanted it", "none", ""),
        (
            "as there",
            "`x/y.rs::a`<br>`x/y.rs::c`",
            "there is no test x/y.rs::c",
        ),
        ("as there", "`x/z.rs::a`", "there is no test x/z.rs::a"),
        ("as there", "`a`", "there is no test a"),
        ("as there", "see there", "is shown by"),
        ("as there", "none", "neither a test nor a reason"),
        ("not there: ", "none", "answers"),
        ("as thereabouts", "`x/y.rs::a`", "answers"),
        ("it works", "`x/y.rs::a`", "answers"),
    ] {
        let page = page(here, shown_by);
        let said = wrong(&rows(&page)[0], &tests).join(", ");
        assert_eq!(said.is_empty(), expected.is_empty(), "{page}{said}");
        assert!(said.contains(expected), "{page}{said}");
    }
    assert_eq!(named("B10 to B12, B22: git"), ["B10", "B11", "B12", "B22"]);
    assert_eq!(named("Goal, story 1: none"), [""; 0]);
}
