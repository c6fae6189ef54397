//! The dependencies of the crates are those of the picture in the README.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    iter::Peekable,
    path::{Path, PathBuf},
    process::Command,
};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, token_stream};
use serde_json::Value;
use syn::{
    Ident, UsePath, UseTree,
    visit::{self, Visit},
};
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
    command.args(args).args(["--locked", "--offline"]);
    let output = command.current_dir(root()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn metadata() -> Value {
    // The workspace's crates are sufficient, and Cargo does not need the crates of other platforms.
    serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap()
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
    let packages = packages.map(|package| (texts(package, "name"), package));
    let members: BTreeMap<&str, &Value> = packages.collect();
    let edges = members.iter().map(|(name, package)| {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let linked = dependencies.filter(|dependency| dependency["kind"] != "dev");
        let linked = linked.map(|dependency| texts(dependency, "name"));
        let linked = linked.filter(|other| members.contains_key(other));
        (*name, linked.collect())
    });
    edges.collect()
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
            assert_eq!(edges[name], above, "crates that {name} uses");
        }
        above.extend(row);
    }
    for name in FOR_TESTS {
        assert_eq!(edges[name], BTreeSet::new(), "crates that {name} uses");
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
        let linked = tree.lines().filter_map(|line| line.split(' ').next());
        let linked: BTreeSet<&str> = linked.collect();
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
    let mut paths = sources(&api);
    paths.retain(|path| fs::read_to_string(path).unwrap().contains("#[kube("));
    let name = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let modules: BTreeSet<String> = paths.iter().map(name).collect();
    assert!(modules.contains("bundle_instance") && modules.contains("bundle"));
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

/// Returns the tokens of a source without the items that are compiled only for tests.
pub(super) fn without_tests(tokens: TokenStream) -> TokenStream {
    let mut kept = TokenStream::new();
    // Attributes and documentation of the next item.
    let mut attributes = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_mark = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#');
        let attribute = tokens.next_if(|token| is_mark && matches!(token, TokenTree::Group(_)));
        match (token, attribute) {
            (_, Some(attribute)) if attribute.to_string().replace(' ', "") == "[cfg(test)]" => {
                attributes.clear();
                skip_item(&mut tokens);
            }
            (mark, Some(attribute)) => attributes.extend([mark, attribute]),
            (token, None) => {
                kept.extend(attributes.drain(..));
                kept.extend([match token {
                    TokenTree::Group(group) => {
                        Group::new(group.delimiter(), without_tests(group.stream())).into()
                    }
                    token => token,
                }]);
            }
        }
    }
    kept.extend(attributes);
    kept
}

/// Skips an item, which ends with its braces, with a semicolon, or with both.
fn skip_item(tokens: &mut Peekable<token_stream::IntoIter>) {
    let is_semicolon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ';');
    while let Some(token) = tokens.next() {
        let is_body =
            matches!(&token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        if is_body {
            tokens.next_if(is_semicolon);
        }
        if is_body || is_semicolon(&token) {
            return;
        }
    }
}

/// Collects the top-level modules of a crate that its code names.
#[derive(Default)]
struct UsedModules(BTreeSet<String>);

impl UsedModules {
    fn add(&mut self, first: &Ident, second: &Ident) {
        if first == "crate" {
            self.0.insert(second.to_string());
        }
    }
}

impl<'ast> Visit<'ast> for UsedModules {
    fn visit_use_path(&mut self, path: &'ast UsePath) {
        let first = &path.ident;
        let mut trees = vec![&*path.tree];
        while let Some(tree) = trees.pop() {
            match tree {
                UseTree::Path(next) => self.add(first, &next.ident),
                UseTree::Name(next) => self.add(first, &next.ident),
                UseTree::Rename(next) => self.add(first, &next.ident),
                UseTree::Group(group) => trees.extend(&group.items),
                UseTree::Glob(_) => {}
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let (Some(first), Some(second)) = (path.segments.first(), path.segments.get(1)) {
            self.add(&first.ident, &second.ident);
        }
        visit::visit_path(self, path);
    }
}

/// Returns the top-level modules of a crate, each with the top-level modules that it uses.
fn module_edges(source: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in sources(source) {
        let relative = path.strip_prefix(source).unwrap().with_extension("");
        let names: Vec<_> = relative.iter().map(|name| name.to_string_lossy()).collect();
        let mut all = names.iter();
        let is_test = all.any(|name| matches!(&**name, "tests" | "testing" | "fixtures"));
        if is_test || matches!(&*names[0], "lib" | "main" | "bin") {
            continue;
        }
        let tokens = without_tests(fs::read_to_string(&path).unwrap().parse().unwrap());
        let file: syn::File = syn::parse2(tokens).unwrap();
        let mut used = UsedModules::default();
        used.visit_file(&file);
        let module = edges.entry(names[0].to_string());
        module.or_default().extend(used.0);
    }
    let modules: BTreeSet<String> = edges.keys().cloned().collect();
    for (module, used) in &mut edges {
        used.retain(|other| other != module && modules.contains(other));
    }
    edges
}

#[test]
fn top_level_modules_form_no_cycle() {
    let metadata = metadata();
    let mut cycles = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = texts(package, "name");
        let source = Path::new(texts(package, "manifest_path")).with_file_name("src");
        let mut edges = module_edges(&source);
        // A module that uses no remaining module is in no cycle.
        while let Some(free) = edges
            .iter()
            .find_map(|(module, used)| used.is_empty().then(|| module.clone()))
        {
            edges.remove(&free);
            for used in edges.values_mut() {
                used.remove(&free);
            }
        }
        if !edges.is_empty() {
            cycles.insert(name, edges);
        }
    }
    assert_eq!(cycles, BTreeMap::new(), "modules that use each other");
}

#[test]
fn cycles_of_modules_are_detected() {
    let dir = tempfile::tempdir().unwrap();
    let with_tests = "/// A test.\n#[cfg(test)]\nuse crate::d::{S, T};\nuse crate::{b::X, c::{D, E}};\n#[cfg(test)]\nmod tests { use crate::d::T; }";
    for (name, text) in [
        ("a.rs", with_tests),
        ("b.rs", "fn f() -> crate::e::Y { g() }"),
        ("c.rs", "pub(crate) use crate::X;"),
        ("d.rs", ""),
        ("e/inner.rs", "use crate::a;"),
        ("e.rs", "mod inner;"),
    ] {
        tests::write(dir.path(), name, text);
    }
    let edges = module_edges(dir.path()).into_iter();
    let text = edges.map(|(module, used)| format!("{module}{used:?}"));
    let text: Vec<String> = text.collect();
    assert_eq!(text.join(" "), r#"a{"b", "c"} b{"e"} c{} d{} e{"a"}"#);
}

pub(super) fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                sources.push(path);
            }
        }
    }
    sources.sort();
    sources
}

/// A test file without a `mod` line is never compiled, and seems to pass.
#[test]
fn every_test_file_is_compiled() {
    let metadata = metadata();
    let (mut files, mut roots) = (BTreeSet::new(), BTreeSet::new());
    for package in metadata["packages"].as_array().unwrap() {
        let manifest = Path::new(texts(package, "manifest_path"));
        files.extend(sources(manifest.parent().unwrap()));
        let targets = package["targets"].as_array().unwrap().iter();
        roots.extend(targets.map(|target| PathBuf::from(texts(target, "src_path"))));
    }
    let text = |path: &PathBuf| (path.clone(), fs::read_to_string(path).unwrap());
    let contents: BTreeMap<PathBuf, String> = files.iter().map(text).collect();
    for path in files.difference(&roots) {
        let stem = path.file_stem().unwrap().to_string_lossy();
        let dir = path.parent().unwrap();
        let is_near = |other: &PathBuf| {
            other.parent().unwrap() == dir
                || other.with_extension("") == dir
                || roots.contains(other) && other.parent() == dir.parent()
        };
        let declaration = format!("mod {stem}");
        let declares = |line: &str| line.trim().trim_end_matches(';').ends_with(&declaration);
        let mut near = contents.iter().filter(|(other, _)| is_near(other));
        let is_declared = near.any(|(_, text)| text.lines().any(declares));
        assert!(is_declared, "{} is declared nowhere", path.display());
    }
}
