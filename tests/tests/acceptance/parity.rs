//! docs/parity.md and the pages beside it: each row has an id, an answer, and tests or the reason for their absence.
//!
//! A test names the rows that it proves in the line above its attribute: `// parity: run-3, sdk-12`. These marks are the
//! source of the last column of the pages: `RUKPAK_DOCS=write cargo test --workspace --test acceptance parity` writes it.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs, mem,
    path::PathBuf,
};

use super::architecture::sources;
use super::documents::{read, root};

/// The pages with comparison tables. docs/parity.md explains their columns.
const PAGES: [&str; 5] = [
    "docs/parity-catalogs.md",
    "docs/parity-run-bundle.md",
    "docs/parity-platform.md",
    "docs/parity-opm.md",
    "docs/parity-rukpak.md",
];
const HEADER: &str = "| id | asked for, or done there | here | shown by |";

#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    id: &'a str,
    requirement: &'a str,
    answer: &'a str,
}

/// The tests that the marks of sources assign to rows.
#[derive(Debug, Default)]
struct Marks {
    /// Tests by the id of a row, in the order of paths and lines.
    tests: BTreeMap<String, Vec<String>>,
    problems: Vec<String>,
}

impl Marks {
    /// The marks of all crates.
    fn load() -> Self {
        let entries = fs::read_dir(root()).unwrap();
        let mut crates: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        crates.retain(|path| path.join("Cargo.toml").exists());
        let name = |path: PathBuf| path.strip_prefix(root()).unwrap().display().to_string();
        let names = crates.iter().flat_map(|path| sources(path)).map(name);
        let names: BTreeSet<String> = names.collect();
        let mut marks = Self::default();
        for name in &names {
            marks.scan(name, &read(name));
        }
        marks
    }

    fn scan(&mut self, path: &str, text: &str) {
        let (mut mark, mut of_test): (Option<Vec<&str>>, Vec<&str>) = (None, Vec::new());
        // The empty line ends a mark in the last line.
        for (number, line) in text.lines().chain([""]).map(str::trim).enumerate() {
            let is_test = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            match mark.take() {
                Some(ids) if is_test => of_test = ids,
                Some(_) => {
                    let problem = "the mark is not in the line above the attribute of a test";
                    self.problems.push(format!("{path}:{number}: {problem}"));
                }
                None if is_test => of_test.clear(),
                None => {}
            }
            if let Some(ids) = line.strip_prefix("// parity: ") {
                mark = Some(ids.split(", ").collect());
            } else if is_like_a_mark(line) {
                let problem = format!("{line:?} is not a mark; write `// parity: id, id`");
                self.problems
                    .push(format!("{path}:{}: {problem}", number + 1));
            } else if let Some(name) = function(line) {
                for id in mem::take(&mut of_test) {
                    let tests = self.tests.entry(id.to_owned()).or_default();
                    tests.push(format!("{path}::{name}"));
                }
            }
        }
    }
}

fn is_like_a_mark(line: &str) -> bool {
    let comment = line.strip_prefix("//").unwrap_or_default();
    let text = comment.trim_start_matches(['/', '!', ' ']);
    text.to_ascii_lowercase().starts_with("parity:")
}

fn function(line: &str) -> Option<&str> {
    let is_qualifier = |word: &&str| word.starts_with("pub") || *word == "async";
    let mut words = line.split_whitespace().skip_while(is_qualifier);
    (words.next()? == "fn").then_some(())?;
    words.next()?.split(['(', '<']).next()
}

fn row(line: &str) -> Row<'_> {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
    let [id, requirement, answer, _shown_by] = cells[..] else {
        panic!("four cells, without `|` in any: {line}");
    };
    Row {
        id,
        requirement,
        answer,
    }
}

/// The lines of a page, each with its row of a comparison table.
fn lines(page: &str) -> impl Iterator<Item = (&str, Option<Row<'_>>)> {
    let mut is_compared = false;
    page.lines().map(move |line| {
        let is_row = is_compared && line.starts_with('|') && !line.starts_with("| ---");
        is_compared = line == HEADER || is_compared && line.starts_with('|');
        (line, is_row.then(|| row(line)))
    })
}

fn rows(page: &str) -> Vec<Row<'_>> {
    lines(page).filter_map(|(_, row)| row).collect()
}

fn concatenated_pages() -> String {
    PAGES.map(read).concat()
}

fn problems(page: &str, marks: &Marks) -> Vec<String> {
    let (mut found, mut ids) = (marks.problems.clone(), BTreeSet::new());
    for row in rows(page) {
        let mut report = |problem: &str| found.push(format!("{}: {problem}", row.id));
        let has_reason = |answers: &[&str]| {
            let reason = |kind: &&str| row.answer.strip_prefix(*kind);
            let mut reasons = answers.iter().filter_map(reason);
            reasons.any(|reason| reason.len() > 10)
        };
        let rest = row.answer.strip_prefix("same");
        let is_same = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ';', ' ']));
        let is_id = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '-');
        if row.id.is_empty() || !row.id.chars().all(is_id) {
            report("the id has other characters than a-z, 0-9 and -");
        }
        if !ids.insert(row.id) {
            report("two rows have this id");
        }
        if row.requirement.is_empty() {
            report("the first cell is empty");
        }
        if !is_same && !has_reason(&["better: ", "different: ", "partial: ", "missing: "]) {
            report(&format!("the answer is {:?}", row.answer));
        }
        let tests = marks.tests.get(row.id);
        if tests.is_none() && !has_reason(&["different: ", "missing: "]) {
            report("neither a mark nor a reason");
        }
        let distinct: BTreeSet<&String> = tests.into_iter().flatten().collect();
        if distinct.len() != tests.map_or(0, Vec::len) {
            report("a test has this id twice");
        }
    }
    let marked = marks.tests.iter();
    let unknown = marked.filter(|(id, _)| !ids.contains(id.as_str()));
    found.extend(unknown.map(|(id, tests)| format!("{tests:?}: no row has the id {id:?}")));
    found
}

/// Returns the page with the tests of each row in its last column.
fn fill(page: &str, marks: &Marks) -> String {
    let filled = lines(page).map(|(line, row)| {
        let Some(row) = row else {
            return format!("{line}\n");
        };
        let quote = |tests: &Vec<String>| {
            let tests = tests.iter().map(|test| format!("`{test}`"));
            tests.collect::<Vec<_>>().join("<br>")
        };
        let shown_by = marks.tests.get(row.id).map_or("none".to_owned(), quote);
        let (id, answer) = (row.id, row.answer);
        format!("| {id} | {} | {answer} | {shown_by} |\n", row.requirement)
    });
    filled.collect()
}

/// The tests of rukpak that the first cell of a row names: `B4, B5: …`, `B10 to B13, B22: …`.
fn named(requirement: &str) -> Vec<String> {
    let Some((names, _)) = requirement.split_once(": ") else {
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
fn every_row_has_an_answer_and_tests_or_a_reason() {
    let (all, marks) = (concatenated_pages(), Marks::load());
    assert!(rows(&all).len() > 400, "{}", rows(&all).len());
    let problems = problems(&all, &marks);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for path in PAGES {
        let page = read(path);
        let filled = fill(&page, &marks);
        if env::var("RUKPAK_DOCS").is_ok_and(|mode| mode == "write") {
            fs::write(root().join(path), filled).unwrap();
            continue;
        }
        for (number, (line, expected)) in (1..).zip(page.lines().zip(filled.lines())) {
            let remedy = "RUKPAK_DOCS=write corrects the page";
            assert_eq!(line, expected, "{path}:{number}; {remedy}");
        }
        assert_eq!(page, filled);
    }
}

/// Readers know the proposals and the programs by their names.
#[test]
fn every_proposal_and_every_program_has_a_table() {
    let page = concatenated_pages();
    let mut parts = page.split("\n#").map(|part| part.trim_start_matches('#'));
    let mut rows_of = |title: &str| {
        let part = parts.find(|part| part.trim_start().starts_with(title));
        rows(part.unwrap_or_else(|| panic!("nothing about {title}"))).len()
    };
    let titles = "Automatic Catalog Switching on Cluster Upgrades|Behavior of OLM|catalogsource-spec-update|\
        Catalog pods of OLM|Pods of catalogs|Add FBC support to run bundle-upgrade|operator-sdk|\
        Allow OLM Managed Operators to Specify a Max OpenShift Version|Behavior of OLM|\
        Platform Operators Content Sourcing|openshift/platform-operators|Validation|Rendering|\
        gRPC (`opm serve`)|HTTP (catalogd)|SQLite catalogs|Checks of bundles|rukpakctl|\
        Bundles of OLM converted|Complaints about OLM";
    for title in titles.split('|') {
        assert!(rows_of(title) > 4, "{title}");
    }
}

#[test]
fn every_test_of_rukpak_has_a_row() {
    let page = concatenated_pages();
    let rows = rows(&page).into_iter();
    let found: BTreeSet<String> = rows.flat_map(|row| named(row.requirement)).collect();
    for (letter, last) in tests::pairs("B 23, I 15, G 5, V 10, C 6, R 2, K 6") {
        for number in 1..=last.parse::<u32>().unwrap() {
            let row = format!("{letter}{number}");
            assert!(found.contains(&row), "{row} has no row");
        }
    }
}

#[test]
fn problems_of_rows_and_marks_are_reported() {
    let page = |rows: &[[&str; 2]]| {
        let row = |[id, answer]: &[&str; 2]| format!("| {id} | row | {answer} | |");
        let rows: Vec<String> = rows.iter().map(row).collect();
        let rows = rows.join("\n");
        format!("{HEADER}\n| --- | --- | --- | --- |\n{rows}\n\n")
    };
    let marks = |text: &str| {
        let mut marks = Marks::default();
        marks.scan("x/y.rs", text);
        marks
    };
    let test = "// parity: a\n#[test]\nfn shown() {}\n";
    for (answer, source, expected) in tests::rows![
        "same", test => "";
        "same, in other words", test => "";
        "missing: never requested", "" => "";
        "missing: never requested", test => "";
        "missing: ", "" => "a: the answer is";
        "sameness", test => "a: the answer is";
        "works", test => "a: the answer is";
        "same", "#[test]\nfn shown() {}\n" => "a: neither a mark nor a reason";
        "better: and much faster", "" => "a: neither a mark nor a reason";
        "same", "// parity: a, b-1\n#[test]\nfn shown() {}\n" => "[\"x/y.rs::shown\"]: no row has the id \"b-1\"";
        "same", "// parity: a, a\n#[test]\nfn shown() {}\n" => "a: a test has this id twice";
        "same", "// parity: a\nfn helper() {}\n" => "x/y.rs:1: the mark is not";
        "same", "// parity: a\n\n#[test]\nfn shown() {}\n" => "x/y.rs:1: the mark is not";
        "same", "// parity: a\n// parity: a\n#[test]\nfn shown() {}\n" => "x/y.rs:1: the mark is not";
        "same", "// parity: a" => "x/y.rs:1: the mark is not";
        "same", "\n//parity: a\n#[test]\nfn shown() {}\n" => "x/y.rs:2: \"//parity: a\" is not a mark";
        "same", "/// Parity:a\n#[test]\nfn shown() {}\n" => "is not a mark";
    ] {
        let problems = problems(&page(&[["a", answer]]), &marks(source)).join("\n");
        let row = format!("{answer} {source}{problems}");
        assert_eq!(problems.is_empty(), expected.is_empty(), "{row}");
        assert!(problems.contains(expected), "{row}");
    }
    for (rows, expected) in tests::rows![
        [["a", "same"], ["a", "same"]] => "a: two rows have this id";
        [["a", "same"], ["A 1", "different: in another way"]] => "A 1: the id has other characters";
    ] {
        let problems = problems(&page(&rows), &marks(test)).join("\n");
        assert!(problems.contains(expected), "{problems}");
    }
}

#[test]
fn rows_list_the_tests_that_name_them() {
    let mut marks = Marks::default();
    let text = "// parity: b, a\n#[test]\n#[expect(dead_code)]\nfn one() {}\n\nfn helper() {}\n\n    \
                // parity: b\n    #[tokio::test(flavor = \"multi_thread\")]\n    pub(crate) async fn two<'a>() {}\n\n\
                #[test]\nfn three() {}\n";
    marks.scan("x/y.rs", text);
    assert_eq!(marks.problems, [""; 0]);
    let page = format!(
        "Text | text\n\n{HEADER}\n| --- | --- | --- | --- |\n| a | row | as there | `old` |\n| b | row | as there | none |\n\
         | c | row | otherwise: in another way | `old` |\n\n| a | table |\n"
    );
    let filled = page
        .replacen("`old`", "`x/y.rs::one`", 1)
        .replace("| none", "| `x/y.rs::one`<br>`x/y.rs::two`")
        .replace("`old`", "none");
    assert_eq!(fill(&page, &marks), filled);
    assert_eq!(fill(&filled, &marks), filled);
    assert_eq!(named("B10 to B12, B22: git"), ["B10", "B11", "B12", "B22"]);
    assert_eq!(named("Goal, story 1: none"), [""; 0]);
}
