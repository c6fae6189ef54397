//! The documentation explains all reasons of conditions, and its tables are well-formed.

use std::{collections::BTreeSet, fs, path::PathBuf};

pub(super) use tests::root;

/// Reads a page or a source by its path below the project's directory.
pub(super) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The code spans of a text.
pub(super) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Sources with reasons of conditions, and the pages that explain them.
const GUIDES: [(&str, &str); 7] = tests::rows![
    "manifests/src/api/condition.rs" => "docs/conditions.md";
    "manifests/src/api/platform_operator.rs" => "docs/platform-operators.md";
    "provisioner/src/controllers/catalog_source/status.rs" => "docs/platform-catalogs.md";
    "provisioner/src/controllers/catalog_source/template_resolution.rs" => "docs/catalog-image-templates.md";
    "provisioner/src/controllers/cluster_operator/model.rs" => "docs/cluster-operators.md";
    "provisioner/src/controllers/platform_operator/approval.rs" => "docs/platform-operators.md";
    "provisioner/src/controllers/cluster_operator/upgradeable.rs" => "docs/cluster-upgrades.md";
];

/// The sources below a directory without tests, as paths below the project's directory.
fn sources(dir: &str) -> Vec<String> {
    let paths = super::architecture::sources(&root().join(dir)).into_iter();
    let paths = paths.map(|path| path.strip_prefix(root()).unwrap().display().to_string());
    paths.filter(|path| !path.contains("/tests")).collect()
}

/// The reasons of a source: the constants of its module `reason`.
fn reasons(text: &str) -> Vec<&str> {
    let Some((_, reasons)) = text.split_once("mod reason {") else {
        return Vec::new();
    };
    let (reasons, _) = reasons.split_once("\n}").unwrap();
    let constants = reasons.lines().filter(|line| line.contains("const "));
    let values = constants.filter_map(|line| line.split('"').nth(1));
    values.collect()
}

/// Lines of a source with a reason that is not such a constant, so that no test would require an explanation.
fn nameless(text: &str) -> Vec<&str> {
    let (code, _) = text.split_once("mod tests {").unwrap_or((text, ""));
    // A CamelCase word.
    let is_word = |text: &str| {
        let is_upper = |letter: char| letter.is_ascii_uppercase();
        text.matches(is_upper).count() > 1
            && text.starts_with(is_upper)
            && text.contains(|letter: char| letter.is_ascii_lowercase())
            && text.chars().all(|letter| letter.is_ascii_alphanumeric())
    };
    // The reason is the first string after `reason`, and any argument of `condition_update`.
    let begins = "reason: \"|reason = \"|reason(\"|condition_update(".split('|');
    let has_reason = |line: &&str| {
        let mut begins = begins.clone();
        let found = begins.find_map(|start| Some((start, line.find(start)?)));
        found.is_some_and(|(begin, at)| {
            let rest = &line[at + begin.trim_end_matches('"').len()..];
            rest.split('"').skip(1).step_by(2).any(is_word)
        })
    };
    code.lines().map(str::trim).filter(has_reason).collect()
}

#[test]
fn every_reason_of_a_condition_is_explained() {
    let mut found = BTreeSet::new();
    let mut count = 0;
    for path in ["manifests/src", "provisioner/src"].map(sources).concat() {
        let text = read(&path);
        let nameless = nameless(&text);
        assert!(nameless.is_empty(), "{path}: {nameless:?}");
        let reasons = reasons(&text);
        if reasons.is_empty() {
            continue;
        }
        let guide = GUIDES.iter().find(|(source, _)| *source == path);
        let (_, guide) = guide.unwrap_or_else(|| panic!("{path}: no page explains {reasons:?}"));
        let page = read(guide);
        let explained: BTreeSet<&str> = page.lines().flat_map(quoted).collect();
        for reason in &reasons {
            assert!(explained.contains(reason), "{guide}: {reason}");
        }
        count += reasons.len();
        found.insert(path);
    }
    let named = GUIDES.map(|(source, _)| source.to_owned());
    assert_eq!(found, BTreeSet::from(named));
    assert!(count > 45, "{count}");
    let code = "let resolved = condition_update(IMAGE, false, \"TwoTemplates\", &why);\nreason: \"NotReady\".to_owned(),\n\
                condition_update(left.len(), named, \"left\")\nreason: reason::KEPT,\n#[expect(a, reason = \"it is a table\")]";
    let lines: Vec<&str> = code.lines().take(2).collect();
    assert_eq!(nameless(code), lines);
}

/// The pages of the project's directory, of `docs`, and of the tests' cluster.
fn pages() -> Vec<PathBuf> {
    let dirs = ["", "docs", "tests/cluster"].map(|dir| root().join(dir));
    let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
    let mut pages: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|ext| ext == "md"));
    pages.sort();
    pages
}

/// Rows with another number of cells than the first row of their table, with line numbers.
fn torn(page: &str) -> Vec<(usize, &str)> {
    let (mut is_code, mut cells, mut found) = (false, None, Vec::new());
    for (line, text) in (1..).zip(page.lines()) {
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code || !text.starts_with('|') {
            cells = None;
            continue;
        }
        let of_row = text.replace("\\|", "").matches('|').count();
        let of_table = *cells.get_or_insert(of_row);
        if of_row != of_table || !text.ends_with('|') {
            found.push((line, text));
        }
    }
    found
}

#[test]
fn every_row_of_a_table_has_its_cells() {
    let pages = pages();
    assert!(pages.len() > 15, "{pages:?}");
    for path in pages {
        let page = fs::read_to_string(&path).unwrap();
        let torn = torn(&page);
        assert!(torn.is_empty(), "{}: {torn:?}", path.display());
    }
    let page =
        "| a | b |\n| --- | --- |\n| 1 | `2\\|3` |\n| 1 | 2 | 3 |\n| 1 |\n| 1 | 2\n\n| c |\n| 1 |";
    let lines: Vec<usize> = torn(page).into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, [4, 5, 6]);
}
