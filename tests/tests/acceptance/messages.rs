//! All texts of the product for people, in one list: conditions, errors, events, log lines and command output. A change of
//! a message changes `tests/messages.txt`, so that a reviewer sees it beside all others; `RUKPAK_GENERATE=write` (`make
//! generate`) writes the list again.

use std::{collections::BTreeSet, env, fmt::Write as _, fs, path::Path};

use proc_macro2::{TokenStream, TokenTree};
use tests::root;

use super::architecture::{sources, without_tests};

const CRATES: &str = "manifests convert unpacker catalog apply provisioner cli";

/// Returns whether a text has words for people, and not only a name, a path or a format.
fn has_words(text: &str) -> bool {
    let letters: Vec<char> = text.chars().collect();
    let mut parts = letters.windows(3);
    parts.any(|part| part[0].is_alphanumeric() && part[1] == ' ' && part[2].is_alphabetic())
}

/// Collects the string literals with words, without documentation and other attributes than those of errors.
fn collect(tokens: TokenStream, found: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                tokens.next_if(|token| token.to_string() == "!");
                if let Some(TokenTree::Group(attribute)) = tokens.next()
                    && attribute.stream().to_string().starts_with("error")
                {
                    collect(attribute.stream(), found);
                }
            }
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Literal(literal) => {
                let text = syn::parse_str::<syn::LitStr>(&literal.to_string());
                let text = text.map(|text| text.value());
                found.extend(text.ok().filter(|text| has_words(text)));
            }
            TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
    }
}

/// Returns whether a file has only tests or generated tables.
fn is_excluded(path: &Path) -> bool {
    let excluded = ["tests", "testing", "fixtures", "model", "generated"];
    let path = path.with_extension("");
    path.iter()
        .any(|name| excluded.iter().any(|other| name == *other))
}

fn list() -> String {
    let mut list = String::new();
    for name in CRATES.split(' ') {
        let source = root().join(name).join("src");
        for file in sources(&source) {
            if is_excluded(file.strip_prefix(&source).unwrap()) {
                continue;
            }
            let mut found = Vec::new();
            let tokens = fs::read_to_string(&file).unwrap().parse().unwrap();
            collect(without_tests(tokens), &mut found);
            if found.is_empty() {
                continue;
            }
            writeln!(list, "\n{}", file.strip_prefix(root()).unwrap().display()).unwrap();
            for text in found {
                let text = text.escape_debug().to_string();
                let text = text.replace("\\\"", "\"").replace("\\'", "'");
                writeln!(list, "  {text}").unwrap();
            }
        }
    }
    list
}

#[test]
fn list_has_every_message() {
    let path = root().join("tests/messages.txt");
    let list = list();
    if env::var_os("RUKPAK_GENERATE").is_some_and(|value| value == "write") {
        fs::write(&path, &list).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let old: BTreeSet<&str> = written.lines().collect();
    let new: BTreeSet<&str> = list.lines().collect();
    let removed = old.difference(&new).map(|line| format!("-{line}\n"));
    let added = new.difference(&old).map(|line| format!("+{line}\n"));
    let changes: String = removed.chain(added).collect();
    let remedy = "run \"make generate\", and review the changes";
    assert!(
        written == list,
        "tests/messages.txt is outdated; {remedy}:\n{changes}"
    );
}

#[test]
fn only_texts_of_the_product_are_collected() {
    let source = r##"
        //! Not this one.
        #[error("failed to read {path}; check it")]
        struct E;
        /// Nor this one.
        fn f() { warn!(name, "watch failed; retrying"); g("name", r#"a "b" has c"#); }
        #[cfg(test)]
        mod tests { fn t() { h("not in the product"); } }
        const X: &str = "the last one";
    "##;
    let mut found = Vec::new();
    collect(without_tests(source.parse().unwrap()), &mut found);
    let all = "failed to read {path}; check it|watch failed; retrying|a \"b\" has c|the last one";
    assert_eq!(found.join("|"), all);
}
