//! Messages on standard error, with colors on a terminal only.
//!
//! Standard error may be closed, so that failures to write are ignored.

use std::{fmt::Display, io::Write};

use anstyle::{AnsiColor, Style};
use convert::{Finding, Level};
use manifests::{content::SkippedEntries, object::is_unprintable};

use super::progress;

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const CHANGE: Style = AnsiColor::Cyan.on_default();

/// Prints an error: `error: …`.
pub(crate) fn error(text: &str) {
    line(&format_args!("{ERROR}error:{ERROR:#} {}", sanitize(text)));
}

/// Prints a warning: `warning: …`.
pub(crate) fn warning(text: &str) {
    line(&format_args!(
        "{WARNING}warning:{WARNING:#} {}",
        sanitize(text)
    ));
}

/// Prints a finding: `error[Webhooks]: manifests/csv.yaml:12:7 (spec.webhookdefinitions): …`.
pub(crate) fn finding(finding: &Finding) {
    let style = style(finding.level);
    let level = level(finding.level);
    let text = sanitize(&finding.to_string());
    line(&format_args!(
        "{style}{level}[{}]:{style:#} {text}",
        finding.code
    ));
}

/// Prints a quoted text with an indentation, below the message about it.
pub(crate) fn quote(text: &str) {
    for part in text.lines() {
        line(&format_args!("  {}", sanitize(part)));
    }
}

/// Reports entries of a bundle that are not part of it. Prints nothing for an empty set.
pub(crate) fn skipped(bundle: &str, skipped: &SkippedEntries) {
    if !skipped.is_empty() {
        note(&format!(
            "{bundle}: skipped entries that are not regular files: {skipped}"
        ));
    }
}

/// Prints a message without a prefix.
pub(crate) fn note(text: &str) {
    line(&sanitize(text));
}

pub(crate) fn style(level: Level) -> Style {
    match level {
        Level::Error => ERROR,
        Level::Warning => WARNING,
        Level::Change => CHANGE,
    }
}

pub(crate) fn level(level: Level) -> &'static str {
    match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Change => "change",
    }
}

/// Replaces characters that move the cursor, change colors or change the text direction: the text may come from a bundle.
pub(crate) fn sanitize(text: &str) -> String {
    let printable = |c: char| if is_unprintable(c) { ' ' } else { c };
    text.chars().map(printable).collect()
}

/// Quotes a word for a shell if necessary, for commands that users copy.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "#%+,-./:=@_".contains(c);
    if !word.is_empty() && !word.starts_with('#') && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Formats a number with its noun: `1 error`, `2 errors`.
pub(crate) fn count(number: usize, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {one}{plural}")
}

fn line(text: &dyn Display) {
    let _ = progress::suspend(|| writeln!(anstream::stderr(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_loses_control_characters() {
        ::tests::assert_rows! {
            sanitize("\u{1b}[31mred\r\n") => " [31mred  ";
            sanitize("a\u{202a}b\u{202e}c\u{2066}d\u{2069}e") => "a b c d e";
            sanitize("a\u{200e}b\u{200f}c\u{61c}d\u{2028}e") => "a b c d e";
            sanitize("Gezeiten für שלום") => "Gezeiten für שלום";
        }
    }

    #[test]
    fn words_are_quoted_for_shells_if_necessary() {
        ::tests::assert_rows! {
            shell_word("./flut/tide-1.0.tgz") => "./flut/tide-1.0.tgz";
            shell_word("git+https://h/r#v1:a") => "git+https://h/r#v1:a";
            shell_word("my tide") => "'my tide'";
            shell_word("it's") => r"'it'\''s'";
            shell_word("a?b=$c") => "'a?b=$c'";
            shell_word("#a") => "'#a'";
            shell_word("~/a") => "'~/a'";
            shell_word("") => "''";
        }
    }
}
