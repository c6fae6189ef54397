//! Words and patterns that the documentation, the messages and the names of the project avoid.
//!
//! Each check has a limit for product code, for tests and for pages. A limit is lowered with every text that is rewritten,
//! and never raised. `make lint-language` runs this test.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail by panicking"
)]

use std::{fs, process::Command};

use regex::Regex;
use tests::root;

/// Name, limits (product code, tests, pages; `None` is not checked), and the expression.
type Check = (&'static str, [Option<usize>; 3], &'static str);

// The expressions are those of the style guide, one line each.
#[rustfmt::skip]
const CHECKS: &[Check] = &[
    ("reporting verbs", [Some(0), Some(0), Some(0)], r"(?i)\b(told|tells?|telling)\b"),
    ("indefinite persons", [Some(0), Some(0), Some(0)], r"(?i)\b(nobody|somebody|anybody|everybody)\b"),
    ("-ever words", [Some(1), Some(2), Some(3)], r"(?i)\b(whoever|whomever|whatever|whichever|wherever)\b"),
    ("vague nouns", [Some(20), Some(7), Some(10)], r"(?i)\b(things?|something)\b"),
    ("dated adverbs", [Some(0), Some(0), Some(0)], r"(?i)\b(anew|meanwhile|for ever|by now|at last|for good|again and again|ever more)\b"),
    ("any more", [Some(0), Some(0), Some(0)], r"(?i)\bany more\b"),
    ("is there", [Some(0), Some(1), Some(0)], r"(?i)\b(is|are|was|were|be) (not )?there\b|\bnot there\b"),
    ("there is", [Some(60), Some(20), Some(20)], r"(?i)\bthere (is|are|was|were)\b"),
    ("is no X, is none", [Some(10), Some(31), Some(0)], r"(?i)\b(is|are|was|were|be) no [a-z]|\b(is|are|has|have) none\b"),
    ("passive of looking", [Some(5), Some(1), Some(5)], r"(?i)\b(is|are|was|were|be) (wanted|asked for|looked (at|for)|waited for|meant|said)\b"),
    ("what-clauses", [Some(60), Some(10), Some(15)], r"(?i)\bwhat (is|was|are|were|has|had|comes|goes|stays|follows|they|it|we|he|can|cannot|may|would)\b"),
    ("those who", [Some(0), Some(0), Some(3)], r"(?i)\b(those|one|ones|all|others) who\b"),
    ("goes on, goes, gone", [Some(10), Some(1), Some(5)], r"(?i)\b(goes|go|going|went) on\b|\b(goes|gone)\b"),
    ("stays", [Some(20), Some(1), Some(10)], r"(?i)\b(stays?|stayed)\b"),
    ("it is tried", [Some(0), Some(2), Some(0)], r"(?i)\bit is (tried|said|told|looked|taken|made|listed|asked|waited|known|done|kept|had)\b"),
    ("idioms", [Some(0), Some(0), Some(0)], r"(?i)\b(see to|put right|put back|in the way|way back|on (its|their|the) way|looks? after|at the door|save (for|that|where)|but for)\b"),
    ("of its own", [Some(10), Some(0), Some(10)], r"(?i)\bof (its|their|our|his|one's) own\b"),
    ("pronouns for programs", [Some(0), Some(0), Some(0)], r"(?i)\b(he|him|his|himself)\b"),
    ("in words", [Some(0), Some(0), Some(2)], r"(?i)\b(in (the )?words|in (its|their|our) words|the words of)\b"),
    ("closure argument", [Some(0), Some(0), None], r"\|(&|mut |&mut )?it\|"),
    ("doc starts with a question word", [Some(0), Some(0), None], r"^\s*///? (What|Who|Whose|Which|How|Why|Where|When|Whom|Whatever|Whoever|Nobody|Somebody|By what|With what|To whom|Of what)\b"),
    ("doc starts with a pronoun or preposition", [Some(50), Some(14), None], r"^\s*/// (Its|Their|His|The same|The other|As|Of|By|From|In|On|At|To|With|So|Not|No|Nothing|Everything|It|They)\b"),
    ("module doc starts with a question word", [Some(0), Some(0), None], r"^//! (What|Who|Whose|Which|How|Why|Where|When|Whether|Whatever|Whoever|By which|With what|Of what|To what)\b"),
    ("heading starts with a question word", [None, None, Some(0)], r"^#+ (What|Who|Whose|How|Why|Whether|Look at)\b"),
    ("old type names", [Some(0), Some(0), None], r"\b(struct|enum|trait|type) (Known|Told|Wanted|Kept|Found|Seen|Shown|Said|Here|There|Of|Held|Made|Given|Brought|Fresh|Around|Mighty|Way|Judge|Words|Fate|Trouble|Patience|Pace|Tries|Turns|Wants|Left|Settled|Prepared|Named|Asked|Asks|Stand|Offerer|Unfit|Remembered|Remember|Listening|Reach|Nobody|Gone|Outage|Ended|Stay|Act|Pauses|Fights|Opponent|Leaving|Absent|Exit|Gains|Chooser|Junctors|Place|Whose)\b"),
    ("old constants", [Some(0), Some(2), None], r"\b(const|static) (PATIENCE|MOST\w*|LONGEST\w*|SHORTEST\w*|LARGEST\w*|FEW\w*|MANY|AGAIN|PAUSE|TRIES|AT_ONCE|REST|QUIET|STAYS|AWAY|SOON|LATE|FORGOTTEN|REMEMBERED|BELIEVED|TOLD|SHOWN|NAMED|KEPT|SAID|UNSAID|NOWHERE)\b"),
    ("old function names", [Some(1), Some(8), None], r"\bfn (of|tell\w*|told|said|says|look|looks|words|ask|asks|mend|mended|tidy|tidied|kept|keep|stays?|goes\w*|gone|leads\w*|wants?|seek|foretold|nevertheless|again|sees?|here|there|others|judge|shown?|rest|turn)\b"),
    ("old locals", [Some(20), Some(11), None], r"\blet (mut )?(told|said|wanted|kept|known|seen|shown|what|who|trouble|way|here|there|ours|words|it)\b"),
    ("test names", [Some(0), Some(1), None], r"fn (what|who|whose|nobody|somebody|whoever|whatever|everything|nothing|anything|everybody|it|all|none)_"),
    ("long test names", [Some(0), Some(0), None], r"fn [a-z0-9_]{61,}\("),
    ("British spelling", [Some(0), Some(0), Some(0)], r"(?i)\b(colour\w*|behaviour\w*|recognis\w+|normalis\w+|initialis\w+|serialis\w+|labelled|unlabelled|labelling|licences?|neighbour\w*|finalis\w+|favour\w*|organis\w+|optimis\w+|summaris\w+|fulfil)\b"),
    ("folder", [Some(30), Some(19), Some(0)], r"(?i)\bfolders?\b"),
    ("authority for CA", [Some(40), Some(6), Some(3)], r"(?i)\bauthorit(y|ies)\b"),
    ("rights", [Some(60), Some(25), Some(15)], r"(?i)\brights?\b"),
    ("pause, tries, patience", [Some(40), Some(23), Some(5)], r"(?i)\b(pauses?|tries|patience|pace)\b"),
    ("definition for CRD", [Some(80), Some(59), Some(25)], r"(?i)\bdefinitions?\b"),
    ("apiserver in prose", [Some(20), Some(16), Some(5)], r#"(?i)(^|[^-/`"\w])apiserver($|[^.:/\w])"#),
    ("table words of the parity pages", [None, None, Some(0)], r"\| (as there|otherwise:|partly:|not there:)"),
];

/// Scope of a text: index of its limit.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    Product = 0,
    Test = 1,
    Page = 2,
}

/// Returns the scope of a file, or `None` if it is not checked.
fn scope(path: &str) -> Option<Scope> {
    let mut dirs = ["/tests/", "/benches/", "/examples/"].into_iter();
    let is_test = path.starts_with("tests/")
        || dirs.any(|dir| path.contains(dir))
        || path.ends_with("tests.rs")
        || path.ends_with("test.rs");
    match path.rsplit_once('.')? {
        (_, "md") => Some(Scope::Page),
        (_, "rs") if path.contains("generated") => None,
        (_, "rs") if is_test => Some(Scope::Test),
        (_, "rs") => Some(Scope::Product),
        _ => None,
    }
}

/// Returns the checked lines of a text. Pages are checked without code.
fn lines(text: &str, mut scope: Scope) -> Vec<(usize, Scope, String)> {
    let code = Regex::new("`[^`]*`").unwrap();
    let mut is_fenced = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if scope == Scope::Product && line.starts_with("#[cfg(test)]") {
            scope = Scope::Test;
        }
        if scope == Scope::Page && line.starts_with("```") {
            is_fenced = !is_fenced;
        }
        if !is_fenced {
            let line = match scope {
                Scope::Page => code.replace_all(line, "``").into_owned(),
                Scope::Product | Scope::Test => line.to_owned(),
            };
            lines.push((number + 1, scope, line));
        }
    }
    lines
}

#[test]
fn no_check_exceeds_its_limit() {
    let mut list = Command::new("git");
    list.args(["ls-files", "*.rs", "*.md"]).current_dir(root());
    let listed = list.output().unwrap();
    assert!(listed.status.success());
    let expression = |check: &Check| Regex::new(check.2).unwrap();
    let checks = CHECKS.iter().map(|check| (check, expression(check)));
    let checks: Vec<(&Check, Regex)> = checks.collect();
    let mut found: Vec<[Vec<String>; 3]> = vec![Default::default(); checks.len()];
    for path in String::from_utf8(listed.stdout).unwrap().lines() {
        // This file has the words in its table.
        let Some(scope) = scope(path).filter(|_| path != "tests/tests/language.rs") else {
            continue;
        };
        let Ok(text) = fs::read_to_string(root().join(path)) else {
            continue; // Deleted, and not committed yet.
        };
        for (number, scope, line) in lines(&text, scope) {
            for ((check, expression), found) in checks.iter().zip(&mut found) {
                if check.1[scope as usize].is_some() && expression.is_match(&line) {
                    found[scope as usize].push(format!("{path}:{number}: {}", line.trim()));
                }
            }
        }
    }
    let mut problems = Vec::new();
    for (((name, limits, _), _), found) in checks.iter().zip(&found) {
        let scopes = ["product code", "tests", "pages"].into_iter().zip(limits);
        for ((scope, limit), places) in scopes.zip(found) {
            let count = places.len();
            if limit.is_some_and(|limit| count > limit) {
                let first: Vec<&String> = places.iter().take(20).collect();
                let problem = format!("{name}: {count} in {scope}, limit {limit:?}: {first:#?}");
                problems.push(problem);
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn code_in_pages_and_inline_tests_have_their_own_scope() {
    let page = lines("a `b` c\n```sh\nd\n```\ne", Scope::Page);
    let page: Vec<&str> = page.iter().map(|(_, _, line)| line.as_str()).collect();
    assert_eq!(page, ["a `` c", "```", "e"]);
    let source = lines("fn a() {}\n#[cfg(test)]\nmod tests {}", Scope::Product);
    let is_test = source.iter().map(|(_, scope, _)| *scope == Scope::Test);
    assert!(is_test.eq([false, true, true]));
    for (path, expected) in [
        ("docs/a.md", Some(2)),
        ("cli/src/a.rs", Some(0)),
        ("cli/src/a/tests.rs", Some(1)),
        ("cli/tests/a.rs", Some(1)),
        ("manifests/src/go_types/generated.rs", None),
        ("Makefile", None),
    ] {
        assert_eq!(scope(path).map(|scope| scope as usize), expected, "{path}");
    }
}
