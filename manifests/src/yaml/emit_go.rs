//! YAML emitter with exactly the bytes that Go's `sigs.k8s.io/yaml` prints for JSON.
//!
//! Keys have Go's natural order, and long lines are folded after column 80. Text has single quotes where a plain scalar is
//! not possible, and double quotes where a plain scalar would have another meaning.
//!
//! Implements the decisions of go-yaml v2's encoder and of libyaml's emitter for block collections.

mod order;
mod text;

use serde_json::{Map, Number, Value};

use self::text::Style;

/// Maximum length of a key without `?`.
const MAX_KEY_LEN: usize = 128;

/// Appends one document without a separator.
pub(super) fn document(out: &mut String, value: &Value) {
    let mut emitter = Emitter {
        out,
        column: 0,
        padded: true,
        at_start: true,
    };
    emitter.value(value, None, false);
    emitter.line(0);
}

/// State of the emitter, in libyaml's terms.
struct Emitter<'a> {
    out: &'a mut String,
    /// Number of characters on the current line.
    column: usize,
    /// Whether the last output was a space, or an indicator that counts as one.
    padded: bool,
    /// Whether the line contains only spaces and indicators of collections.
    at_start: bool,
}

impl Emitter<'_> {
    /// Emits a value. `indent` is that of the enclosing collection, or `None` for the root; `in_mapping` is true if that
    /// is a mapping.
    fn value(&mut self, value: &Value, indent: Option<usize>, in_mapping: bool) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                self.mapping(map, indent.map_or(0, |indent| indent + 2));
            }
            Value::Array(items) if !items.is_empty() => {
                // Lists start at the column of their key.
                let own = match indent {
                    Some(indent) if in_mapping && !self.at_start => indent,
                    Some(indent) => indent + 2,
                    None => 0,
                };
                self.sequence(items, own);
            }
            Value::Object(_) => self.keyword("{}"),
            Value::Array(_) => self.keyword("[]"),
            Value::Null => self.keyword("null"),
            Value::Bool(true) => self.keyword("true"),
            Value::Bool(false) => self.keyword("false"),
            Value::Number(number) => self.keyword(&written(number)),
            Value::String(text) => self.text(text, indent.map_or(2, |indent| indent + 2), false),
        }
    }

    fn mapping(&mut self, map: &Map<String, Value>, indent: usize) {
        for (key, value) in order::sorted(map) {
            self.line(indent);
            if key.len() <= MAX_KEY_LEN && !key.contains(text::is_break) {
                self.text(key, indent + 2, true);
                self.push(":");
                (self.padded, self.at_start) = (false, false);
            } else {
                self.indicator("?");
                self.text(key, indent + 2, false);
                self.line(indent);
                self.indicator(":");
            }
            self.value(value, Some(indent), true);
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize) {
        for item in items {
            self.line(indent);
            self.indicator("-");
            self.value(item, Some(indent), false);
        }
    }

    /// Emits a scalar; `indent` is that of its continuation lines.
    fn text(&mut self, text: &str, indent: usize, is_key: bool) {
        match text::style(text, is_key) {
            Style::Plain => {
                self.space();
                self.folded(text, indent, is_key, false);
            }
            Style::Single => {
                self.quote("'");
                self.folded(text, indent, is_key, true);
                self.push("'");
            }
            Style::Double => {
                self.quote("\"");
                self.escaped(text, indent, is_key);
                self.push("\"");
            }
            Style::Literal => return self.literal(text, indent),
        }
        (self.padded, self.at_start) = (false, false);
    }

    /// Emits plain or single-quoted text. A line is folded at the first space after column 80.
    fn folded(&mut self, text: &str, indent: usize, is_key: bool, quoted: bool) {
        if !self.may_fold(text, is_key) && !text.contains(|c| c == '\'' || text::is_break(c)) {
            return self.push(text);
        }
        let (mut spaces, mut breaks) = (false, false);
        let mut rest = text.chars().peekable();
        let mut first = true;
        while let Some(c) = rest.next() {
            let next = rest.peek().copied();
            if c == ' ' {
                let inside = !quoted || !first && next.is_some();
                if !is_key && !spaces && self.column > WIDTH && inside && next != Some(' ') {
                    self.line(indent);
                } else {
                    self.push(" ");
                }
                spaces = true;
            } else if text::is_break(c) {
                if !breaks && c == '\n' {
                    self.end_line();
                }
                self.line_break(c);
                breaks = true;
            } else {
                if breaks {
                    self.line(indent);
                }
                if quoted && c == '\'' {
                    self.push("'");
                }
                self.push_char(c);
                (spaces, breaks) = (false, false);
                self.at_start = false;
            }
            first = false;
        }
    }

    /// Emits double-quoted text.
    fn escaped(&mut self, text: &str, indent: usize, is_key: bool) {
        // For each character, go-yaml checks if the text starts with a byte order mark, which then escapes all characters.
        let marked = text.starts_with('\u{feff}');
        let mut spaces = false;
        let mut rest = text.chars().peekable();
        let mut first = true;
        while let Some(c) = rest.next() {
            if marked || !text::is_printable(c) || text::is_break(c) || matches!(c, '"' | '\\') {
                text::escape(c, |part| self.push(part));
                spaces = false;
            } else if c == ' ' {
                let next = rest.peek().copied();
                if !is_key && !spaces && self.column > WIDTH && !first && next.is_some() {
                    self.line(indent);
                    if next == Some(' ') {
                        self.push("\\");
                    }
                } else {
                    self.push(" ");
                }
                spaces = true;
            } else {
                self.push_char(c);
                spaces = false;
            }
            first = false;
            self.at_start = false;
        }
    }

    /// Emits multi-line text as a literal block.
    fn literal(&mut self, text: &str, indent: usize) {
        self.space();
        self.push("|");
        if text.starts_with(|c| c == ' ' || text::is_break(c)) {
            self.push("2");
        }
        let mut last = text.chars().rev();
        match (
            last.next().is_some_and(text::is_break),
            last.next().is_none_or(text::is_break),
        ) {
            (false, _) => self.push("-"),
            (true, true) => self.push("+"),
            (true, false) => {}
        }
        self.end_line();
        (self.padded, self.at_start) = (true, true);
        for line in text.split_inclusive(text::is_break) {
            let content = line.trim_end_matches(text::is_break);
            if !content.is_empty() {
                self.line(indent);
                self.push(content);
                self.at_start = false;
            }
            if let Some(end) = line.get(content.len()..).and_then(|end| end.chars().next()) {
                self.line_break(end);
            }
        }
    }

    fn may_fold(&self, text: &str, is_key: bool) -> bool {
        !is_key && self.column + text.len() > WIDTH
    }

    /// Emits a short keyword that is always plain.
    fn keyword(&mut self, word: &str) {
        self.space();
        self.push(word);
        (self.padded, self.at_start) = (false, false);
    }

    fn quote(&mut self, quote: &str) {
        self.space();
        self.push(quote);
        (self.padded, self.at_start) = (false, false);
    }

    /// Emits `-`, `?`, or the `:` after a `?`: a collection may follow on the same line.
    fn indicator(&mut self, indicator: &str) {
        self.space();
        self.push(indicator);
        self.padded = false;
    }

    fn space(&mut self) {
        if !self.padded {
            self.push(" ");
            self.padded = true;
        }
    }

    /// Moves to a column, on a new line unless the current one is still usable.
    fn line(&mut self, indent: usize) {
        if !self.at_start || self.column > indent || (self.column == indent && !self.padded) {
            self.end_line();
        }
        while self.column < indent {
            self.push(" ");
        }
        (self.padded, self.at_start) = (true, true);
    }

    fn end_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    fn line_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
        self.at_start = true;
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn push_char(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }
}

/// Column after which lines are folded at the next space.
const WIDTH: usize = 80;

/// Formats a number like go-yaml after parsing JSON: `strconv.FormatFloat(f, 'g', -1, 64)` for all numbers except integers.
fn written(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => shortest(float),
        _ => number.to_string(),
    }
}

fn shortest(float: f64) -> String {
    if float == 0.0 {
        return "0".into(); // `-0` in JSON, which YAML reads as an integer
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or(0) {
        e @ (..-4 | 6..) => format!("{digits}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs()),
        _ => float.to_string(),
    }
}

#[cfg(test)]
mod tests;
