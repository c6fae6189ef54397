//! Parser that validates a text and records the positions of its values. It does not recurse, so untrusted nesting
//! costs four bytes per level.

use super::Node;

/// Maximum nesting depth in Go.
const MAX_DEPTH: usize = 10_000;

/// Position of a value, and the slot after it and its content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TapeEntry {
    pub(super) start: u32,
    pub(super) end: u32,
    pub(super) next: u32,
}

/// Reusable memory for parsing documents.
#[derive(Debug, Default)]
pub struct Tape {
    slots: Vec<TapeEntry>,
    /// Slots of objects and arrays that are not closed yet.
    open: Vec<u32>,
}

/// The error for a text that is not valid JSON, with Go's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Description of the problem.
    pub message: String,
    /// Number of bytes up to and including the offending one.
    pub offset: usize,
}

// === impl Tape ===

impl Tape {
    /// Parses a text with a single value. `values` is the maximum number of values in total, including keys.
    ///
    /// # Errors
    /// Returns an error if the text is not valid JSON, is nested deeper than Go allows, or contains more values.
    pub fn read<'a>(&'a mut self, bytes: &'a [u8], values: usize) -> Result<Node<'a>, Error> {
        self.slots.clear();
        self.open.clear();
        // Release the memory of an enormous document.
        self.slots.shrink_to(1 << 16);
        Parser {
            bytes,
            at: 0,
            tape: self,
            values,
        }
        .read()?;
        Ok(Node {
            bytes,
            slots: &self.slots,
            at: 0,
        })
    }
}

struct Parser<'a, 't> {
    bytes: &'a [u8],
    at: usize,
    tape: &'t mut Tape,
    values: usize,
}

// === impl Parser ===

impl Parser<'_, '_> {
    fn read(&mut self) -> Result<(), Error> {
        if u32::try_from(self.bytes.len()).is_err() {
            return Err(self.fail("the document has 4 GiB or more".into()));
        }
        loop {
            self.space();
            if self.value()? {
                continue;
            }
            if !self.after_value()? {
                break;
            }
        }
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    /// Reads a scalar, or the start of an object or array. Returns true if another value must follow.
    fn value(&mut self) -> Result<bool, Error> {
        let start = self.at;
        match self.peek() {
            Some(b'{') => {
                self.open(start)?;
                self.space();
                if self.peek() == Some(b'}') {
                    self.close();
                    return Ok(false);
                }
                self.key()?;
                return Ok(true);
            }
            Some(b'[') => {
                self.open(start)?;
                self.space();
                if self.peek() == Some(b']') {
                    self.close();
                    return Ok(false);
                }
                return Ok(true);
            }
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.literal("true")?,
            Some(b'f') => self.literal("false")?,
            Some(b'n') => self.literal("null")?,
            _ => return Err(self.unexpected("looking for beginning of value")),
        }
        self.push(start)?;
        Ok(false)
    }

    /// Continues after a value. Returns whether another value follows.
    fn after_value(&mut self) -> Result<bool, Error> {
        while let Some(&open) = self.tape.open.last() {
            self.space();
            let start = self
                .tape
                .slots
                .get(open as usize)
                .map_or(0, |slot| slot.start);
            let in_object = self.bytes.get(start as usize) == Some(&b'{');
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    if in_object {
                        self.space();
                        self.key()?;
                    }
                    return Ok(true);
                }
                Some(b'}') if in_object => self.close(),
                Some(b']') if !in_object => self.close(),
                _ if in_object => return Err(self.unexpected("after object key:value pair")),
                _ => return Err(self.unexpected("after array element")),
            }
        }
        Ok(false)
    }

    fn key(&mut self) -> Result<(), Error> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return Err(self.unexpected("looking for beginning of object key string"));
        }
        self.string()?;
        self.push(start)?;
        self.space();
        if self.peek() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        Ok(())
    }

    fn open(&mut self, start: usize) -> Result<(), Error> {
        let slot = u32::try_from(self.tape.slots.len()).unwrap_or(u32::MAX);
        self.at += 1;
        self.push(start)?;
        if self.tape.open.len() == MAX_DEPTH {
            return Err(self.fail("exceeded max depth".into()));
        }
        self.tape.open.push(slot);
        Ok(())
    }

    fn close(&mut self) {
        self.at += 1;
        let next = offset(self.tape.slots.len());
        let open = self.tape.open.pop();
        if let Some(slot) = open.and_then(|at| self.tape.slots.get_mut(at as usize)) {
            slot.end = offset(self.at);
            slot.next = next;
        }
    }

    fn push(&mut self, start: usize) -> Result<(), Error> {
        if self.tape.slots.len() >= self.values {
            let text = format!("more than {} values in one document", self.values);
            return Err(self.fail(text));
        }
        let next = offset(self.tape.slots.len() + 1);
        self.tape.slots.push(TapeEntry {
            start: offset(start),
            end: offset(self.at),
            next,
        });
        Ok(())
    }

    fn string(&mut self) -> Result<(), Error> {
        self.at += 1;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += plain(rest);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Error> {
        self.at += 1;
        match self.peek() {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            Some(b'u') => {
                self.at += 1;
                for _ in 0..4 {
                    if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                        return Err(self.unexpected("in \\u hexadecimal character escape"));
                    }
                    self.at += 1;
                }
            }
            _ => return Err(self.unexpected("in string escape code")),
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), Error> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
            self.digits();
        }
        let text = self.bytes.get(start..self.at).unwrap_or_default();
        // Shorter numbers without an exponent are in range.
        if text.len() > 300 || text.contains(&b'e') || text.contains(&b'E') {
            let text = std::str::from_utf8(text).unwrap_or_default();
            if !text.parse::<f64>().is_ok_and(f64::is_finite) {
                let text: String = text.chars().take(40).collect();
                let problem =
                    format!("json: cannot unmarshal number {text} into Go value of type float64");
                return Err(self.fail(problem));
            }
        }
        Ok(())
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn literal(&mut self, text: &str) -> Result<(), Error> {
        for byte in text.bytes() {
            if self.peek() != Some(byte) {
                let expecting = format!("in literal {text} (expecting '{}')", char::from(byte));
                return Err(self.unexpected(&expecting));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn unexpected(&self, place: &str) -> Error {
        match self.peek() {
            None => self.fail("unexpected end of JSON input".into()),
            Some(byte) => Error {
                message: format!("invalid character {:?} {place}", char::from(byte)),
                offset: self.at + 1,
            },
        }
    }

    fn fail(&self, message: String) -> Error {
        Error {
            message,
            offset: self.at,
        }
    }
}

/// Converts a position. It never overflows, because the length of the text was checked against the range of `u32`.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Returns the number of bytes before the first quote, backslash or control character. It compares eight bytes at a
/// time.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero = |x: u64| x.wrapping_sub(ONES) & !x & HIGHS;
    let mut at = 0;
    for word in bytes.as_chunks::<8>().0 {
        let word = u64::from_le_bytes(*word);
        let quote = zero(word ^ (ONES * u64::from(b'"')));
        let slash = zero(word ^ (ONES * u64::from(b'\\')));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        // Borrows propagate upwards only, so the lowest mark is always exact.
        let marks = quote | slash | control;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .position(|b| matches!(b, b'"' | b'\\' | 0..0x20))
        .unwrap_or(rest.len())
}
