//! Lexer for CEL expressions.

use std::{collections::VecDeque, fmt};

/// A token of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    /// Name of a field in backticks.
    BacktickName(String),
    /// Text of an integer. Its range depends on its sign.
    Int(String),
    Uint,
    Double,
    Text,
    Bytes,
    Sign(&'static str),
    End,
}

/// Signs. A sign comes before every sign that is its prefix.
const SIGNS: [&str; 24] = [
    "||", "&&", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}",
];

/// Remaining tokens, each with the position of its first character, starting at 1.
pub(super) struct TokenStream {
    remaining: VecDeque<(Token, usize)>,
    end: (Token, usize),
}

// === impl Token ===

impl Token {
    /// Reports whether the token is this sign, or the operator `in`.
    pub(super) fn is(&self, text: &str) -> bool {
        match self {
            Self::Sign(sign) => *sign == text,
            Self::Name(name) => name == text && text == "in",
            _ => false,
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(text) | Self::BacktickName(text) | Self::Int(text) => {
                let short: String = text.chars().take(40).collect();
                write!(f, "{short:?}")
            }
            Self::Sign(sign) => write!(f, "{sign:?}"),
            Self::Uint | Self::Double => f.write_str("number"),
            Self::Text | Self::Bytes => f.write_str("string"),
            Self::End => f.write_str("end of expression"),
        }
    }
}

// === impl TokenStream ===

impl TokenStream {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let mut lexer = Lexer {
            remaining: text,
            at: 1,
        };
        let mut remaining = VecDeque::new();
        loop {
            lexer.space();
            let at = lexer.at;
            match lexer.token()? {
                Token::End => {
                    let end = (Token::End, at);
                    return Ok(Self { remaining, end });
                }
                token => remaining.push_back((token, at)),
            }
        }
    }

    pub(super) fn peek(&self) -> &(Token, usize) {
        self.remaining.front().unwrap_or(&self.end)
    }

    pub(super) fn at(&self) -> usize {
        self.peek().1
    }

    pub(super) fn next(&mut self) -> (Token, usize) {
        let first = self.remaining.pop_front();
        first.unwrap_or_else(|| self.end.clone())
    }

    pub(super) fn is(&self, sign: &str) -> bool {
        self.peek().0.is(sign)
    }

    /// Consumes the sign if it is the next token. Returns whether it was consumed.
    pub(super) fn skip(&mut self, sign: &str) -> bool {
        let is_next = self.is(sign);
        if is_next {
            self.remaining.pop_front();
        }
        is_next
    }
}

struct Lexer<'a> {
    remaining: &'a str,
    at: usize,
}

// === impl Lexer ===

impl<'a> Lexer<'a> {
    fn first(&self) -> Option<char> {
        self.remaining.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.remaining.chars();
        let first = chars.next()?;
        self.remaining = chars.as_str();
        self.at += 1;
        Some(first)
    }

    fn accept(&mut self, text: &str) -> bool {
        let rest = self.remaining.strip_prefix(text);
        if let Some(rest) = rest {
            self.remaining = rest;
            self.at += text.chars().count();
        }
        rest.is_some()
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self
            .remaining
            .find(|c| !fits(c))
            .unwrap_or(self.remaining.len());
        let (taken, rest) = self.remaining.split_at(end);
        self.remaining = rest;
        self.at += taken.chars().count();
        taken
    }

    /// Skips white space and comments.
    fn space(&mut self) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\r' | '\n' | '\u{c}'));
            if !self.accept("//") {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn token(&mut self) -> Result<Token, String> {
        let at = self.at;
        let Some(first) = self.first() else {
            return Ok(Token::End);
        };
        if let Some(text) = self.text() {
            return text.map_err(|problem| format!("{problem} at {at}"));
        }
        let mut ahead = self.remaining.chars().skip(1);
        if first.is_ascii_digit()
            || (first == '.' && ahead.next().is_some_and(|c| c.is_ascii_digit()))
        {
            return self
                .number()
                .ok_or_else(|| format!("invalid number at {at}"));
        }
        if is_name(first) {
            let name = self.take_while(|c| is_name(c) || c.is_ascii_digit());
            return Ok(Token::Name(name.to_owned()));
        }
        if self.accept("`") {
            let is_field = |c: char| c.is_ascii_alphanumeric() || "_.-/ ".contains(c);
            let name = self.take_while(is_field);
            if name.is_empty() || !self.accept("`") {
                return Err(format!("invalid or unterminated name in backticks at {at}"));
            }
            return Ok(Token::BacktickName(name.to_owned()));
        }
        let sign = SIGNS.into_iter().find(|sign| self.accept(sign));
        sign.map(Token::Sign)
            .ok_or_else(|| format!("unexpected {first:?} at {at}"))
    }

    fn number(&mut self) -> Option<Token> {
        let is_digit = |c: char| c.is_ascii_digit();
        if self.accept("0x") {
            let digits = self.take_while(|c| c.is_ascii_hexdigit());
            if digits.is_empty() {
                return None;
            }
            let value = u64::from_str_radix(digits, 16);
            if self.accept("u") || self.accept("U") {
                return value.ok().map(|_| Token::Uint);
            }
            return Some(Token::Int(format!("0x{digits}")));
        }
        let begin = self.remaining;
        let whole = self.take_while(is_digit);
        let mut is_whole = true;
        let follows = |text: &str, skipped: usize| {
            text.chars()
                .nth(skipped)
                .is_some_and(|c| c.is_ascii_digit())
        };
        if self.remaining.starts_with('.') && follows(self.remaining, 1) {
            self.take();
            self.take_while(is_digit);
            is_whole = false;
        }
        if self.remaining.starts_with(['e', 'E']) {
            let has_sign = self
                .remaining
                .chars()
                .nth(1)
                .is_some_and(|c| "+-".contains(c));
            if follows(self.remaining, 1 + usize::from(has_sign)) {
                for _ in 0..=usize::from(has_sign) {
                    self.take();
                }
                self.take_while(is_digit);
                is_whole = false;
            }
        }
        if !is_whole {
            let text = begin.get(..begin.len() - self.remaining.len())?;
            let value: f64 = text.parse().ok()?;
            return value.is_finite().then_some(Token::Double);
        }
        if self.accept("u") || self.accept("U") {
            return whole.parse::<u64>().ok().map(|_| Token::Uint);
        }
        Some(Token::Int(whole.to_owned()))
    }

    /// Reads a string or bytes literal, if one starts here.
    fn text(&mut self) -> Option<Result<Token, String>> {
        let mut ahead = self.remaining.char_indices().take(3);
        let (prefix, _) = ahead.find(|(_, c)| matches!(c, '"' | '\''))?;
        let (prefix, _) = self.remaining.split_at_checked(prefix)?;
        let (is_raw, is_bytes) = match prefix.to_ascii_lowercase().as_str() {
            "" => (false, false),
            "r" => (true, false),
            "b" => (false, true),
            "br" => (true, true),
            _ => return None,
        };
        self.accept(prefix);
        let token = if is_bytes { Token::Bytes } else { Token::Text };
        let quote = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|quote| self.accept(quote))?;
        Some(self.quoted(quote, is_raw, is_bytes).map(|()| token))
    }

    fn quoted(&mut self, quote: &str, is_raw: bool, is_bytes: bool) -> Result<(), String> {
        const ENDLESS: &str = "unterminated string";
        loop {
            if self.accept(quote) {
                return Ok(());
            }
            match self.take().ok_or(ENDLESS)? {
                '\n' | '\r' if quote.len() == 1 => return Err(ENDLESS.to_owned()),
                '\\' if !is_raw => self.escape(is_bytes)?,
                _ => {}
            }
        }
    }

    fn escape(&mut self, is_bytes: bool) -> Result<(), String> {
        const UNKNOWN: &str = "invalid escape sequence in the string";
        let (length, radix) = match self.take().ok_or(UNKNOWN)? {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' | '?' | '"' | '\'' | '`' => {
                return Ok(());
            }
            'x' | 'X' => (2, 16),
            'u' if !is_bytes => (4, 16),
            'U' if !is_bytes => (8, 16),
            '0'..='3' => (2, 8),
            _ => return Err(UNKNOWN.to_owned()),
        };
        let digits: String = self.remaining.chars().take(length).collect();
        let is_whole = digits.len() == length && digits.chars().all(|c| c.is_digit(radix));
        if !is_whole {
            return Err(UNKNOWN.to_owned());
        }
        self.accept(&digits);
        let value = u32::from_str_radix(&digits, radix).unwrap_or(u32::MAX);
        if length >= 4 && char::from_u32(value).is_none() {
            return Err("escape sequence without a valid character in the string".to_owned());
        }
        Ok(())
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Parses an integer, if it fits into 64 bits.
pub(super) fn int(text: &str, is_negative: bool) -> Option<i64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let value = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if is_negative { -value } else { value }).ok()
}
