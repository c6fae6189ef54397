//! Type checker for CEL expressions in `olm.constraint`: reports whether OLM could compile an expression to a boolean.
//!
//! An expression is parsed once, directly to its type; no syntax tree is needed, because expressions are not evaluated
//! here. Macros (`exists`, `map`) declare their variable before the rest of them is parsed. Grammar and standard
//! functions are those of cel-go, in OLM's environment: `properties`, a list of maps from strings to any values, and
//! `semver_compare`.
//!
//! ```text
//! text ── lexer ──► expression ──► types (int, list(string), any …) ◄── overloads
//! ```
//!
//! The available CEL crate is not safe for untrusted input: forty parentheses overflow its stack. Here, depth and
//! length are limited.

mod calls;
mod lexer;
mod overloads;
#[cfg(test)]
mod tests;
mod types;

use self::{
    calls::{bounded, call, select, type_named, undeclared},
    lexer::{Token, TokenStream},
    types::CelType,
};

/// Maximum nesting depth. cel-go allows 250, which would exceed the stack of threads.
const MAX_DEPTH: usize = 100;
/// Maximum length of an expression in characters (cel-go parity).
const MAX_LENGTH: usize = 100_000;
/// Names that are reserved in CEL, or for its host languages.
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
/// Binary operators with their precedence.
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
/// Returns the problem with the position of the character, starting at 1.
pub(super) fn check(text: &str) -> Result<(), String> {
    let length = text.chars().count();
    if length > MAX_LENGTH {
        return Err(format!(
            "the CEL expression has {length} characters, more than the limit of {MAX_LENGTH}"
        ));
    }
    let mut checker = TypeChecker {
        tokens: TokenStream::new(text)?,
        variables: vec![("properties".to_owned(), CelType::properties())],
        depth: 0,
    };
    let kind = checker.expression()?.kind;
    match checker.tokens.next() {
        (Token::End, _) => {}
        (token, at) => return Err(unexpected(&token, at)),
    }
    match kind {
        CelType::Bool => Ok(()),
        other => Err(format!(
            "the CEL expression has type {other}; it must have type bool"
        )),
    }
}

/// Type of a parsed expression.
struct TypedExpr {
    kind: CelType,
    /// True for a field selection, the only argument that `has` accepts.
    is_field: bool,
}

struct TypeChecker {
    tokens: TokenStream,
    /// Variables in scope; those of macros are at the end.
    variables: Vec<(String, CelType)>,
    depth: usize,
}

// === impl TypeChecker ===

impl TypeChecker {
    fn expression(&mut self) -> Result<TypedExpr, String> {
        let at = self.tokens.at();
        if self.depth >= MAX_DEPTH {
            return Err(format!(
                "the CEL expression is nested deeper than {MAX_DEPTH} levels at {at}"
            ));
        }
        self.depth += 1;
        let read = self.conditional();
        self.depth -= 1;
        read
    }

    fn conditional(&mut self) -> Result<TypedExpr, String> {
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

    /// Parses operands and binary operators of at least this precedence.
    fn binary(&mut self, least: u8) -> Result<TypedExpr, String> {
        let mut left = self.unary()?;
        loop {
            let (token, at) = self.tokens.peek();
            let at = *at;
            let operator = OPERATORS.iter().find(|(sign, ..)| token.is(sign));
            let Some((sign, strength, function)) = operator.filter(|operator| operator.1 >= least)
            else {
                return Ok(left);
            };
            self.tokens.skip(sign);
            let right = self.binary(strength + 1)?;
            left = call(function, None, &[left.kind, right.kind], at)?;
        }
    }

    fn unary(&mut self) -> Result<TypedExpr, String> {
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
                lexer::int(text, signs % 2 == 1).ok_or_else(|| invalid("int", *at))?;
                self.tokens.next();
                return self.members(TypedExpr::new(CelType::Int), None);
            }
            let operand = self.member()?;
            if signs.is_multiple_of(2) {
                return Ok(operand); // two signs cancel each other, regardless of the operand
            }
            return call(function, None, &[operand.kind], at);
        }
        self.member()
    }

    fn member(&mut self) -> Result<TypedExpr, String> {
        let (token, at) = self.tokens.next();
        let kind = match token {
            Token::Int(text) => {
                lexer::int(&text, false).ok_or_else(|| invalid("int", at))?;
                CelType::Int
            }
            Token::Uint => CelType::Uint,
            Token::Double => CelType::Double,
            Token::Text => CelType::Text,
            Token::Bytes => CelType::Bytes,
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
                return self.name_expression(&name, at);
            }
            Token::Name(name) => match name.as_str() {
                "true" | "false" => CelType::Bool,
                "null" => CelType::Null,
                _ => return self.name_expression(&name, at),
            },
            token => return Err(unexpected(&token, at)),
        };
        self.members(TypedExpr::new(kind), None)
    }

    /// Parses an expression that starts with a name: a call, a variable, a type, or the first part of a type name.
    fn name_expression(&mut self, name: &str, at: usize) -> Result<TypedExpr, String> {
        if RESERVED.contains(&name) {
            return Err(format!("reserved identifier {name:?} at {at}"));
        }
        if name == "in" {
            return Err(unexpected(&Token::Name(name.to_owned()), at));
        }
        if self.tokens.is("(") {
            let read = self.function_call(name, at)?;
            return self.members(read, None);
        }
        let variable = self
            .variables
            .iter()
            .rev()
            .find(|(declared, _)| declared == name);
        match variable {
            Some((_, kind)) => {
                let kind = kind.clone();
                self.members(TypedExpr::new(kind), None)
            }
            None => self.members(TypedExpr::new(CelType::Dyn), Some((name.to_owned(), at))),
        }
    }

    /// Parses fields, elements and methods of an expression, or the remaining part of a type name.
    fn members(
        &mut self,
        mut read: TypedExpr,
        mut path: Option<(String, usize)>,
    ) -> Result<TypedExpr, String> {
        loop {
            let at = self.tokens.at();
            if let Some((name, begin)) = path.take() {
                if self.tokens.is(".") {
                    self.tokens.next();
                    let field = self.field()?;
                    // No type has methods or fields.
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
            (Token::Name(name) | Token::BacktickName(name), _) => Ok(name),
            (token, at) => Err(unexpected(&token, at)),
        }
    }

    fn list(&mut self) -> Result<CelType, String> {
        if self.tokens.skip(",") {
            self.expect("]")?;
            return Ok(CelType::list(CelType::Free));
        }
        let mut all = CelType::Free;
        while !self.tokens.skip("]") {
            let kind = self.expression()?.kind;
            all = all.joined(&kind);
            if !self.tokens.is("]") {
                self.expect(",")?;
            }
        }
        Ok(CelType::list(all))
    }

    fn map(&mut self) -> Result<CelType, String> {
        let (mut keys, mut values) = (CelType::Free, CelType::Free);
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
        Ok(CelType::map(keys, values))
    }

    /// Parses a protobuf message. The known messages represent values; none of them is a boolean.
    fn message(&mut self, name: &str, at: usize) -> Result<TypedExpr, String> {
        let message = name.strip_prefix("google.protobuf.");
        if !message.is_some_and(|message| overloads::MESSAGES.contains(&message)) {
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
        Ok(TypedExpr::new(CelType::Dyn))
    }

    /// Parses arguments up to the closing sign. The opening sign was read before.
    fn list_of(&mut self, end: &str) -> Result<Vec<CelType>, String> {
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

impl TypedExpr {
    fn new(kind: CelType) -> Self {
        Self {
            kind,
            is_field: false,
        }
    }
}

fn is_word(name: &str) -> bool {
    RESERVED.contains(&name) || matches!(name, "in" | "true" | "false" | "null")
}

fn invalid(literal: &str, at: usize) -> String {
    format!("invalid {literal} literal at {at}")
}

fn unexpected(token: &Token, at: usize) -> String {
    format!("unexpected {token} at {at}")
}
