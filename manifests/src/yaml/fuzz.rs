//! Mutations of YAML, and properties that hold for every input.
//!
//! `RUKPAK_CORPUS=<directory>` checks all YAML files below a directory as well.

use std::{env, fs, path::PathBuf};

use ::tests::fuzz::{Random, fuzz};
use serde_json::Map;

use super::{scalar::Scalar, tests::vectors, *};
use crate::path::Path;

/// Documents to start from, beside Go's vectors.
const SEEDS: &str = include_str!("fuzz.yaml");

/// Texts that mutations insert.
const PIECES: [&str; 64] = [
    "\n", "\n", "\n", " ", " ", "  ", "    ", "\t", ": ", ":", "- ", "-", "#", " #", "? ", "|",
    "|-", "|+", ">", ">-", "|2", "\"", "'", "''", "\\", "\\n", "\\\n", "\\x41", "\\/", "[", "]",
    "{", "}", ",", ", ", "&a ", "*a", "!", "!!str ", "!!int", "!x,", "<<: ", "<<", "%", "@", "`",
    "~", "yes", "null", "0x1F", "1.50", "1_0", ".inf", "-0", "é", "\u{85}", "\u{2028}", "\u{feff}",
    "\u{7f}", "\r", "\r\n", "---", "...", "a",
];

/// One to four changes to a seed.
fn mutate(random: &mut Random, seeds: &[String]) -> Vec<u8> {
    let mut text = random.pick(seeds).as_bytes().to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        let end = (at + 1 + random.below(6)).min(text.len());
        match random.below(9) {
            0..4 => drop(text.splice(at..at, random.pick(&PIECES).bytes())),
            4 => drop(text.drain(at..end)),
            5 => drop(text.splice(at..end, random.pick(&PIECES).bytes())),
            6 => {
                let part = text[at..end].to_vec();
                let to = random.below(text.len() + 1);
                text.splice(to..to, part);
            }
            7 => {
                // Shifts a line.
                let line = memchr::memrchr(b'\n', &text[..at]).map_or(0, |at| at + 1);
                if text.get(line) == Some(&b' ') && random.below(2) == 0 {
                    text.remove(line);
                } else {
                    text.insert(line, b' ');
                }
            }
            _ => {
                let other = random.pick(seeds);
                let mut cut = other.char_indices();
                let cut = cut.nth(random.below(other.len())).map_or(0, |(at, _)| at);
                text.splice(at..at, other[cut..].bytes());
            }
        }
    }
    text
}

/// Checks the properties of any input. Returns the number of documents, and the number that the fast reader read.
fn check(input: &[u8], random: &mut Random) -> (usize, usize) {
    let input_text = String::from_utf8_lossy(input);
    let (mut accepted, mut fast) = (0, 0);
    let limits = Limits::default();
    let mut texts = Documents::new(input, limits);
    while let Some(text) = texts.next_text() {
        let Ok(chunk) = text else { break };
        let Ok(text) = document::utf8(&chunk.text) else {
            continue;
        };
        let small = with!(Limits, memory: 2000; ..limits);
        if fast::value(text, &small).is_err() {
            assert!(document::complete(text, &small).is_err(), "{text:?}");
        }
        if let Ok(Some(value)) = fast::value(text, &limits) {
            let complete = document::complete(text, &limits);
            let is_same = complete.as_ref().is_ok_and(|complete| *complete == value);
            assert!(is_same, "{text:?}: {value} or {complete:?}");
            fast += 1;
        }
    }
    for (document, read) in documents(input).enumerate() {
        let Ok(value) = read else { continue };
        accepted += 1;
        let written = to_string(&value).unwrap();
        let again: Vec<_> = documents(written.as_bytes()).collect();
        assert_rows!(again => [Ok(value.clone())], "{input_text:?} was written as {written:?}");
        check_location(input, document, &value, random);
    }
    (accepted, fast)
}

/// A random value of a document has a location, and the text at the location is the value.
fn check_location(input: &[u8], document: usize, value: &Value, random: &mut Random) {
    let (mut path, mut value) = (Path::root(), value);
    for _ in 0..random.below(5) {
        let len = value.as_object().map_or(0, Map::len) + value.as_array().map_or(0, Vec::len);
        match value {
            _ if len == 0 => break,
            Value::Object(map) => {
                let (key, item) = map.iter().nth(random.below(len)).unwrap();
                (path, value) = (path.key(key), item);
            }
            Value::Array(items) => {
                let at = random.below(len);
                (path, value) = (path.index(at), &items[at]);
            }
            _ => unreachable!("has no length"),
        }
    }
    let Some(found) = locate(input, document, &path) else {
        // A document without content has no node, and JSON is not always YAML.
        let none = path.is_root() && value.is_null() || json::may_start(input);
        assert!(none, "{path} in {:?}", String::from_utf8_lossy(input));
        return;
    };
    // Tags change the meaning of text, and JSON reads -0 and U+0085 differently.
    if let Some(written) = found
        .scalar
        .filter(|_| !input.contains(&b'!') && !json::may_start(input))
    {
        let meant = match written.style {
            Style::Plain => Scalar::plain(&written.text).value().unwrap(),
            Style::Quoted => Value::String(written.text),
        };
        assert_rows!(&meant => value, "{path} in {:?}", String::from_utf8_lossy(input));
    }
}

fn seeds() -> Vec<String> {
    let own = SEEDS.split("\n=====\n").map(str::to_owned);
    vectors().map(|(input, _)| input).chain(own).collect()
}

#[test]
fn any_input_is_read_without_panic_and_round_trips() {
    let seeds = seeds();
    for seed in &seeds {
        check(seed.as_bytes(), &mut Random::new(1));
    }
    let (mut accepted, mut fast) = (0, 0);
    fuzz(20_000, 10, |random| {
        let (read, by_fast) = check(&mutate(random, &seeds), random);
        (accepted, fast) = (accepted + read, fast + by_fast);
        read
    });
    println!("{accepted} documents accepted, {fast} by the fast reader");
    // A single repeated round is too small a sample.
    assert_rows!(accepted < 100 || fast * 10 > accepted => true, "the fast reader is hardly tested");
}

/// Without a corpus, the readers are compared on the examples.
#[test]
fn both_readers_agree_on_the_corpus() {
    let examples = || concat!(env!("CARGO_MANIFEST_DIR"), "/../examples").to_owned();
    let corpus = env::var("RUKPAK_CORPUS").unwrap_or_else(|_| examples());
    let (mut total, mut fast) = (0, 0);
    let mut random = Random::new(1);
    let mut paths = vec![PathBuf::from(corpus)];
    while let Some(path) = paths.pop() {
        let kind = path.extension().unwrap_or_default();
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
        } else if kind == "yaml" || kind == "yml" {
            let (accepted, by_fast) = check(&fs::read(&path).unwrap(), &mut random);
            if accepted > by_fast {
                println!("left to the complete reader: {}", path.display());
            }
            (total, fast) = (total + accepted, fast + by_fast);
        }
    }
    println!("{total} documents, {fast} by the fast reader");
    assert!(fast > 0, "the fast reader read no document");
}
