//! Literal and folded scalars.

use super::Reader;

/// Treatment of the line ends after a block scalar.
#[derive(Clone, Copy, PartialEq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl Reader<'_> {
    /// Parses a literal or folded scalar, from its `|` or `>`. `indent` is the minimum column of its lines.
    pub(super) fn block(&mut self, indent: usize) -> Option<String> {
        let folded = self.byte() == b'>';
        self.pos += 1;
        let (chomping, increment) = self.header()?;
        // libyaml counts from the enclosing collection, or from nothing at the root.
        let given = increment.map(|increment| (indent + increment).saturating_sub(1).max(1));
        if indent == 0 {
            return None;
        }
        let mut text = String::new();
        let (mut breaks, deepest) = self.breaks(given.unwrap_or(usize::MAX))?;
        let indent = given.unwrap_or(deepest.max(indent));
        let mut ended = false;
        let mut after_blank = false;
        while self.column() == indent && !self.at_end() {
            let blank = matches!(self.byte(), b' ' | b'\t');
            if ended {
                if folded && !after_blank && !blank {
                    if breaks == 0 {
                        text.push(' ');
                    }
                } else {
                    text.push('\n');
                }
            }
            text.extend(std::iter::repeat_n('\n', breaks));
            after_blank = blank;
            let start = self.pos;
            self.skip_line();
            text.push_str(self.text.get(start..self.pos)?);
            self.pos += 1;
            self.line = self.pos;
            ended = true;
            (breaks, _) = self.breaks(indent)?;
        }
        if ended && chomping != Chomping::Strip {
            text.push('\n');
        }
        if chomping == Chomping::Keep {
            text.extend(std::iter::repeat_n('\n', breaks));
        }
        // The line that ended the scalar may be a comment, whose `#` requires no preceding space.
        Some(text)
    }

    fn header(&mut self) -> Option<(Chomping, Option<usize>)> {
        let (mut chomping, mut increment) = (Chomping::Clip, None);
        for _ in 0..2 {
            match self.byte() {
                b'+' if chomping == Chomping::Clip => chomping = Chomping::Keep,
                b'-' if chomping == Chomping::Clip => chomping = Chomping::Strip,
                digit @ b'1'..=b'9' if increment.is_none() => {
                    increment = Some(usize::from(digit - b'0'));
                }
                b' ' | b'\n' => break,
                _ => return None,
            }
            self.pos += 1;
        }
        let line = self.pos;
        self.skip_spaces();
        match self.byte() {
            b'\n' => {}
            b'#' if self.pos > line => self.skip_line(),
            _ => return None,
        }
        self.pos += 1;
        self.line = self.pos;
        Some((chomping, increment))
    }

    /// Skips indentation up to `indent`, and empty lines. Returns the number of lines, and the deepest indentation.
    fn breaks(&mut self, indent: usize) -> Option<(usize, usize)> {
        let (mut breaks, mut deepest) = (0, 0);
        loop {
            let end = self.line.saturating_add(indent);
            while self.pos < end && self.byte() == b' ' {
                self.pos += 1;
            }
            deepest = deepest.max(self.column());
            match self.byte() {
                b'\n' => {
                    breaks += 1;
                    self.pos += 1;
                    self.line = self.pos;
                }
                b'\t' if self.pos < end => return None,
                _ => return Some((breaks, deepest)),
            }
        }
    }
}
