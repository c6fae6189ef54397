//! Flow sequences and mappings.

use serde_json::{Map, Value};

use super::{Reader, plain::starts_plain, plain_key};
use crate::yaml::{cost, scalar::Scalar};

impl<'a> Reader<'a> {
    /// Parses a flow sequence or mapping, from its opening bracket to after the closing one.
    pub(super) fn flow(&mut self) -> Option<Value> {
        let opened = self.byte();
        self.pos += 1;
        if opened == b'[' {
            let mut items = Vec::new();
            while !self.closes(b']') {
                let item = self.flow_value()?;
                self.count_value(cost::item(items.len()), &item)?;
                items.push(item);
                self.separator(b']')?;
            }
            return Some(Value::Array(items));
        }
        let mut map = Map::new();
        while !self.closes(b'}') {
            let key = self.flow_key()?;
            self.skip_flow_space();
            let value = self.flow_value()?;
            self.count_value(cost::entry(map.len(), &key), &value)?;
            map.insert(key, value);
            self.separator(b'}')?;
        }
        Some(Value::Object(map))
    }

    /// Skips space, and reports whether the collection closes.
    fn closes(&mut self, bracket: u8) -> bool {
        self.skip_flow_space();
        let closes = self.byte() == bracket;
        self.pos += usize::from(closes);
        closes
    }

    /// Parses a comma after an entry, or the end, which [`Self::closes`] consumes.
    fn separator(&mut self, bracket: u8) -> Option<()> {
        self.skip_flow_space();
        match self.byte() {
            b',' => self.pos += 1,
            byte if byte == bracket => {}
            _ => return None,
        }
        Some(())
    }

    fn skip_flow_space(&mut self) {
        while matches!(self.byte(), b' ' | b'\n') {
            self.pos += 1;
            if self.bytes.get(self.pos - 1) == Some(&b'\n') {
                self.line = self.pos;
            }
        }
    }

    fn flow_value(&mut self) -> Option<Value> {
        match self.byte() {
            b'[' | b'{' => self.nested(Self::flow),
            quote @ (b'"' | b'\'') => Some(Value::String(self.quoted(quote)?.into_owned())),
            _ => {
                let text = self.flow_plain()?;
                if self.byte() == b':' {
                    return None;
                }
                Scalar::plain(text).value()
            }
        }
    }

    /// Parses a key and its colon, on one line.
    fn flow_key(&mut self) -> Option<String> {
        let start = self.pos;
        let key = match self.byte() {
            quote @ (b'"' | b'\'') => {
                let key = self.quoted(quote)?.into_owned();
                self.skip_spaces();
                key
            }
            _ => plain_key(self.flow_plain()?)?,
        };
        let source = self.bytes.get(start..self.pos)?;
        if self.byte() != b':' || source.len() > 1000 || source.contains(&b'\n') {
            return None;
        }
        self.pos += 1;
        Some(key)
    }

    /// Parses a plain scalar on one line, up to a comma, bracket or colon.
    fn flow_plain(&mut self) -> Option<&'a str> {
        let (byte, next) = (self.byte(), self.byte_at(1));
        if !starts_plain(byte, next)
            || byte == b'-' && matches!(next, b',' | b'[' | b']' | b'{' | b'}')
        {
            return None;
        }
        let start = self.pos;
        loop {
            match self.byte() {
                b',' | b']' | b'}' | b'\n' => break,
                b':' => match self.byte_at(1) {
                    b' ' | b'\n' => break,
                    b',' | b'?' | b'[' | b']' | b'{' | b'}' | b'\t' => return None,
                    _ => {}
                },
                b'[' | b'{' | b'?' | b'\t' | 0 => return None,
                b'#' if self.bytes.get(self.pos - 1) == Some(&b' ') => return None,
                _ => {}
            }
            self.pos += 1;
        }
        Some(self.text.get(start..self.pos)?.trim_end_matches(' '))
    }
}
