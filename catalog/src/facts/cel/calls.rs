//! Functions, methods and macros: what a call gives.

use manifests::object::shortened;

use super::{
    Read, Reader,
    functions::{self, overloads},
    is_word,
    kind::{Kind, Solving},
    token::Token,
};

/// How many parts a type may have: a map whose keys and values are of one type doubles it, and maps may follow each other.
const PARTS: usize = 200;

/// How much of a name is told, in characters.
const NAME: usize = 80;

// === impl Reader ===

impl Reader {
    /// A function's call; the name was read.
    pub(super) fn called(&mut self, name: &str, at: usize) -> Result<Read, String> {
        self.expect("(")?;
        if name != "has" {
            let arguments = self.list_of(")")?;
            return call(name, None, &arguments, at);
        }
        let begin = self.tokens.at();
        let (mut count, mut is_field) = (0, false);
        while !self.tokens.skip(")") {
            if count > 0 {
                self.expect(",")?;
            }
            is_field = self.expression()?.is_field;
            count += 1;
        }
        match (count, is_field) {
            (1, true) => Ok(Read::of(Kind::Bool)),
            (1, false) => Err(format!("invalid argument to has() at {begin}")),
            _ => Err(undeclared("has", at)),
        }
    }

    /// A method or a macro; its name was read.
    pub(super) fn method(&mut self, of: &Read, name: &str, at: usize) -> Result<Read, String> {
        self.expect("(")?;
        let most = match name {
            "all" | "exists" | "exists_one" | "filter" => 2,
            "map" => 3,
            _ => {
                let arguments = self.list_of(")")?;
                return call(name, Some(&of.kind), &arguments, at);
            }
        };
        let (token, begin) = self.tokens.next();
        let is_name = matches!(&token, Token::Name(name) if !is_word(name));
        let (true, Token::Name(variable)) = (is_name && self.tokens.skip(","), token) else {
            return Err(format!(
                "{name}() takes a simple name and what to do with each element, at {begin}"
            ));
        };
        let element = of.kind.element().ok_or_else(|| {
            format!(
                "expression of type {} cannot be range of a comprehension (must be list, map, or dynamic) at {at}",
                of.kind
            )
        })?;
        self.variables.push((variable, element.clone()));
        let first = self.expression()?.kind;
        let second = if most == 3 && self.tokens.skip(",") {
            Some(self.expression()?.kind)
        } else {
            None
        };
        self.variables.pop();
        self.expect(")")?;
        let is_condition = name != "map" || second.is_some();
        if is_condition && !first.may_be_bool() {
            return Err(format!(
                "expected type bool but found {first} in {name}() at {at}"
            ));
        }
        let kind = match name {
            "filter" => Kind::list(element),
            "map" => Kind::list(second.unwrap_or(first)),
            _ => Kind::Bool,
        };
        bounded(kind, at).map(Read::of)
    }
}

/// The field of a map; what is not known may have any.
pub(super) fn select(of: &Kind, field: &str, at: usize) -> Result<Read, String> {
    let kind = match of {
        Kind::Map(of) => {
            let [_, value] = &of.kinds;
            value.clone()
        }
        Kind::Any | Kind::Dyn | Kind::Free => Kind::Dyn,
        other => {
            return Err(format!(
                "type {other} does not support field selection of {:?} at {at}",
                shortened(field, NAME)
            ));
        }
    };
    Ok(Read {
        kind,
        is_field: true,
    })
}

/// The result of a function, or of a method of something.
pub(super) fn call(
    name: &str,
    of: Option<&Kind>,
    arguments: &[Kind],
    at: usize,
) -> Result<Read, String> {
    let (mut is_known, mut result) = (false, None);
    for overload in overloads(name) {
        is_known = true;
        let fits = overload.is_method == of.is_some();
        let given = of.into_iter().chain(arguments);
        if !fits || overload.parameters.len() != given.clone().count() {
            continue;
        }
        let mut solving = Solving::default();
        if overload
            .parameters
            .iter()
            .zip(given)
            .all(|(wanted, given)| solving.takes(wanted, given))
        {
            let kind = solving.solved(&overload.result);
            result = Some(match result {
                None => kind,
                Some(known) if known == kind => kind,
                Some(_) => Kind::Dyn,
            });
        }
    }
    match result {
        Some(kind) => Ok(Read::of(kind)),
        None if is_known => {
            let listed: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let of = of.map(|of| format!("{of}.")).unwrap_or_default();
            Err(format!(
                "found no matching overload for {name:?} applied to {of}({}) at {at}",
                listed.join(", ")
            ))
        }
        None => Err(undeclared(name, at)),
    }
}

pub(super) fn bounded(kind: Kind, at: usize) -> Result<Kind, String> {
    if kind.parts() > PARTS {
        return Err(format!("a type with more than {PARTS} parts at {at}"));
    }
    Ok(kind)
}

pub(super) fn type_named(name: &str, at: usize) -> Result<Read, String> {
    if functions::TYPES.contains(&name) {
        Ok(Read::of(Kind::Type))
    } else {
        Err(undeclared(name, at))
    }
}

pub(super) fn undeclared(name: &str, at: usize) -> String {
    format!(
        "undeclared reference to {:?} at {at}",
        shortened(name, NAME)
    )
}
