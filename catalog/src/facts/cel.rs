//! Whether OLM could compile a CEL expression of `olm.constraint`, and whether it gives a boolean.
//!
//! An expression is read once, and what is read is its type: there is no tree, for nothing here evaluates one. Macros
//! (`exists`, `map`) declare their variable before the rest of them is read. The grammar and the standard functions are
//! those of cel-go, in the environment of OLM: `properties`, a list of maps from text to anything, and `semver_compare`.
//!
//! ```text
//!  text ── token ──► expression ──► kind (int, list(string), any …) ◄── functions
//! ```
//!
//! The crate that reads CEL is not for strangers: forty parentheses overflow its stack. Here depth and length are bounded.

mod calls;
mod functions;
mod kind;
#[cfg(test)]
mod tests;
mod token;

use self::{
    calls::{bounded, call, select, type_named, undeclared},
    kind::Kind,
    token::{Token, Tokens},
};

/// How deep expressions may be nested. cel-go allows 250, for which the stacks of threads would not do here.
const DEPTH: usize = 100;
/// How many characters an expression may have (cel-go parity).
const LENGTH: usize = 100_000;
/// Names that CEL keeps for later, or for the languages that it is embedded in.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];
/// Operators with two operands, by how tightly they bind.
const OPERATORS: [(&str, u8, &str); 14] = [
    ("||", 1, "_||_"),
    ("&&", 2, "_&&_"),
    ("==", 3, "_==_"),
    ("!=", 3, "_!=_"),
    ("<=", 3, "_<=_"),
    (">=", 3, "_>=_"),
    ("<", 3, "_<_"),
    (">", 3, "_>_"),
    ("in", 3, "@in"),
    ("+", 4, "_+_"),
    ("-", 4, "_-_"),
    ("*", 5, "_*_"),
    ("/", 5, "_/_"),
    ("%", 5, "_%_"),
];

/// Checks an expression.
///
/// # Errors
/// What is wrong, at which character, counted from 1.
pub(super) fn check(text: &str) -> Result<(), String> {
    let length = text.chars().count();
    if length > LENGTH {
        return Err(format!(
            "the CEL expression has {length} characters, and {LENGTH} are the most"
        ));
    }
    let mut reader = Reader {
        tokens: Tokens::new(text)?,
        variables: vec![("properties".to_owned(), Kind::properties())],
        depth: 0,
    };
    let kind = reader.expression()?.kind;
    match reader.tokens.next() {
        (Token::End, _) => {}
        (token, at) => return Err(unexpected(&token, at)),
    }
    match kind {
        Kind::Bool => Ok(()),
        other => Err(format!(
            "the CEL expression has type {other}; it must have type bool"
        )),
    }
}

/// What was read.
struct Read {
    kind: Kind,
    /// Whether it is the field of something, which is all that `has` takes.
    is_field: bool,
}

struct Reader {
    tokens: Tokens,
    /// Those of macros are at the end.
    variables: Vec<(String, Kind)>,
    depth: usize,
}

// === impl Reader ===

impl Reader {
    fn expression(&mut self) -> Result<Read, String> {
        let at = self.tokens.at();
        if self.depth >= DEPTH {
            return Err(format!(
                "the CEL expression is nested deeper than {DEPTH} levels at {at}"
            ));
        }
        self.depth += 1;
        let read = self.conditional();
        self.depth -= 1;
        read
    }

    fn conditional(&mut self) -> Result<Read, String> {
        let condition = self.binary(1)?;
        let at = self.tokens.at();
        if !self.tokens.skip("?") {
            return Ok(condition);
        }
        let yes = self.binary(1)?.kind;
        self.expect(":")?;
        let no = self.expression()?.kind;
        call("_?_:_", None, &[condition.kind, yes, no], at)
    }

    /// Operands and the operators between them that bind at least as tightly.
    fn binary(&mut self, least: u8) -> Result<Read, String> {
        let mut left = self.unary()?;
        loop {
            let (token, at) = self.tokens.peek();
            let at = *at;
            let found = OPERATORS.iter().find(|(sign, ..)| token.is(sign));
            let Some((sign, strength, function)) = found.filter(|found| found.1 >= least) else {
                return Ok(left);
            };
            self.tokens.skip(sign);
            let right = self.binary(strength + 1)?;
            left = call(function, None, &[left.kind, right.kind], at)?;
        }
    }

    fn unary(&mut self) -> Result<Read, String> {
        let at = self.tokens.at();
        for (sign, function) in [("!", "!_"), ("-", "-_")] {
            if !self.tokens.is(sign) {
                continue;
            }
            let mut signs = 0_usize;
            while self.tokens.skip(sign) {
                signs += 1;
            }
            if sign == "-"
                && let (Token::Int(text), at) = self.tokens.peek()
            {
                // The lowest integer has no positive counterpart.
                token::int(text, signs % 2 == 1).ok_or_else(|| invalid("int", *at))?;
                self.tokens.next();
                return self.members(Read::of(Kind::Int), None);
            }
            let operand = self.member()?;
            if signs.is_multiple_of(2) {
                return Ok(operand); // two of them are none, whatever they stand before
            }
            return call(function, None, &[operand.kind], at);
        }
        self.member()
    }

    fn member(&mut self) -> Result<Read, String> {
        let (token, at) = self.tokens.next();
        let kind = match token {
            Token::Int(text) => {
                token::int(&text, false).ok_or_else(|| invalid("int", at))?;
                Kind::Int
            }
            Token::Uint => Kind::Uint,
            Token::Double => Kind::Double,
            Token::Text => Kind::Text,
            Token::Bytes => Kind::Bytes,
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return self.members(inner, None);
            }
            Token::Sign("[") => bounded(self.list()?, at)?,
            Token::Sign("{") => bounded(self.map()?, at)?,
            Token::Sign(".") => {
                let (token, at) = self.tokens.next();
                let Token::Name(name) = token else {
                    return Err(unexpected(&token, at));
                };
                return self.named(&name, at);
            }
            Token::Name(name) => match name.as_str() {
                "true" | "false" => Kind::Bool,
                "null" => Kind::Null,
                _ => return self.named(&name, at),
            },
            token => return Err(unexpected(&token, at)),
        };
        self.members(Read::of(kind), None)
    }

    /// What begins with a name: a call, a variable, a type, or the first part of a type's name.
    fn named(&mut self, name: &str, at: usize) -> Result<Read, String> {
        if RESERVED.contains(&name) {
            return Err(format!("reserved identifier {name:?} at {at}"));
        }
        if name == "in" {
            return Err(unexpected(&Token::Name(name.to_owned()), at));
        }
        if self.tokens.is("(") {
            let read = self.called(name, at)?;
            return self.members(read, None);
        }
        let variable = self.variables.iter().rev().find(|(known, _)| known == name);
        match variable {
            Some((_, kind)) => {
                let kind = kind.clone();
                self.members(Read::of(kind), None)
            }
            None => self.members(Read::of(Kind::Dyn), Some((name.to_owned(), at))),
        }
    }

    /// Fields, elements and methods of what was read, or the rest of a type's name.
    fn members(
        &mut self,
        mut read: Read,
        mut path: Option<(String, usize)>,
    ) -> Result<Read, String> {
        loop {
            let at = self.tokens.at();
            if let Some((name, begin)) = path.take() {
                if self.tokens.is(".") {
                    self.tokens.next();
                    let field = self.field()?;
                    // No type that is here has methods or fields.
                    if self.tokens.is("(") {
                        read = type_named(&name, begin)?;
                        read = self.method(&read, &field, at)?;
                    } else if name.starts_with("google") {
                        path = Some((format!("{name}.{field}"), begin));
                    } else {
                        let kind = type_named(&name, begin)?.kind;
                        read = select(&kind, &field, at)?;
                    }
                    continue;
                }
                if self.tokens.is("{") {
                    read = self.message(&name, begin)?;
                    continue;
                }
                read = type_named(&name, begin)?;
                continue;
            }
            if self.tokens.is(".") {
                self.tokens.next();
                let field = self.field()?;
                read = if self.tokens.is("(") {
                    self.method(&read, &field, at)?
                } else {
                    select(&read.kind, &field, at)?
                };
            } else if self.tokens.is("[") {
                self.tokens.next();
                let index = self.expression()?.kind;
                self.expect("]")?;
                read = call("_[_]", None, &[read.kind, index], at)?;
            } else {
                return Ok(read);
            }
        }
    }

    fn field(&mut self) -> Result<String, String> {
        match self.tokens.next() {
            (Token::Name(name), at)
                if matches!(name.as_str(), "in" | "true" | "false" | "null") =>
            {
                Err(unexpected(&Token::Name(name), at))
            }
            (Token::Name(name) | Token::Quoted(name), _) => Ok(name),
            (token, at) => Err(unexpected(&token, at)),
        }
    }

    fn list(&mut self) -> Result<Kind, String> {
        if self.tokens.skip(",") {
            self.expect("]")?;
            return Ok(Kind::list(Kind::Free));
        }
        let mut all = Kind::Free;
        while !self.tokens.skip("]") {
            let kind = self.expression()?.kind;
            all = all.joined(&kind);
            if !self.tokens.is("]") {
                self.expect(",")?;
            }
        }
        Ok(Kind::list(all))
    }

    fn map(&mut self) -> Result<Kind, String> {
        let (mut keys, mut values) = (Kind::Free, Kind::Free);
        if self.tokens.skip(",") {
            self.expect("}")?;
        } else {
            while !self.tokens.skip("}") {
                keys = keys.joined(&self.expression()?.kind);
                self.expect(":")?;
                values = values.joined(&self.expression()?.kind);
                if !self.tokens.is("}") {
                    self.expect(",")?;
                }
            }
        }
        Ok(Kind::map(keys, values))
    }

    /// A message of protobuf. Those that there are stand for values; none is a boolean by itself.
    fn message(&mut self, name: &str, at: usize) -> Result<Read, String> {
        let known = name.strip_prefix("google.protobuf.");
        if !known.is_some_and(|known| functions::MESSAGES.contains(&known)) {
            return Err(undeclared(name, at));
        }
        self.expect("{")?;
        while !self.tokens.skip("}") {
            self.field()?;
            self.expect(":")?;
            self.expression()?;
            if !self.tokens.is("}") {
                self.expect(",")?;
            }
        }
        Ok(Read::of(Kind::Dyn))
    }

    /// Arguments up to what ends them; the first sign was read.
    fn list_of(&mut self, end: &str) -> Result<Vec<Kind>, String> {
        let mut kinds = Vec::new();
        if self.tokens.skip(end) {
            return Ok(kinds);
        }
        loop {
            kinds.push(self.expression()?.kind);
            if self.tokens.skip(end) {
                return Ok(kinds);
            }
            self.expect(",")?;
        }
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.tokens.skip(sign) {
            return Ok(());
        }
        let (token, at) = self.tokens.peek();
        Err(format!("expected {sign:?} but found {token} at {at}"))
    }
}

impl Read {
    fn of(kind: Kind) -> Self {
        Self {
            kind,
            is_field: false,
        }
    }
}

fn is_word(name: &str) -> bool {
    RESERVED.contains(&name) || matches!(name, "in" | "true" | "false" | "null")
}

fn invalid(what: &str, at: usize) -> String {
    format!("invalid {what} literal at {at}")
}

fn unexpected(token: &Token, at: usize) -> String {
    format!("unexpected {token} at {at}")
}
