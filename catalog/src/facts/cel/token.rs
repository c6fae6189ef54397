//! The words of an expression.

use std::{collections::VecDeque, fmt};

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Name(String),
    /// The name of a field in backticks.
    Quoted(String),
    /// As it was written: whether it fits depends on its sign.
    Int(String),
    Uint,
    Double,
    Text,
    Bytes,
    Sign(&'static str),
    End,
}

/// Signs, those that begin like others first.
const SIGNS: [&str; 24] = [
    "||", "&&", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}",
];

/// The words that are left, with the character that each begins at, counted from 1.
pub(super) struct Tokens {
    left: VecDeque<(Token, usize)>,
    end: (Token, usize),
}

// === impl Token ===

impl Token {
    /// Whether it is this sign, or the operator `in`.
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
            Self::Name(text) | Self::Quoted(text) | Self::Int(text) => {
                let short: String = text.chars().take(40).collect();
                write!(f, "{short:?}")
            }
            Self::Sign(sign) => write!(f, "{sign:?}"),
            Self::Uint | Self::Double => f.write_str("a number"),
            Self::Text | Self::Bytes => f.write_str("a text"),
            Self::End => f.write_str("the end"),
        }
    }
}

// === impl Tokens ===

impl Tokens {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let mut lexer = Lexer { left: text, at: 1 };
        let mut left = VecDeque::new();
        loop {
            lexer.space();
            let at = lexer.at;
            match lexer.token()? {
                Token::End => {
                    let end = (Token::End, at);
                    return Ok(Self { left, end });
                }
                token => left.push_back((token, at)),
            }
        }
    }

    pub(super) fn peek(&self) -> &(Token, usize) {
        self.left.front().unwrap_or(&self.end)
    }

    pub(super) fn at(&self) -> usize {
        self.peek().1
    }

    pub(super) fn next(&mut self) -> (Token, usize) {
        let first = self.left.pop_front();
        first.unwrap_or_else(|| self.end.clone())
    }

    pub(super) fn is(&self, sign: &str) -> bool {
        self.peek().0.is(sign)
    }

    /// Takes this sign if it is the next word.
    pub(super) fn skip(&mut self, sign: &str) -> bool {
        let is_next = self.is(sign);
        if is_next {
            self.left.pop_front();
        }
        is_next
    }
}

struct Lexer<'a> {
    left: &'a str,
    at: usize,
}

// === impl Lexer ===

impl<'a> Lexer<'a> {
    fn first(&self) -> Option<char> {
        self.left.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.left.chars();
        let first = chars.next()?;
        self.left = chars.as_str();
        self.at += 1;
        Some(first)
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.left.strip_prefix(text);
        if let Some(rest) = rest {
            self.left = rest;
            self.at += text.chars().count();
        }
        rest.is_some()
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.left.find(|it| !fits(it)).unwrap_or(self.left.len());
        let (taken, rest) = self.left.split_at(end);
        self.left = rest;
        self.at += taken.chars().count();
        taken
    }

    /// White space and comments.
    fn space(&mut self) {
        loop {
            self.take_while(|it| matches!(it, ' ' | '\t' | '\r' | '\n' | '\u{c}'));
            if !self.eat("//") {
                return;
            }
            self.take_while(|it| it != '\n');
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
        let mut ahead = self.left.chars().skip(1);
        if first.is_ascii_digit()
            || (first == '.' && ahead.next().is_some_and(|it| it.is_ascii_digit()))
        {
            return self
                .number()
                .ok_or_else(|| format!("invalid number at {at}"));
        }
        if is_name(first) {
            let name = self.take_while(|it| is_name(it) || it.is_ascii_digit());
            return Ok(Token::Name(name.to_owned()));
        }
        if self.eat("`") {
            let is_field = |it: char| it.is_ascii_alphanumeric() || "_.-/ ".contains(it);
            let name = self.take_while(is_field);
            if name.is_empty() || !self.eat("`") {
                return Err(format!("a name in backticks does not end at {at}"));
            }
            return Ok(Token::Quoted(name.to_owned()));
        }
        let sign = SIGNS.into_iter().find(|sign| self.eat(sign));
        sign.map(Token::Sign)
            .ok_or_else(|| format!("unexpected {first:?} at {at}"))
    }

    fn number(&mut self) -> Option<Token> {
        let is_digit = |it: char| it.is_ascii_digit();
        if self.eat("0x") {
            let digits = self.take_while(|it| it.is_ascii_hexdigit());
            if digits.is_empty() {
                return None;
            }
            let value = u64::from_str_radix(digits, 16);
            if self.eat("u") || self.eat("U") {
                return value.ok().map(|_| Token::Uint);
            }
            return Some(Token::Int(format!("0x{digits}")));
        }
        let begin = self.left;
        let whole = self.take_while(is_digit);
        let mut is_whole = true;
        let follows = |text: &str, skipped: usize| {
            text.chars()
                .nth(skipped)
                .is_some_and(|it| it.is_ascii_digit())
        };
        if self.left.starts_with('.') && follows(self.left, 1) {
            self.take();
            self.take_while(is_digit);
            is_whole = false;
        }
        if self.left.starts_with(['e', 'E']) {
            let has_sign = self.left.chars().nth(1).is_some_and(|it| "+-".contains(it));
            if follows(self.left, 1 + usize::from(has_sign)) {
                for _ in 0..=usize::from(has_sign) {
                    self.take();
                }
                self.take_while(is_digit);
                is_whole = false;
            }
        }
        if !is_whole {
            let text = begin.get(..begin.len() - self.left.len())?;
            let value: f64 = text.parse().ok()?;
            return value.is_finite().then_some(Token::Double);
        }
        if self.eat("u") || self.eat("U") {
            return whole.parse::<u64>().ok().map(|_| Token::Uint);
        }
        Some(Token::Int(whole.to_owned()))
    }

    /// A text or bytes, if one begins here.
    fn text(&mut self) -> Option<Result<Token, String>> {
        let mut ahead = self.left.char_indices().take(3);
        let (prefix, _) = ahead.find(|(_, it)| matches!(it, '"' | '\''))?;
        let (prefix, _) = self.left.split_at_checked(prefix)?;
        let (is_raw, is_bytes) = match prefix.to_ascii_lowercase().as_str() {
            "" => (false, false),
            "r" => (true, false),
            "b" => (false, true),
            "br" => (true, true),
            _ => return None,
        };
        self.eat(prefix);
        let token = if is_bytes { Token::Bytes } else { Token::Text };
        let quote = ["\"\"\"", "'''", "\"", "'"]
            .into_iter()
            .find(|it| self.eat(it))?;
        Some(self.quoted(quote, is_raw, is_bytes).map(|()| token))
    }

    fn quoted(&mut self, quote: &str, is_raw: bool, is_bytes: bool) -> Result<(), String> {
        const ENDLESS: &str = "a text does not end that begins";
        loop {
            if self.eat(quote) {
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
        const UNKNOWN: &str = "an escape is none that CEL knows in the text";
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
        let digits: String = self.left.chars().take(length).collect();
        let is_whole = digits.len() == length && digits.chars().all(|it| it.is_digit(radix));
        if !is_whole {
            return Err(UNKNOWN.to_owned());
        }
        self.eat(&digits);
        let value = u32::from_str_radix(&digits, radix).unwrap_or(u32::MAX);
        if length >= 4 && char::from_u32(value).is_none() {
            return Err("an escape is no character in the text".to_owned());
        }
        Ok(())
    }
}

fn is_name(it: char) -> bool {
    it.is_ascii_alphabetic() || it == '_'
}

/// A whole number, if it is one of 64 bits.
pub(super) fn int(text: &str, is_negative: bool) -> Option<i64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let value = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if is_negative { -value } else { value }).ok()
}
