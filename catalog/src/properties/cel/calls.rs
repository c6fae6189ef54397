//! Functions, methods and macros: the type of a call.

use manifests::object::truncate;

use super::{
    TypeChecker, TypedExpr, is_word,
    lexer::Token,
    overloads::{self, overloads},
    types::{CelType, TypeBindings},
};

/// Maximum number of parts of a type. A map with equal key and value types doubles the number, and maps can be nested.
const MAX_TYPE_PARTS: usize = 200;

/// Maximum length of a name in messages, in characters.
const MAX_NAME_LEN: usize = 80;

// === impl TypeChecker ===

impl TypeChecker {
    /// Parses the call of a function whose name was read.
    pub(super) fn function_call(&mut self, name: &str, at: usize) -> Result<TypedExpr, String> {
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
            (1, true) => Ok(TypedExpr::new(CelType::Bool)),
            (1, false) => Err(format!("invalid argument to has() at {begin}")),
            _ => Err(undeclared("has", at)),
        }
    }

    /// Parses a method or a macro whose name was read.
    pub(super) fn method(
        &mut self,
        target: &TypedExpr,
        name: &str,
        at: usize,
    ) -> Result<TypedExpr, String> {
        self.expect("(")?;
        let max_arguments = match name {
            "all" | "exists" | "exists_one" | "filter" => 2,
            "map" => 3,
            _ => {
                let arguments = self.list_of(")")?;
                return call(name, Some(&target.kind), &arguments, at);
            }
        };
        let (token, begin) = self.tokens.next();
        let is_name = matches!(&token, Token::Name(name) if !is_word(name));
        let (true, Token::Name(variable)) = (is_name && self.tokens.skip(","), token) else {
            return Err(format!(
                "{name}() requires a variable name and an expression as arguments, at {begin}"
            ));
        };
        let element = target.kind.element().ok_or_else(|| {
            format!(
                "expression of type {} cannot be range of a comprehension (must be list, map, or dynamic) at {at}",
                target.kind
            )
        })?;
        self.variables.push((variable, element.clone()));
        let first = self.expression()?.kind;
        let second = if max_arguments == 3 && self.tokens.skip(",") {
            Some(self.expression()?.kind)
        } else {
            None
        };
        self.variables.pop();
        self.expect(")")?;
        let is_condition = name != "map" || second.is_some();
        if is_condition && !first.is_bool_compatible() {
            return Err(format!(
                "expected type bool but found {first} in {name}() at {at}"
            ));
        }
        let kind = match name {
            "filter" => CelType::list(element),
            "map" => CelType::list(second.unwrap_or(first)),
            _ => CelType::Bool,
        };
        bounded(kind, at).map(TypedExpr::new)
    }
}

/// Returns the type of a map's field. Unknown types can have any field.
pub(super) fn select(ty: &CelType, field: &str, at: usize) -> Result<TypedExpr, String> {
    let kind = match ty {
        CelType::Map(map) => {
            let [_, value] = &map.kinds;
            value.clone()
        }
        CelType::Any | CelType::Dyn | CelType::Free => CelType::Dyn,
        other => {
            return Err(format!(
                "type {other} does not support field selection of {:?} at {at}",
                truncate(field, MAX_NAME_LEN)
            ));
        }
    };
    Ok(TypedExpr {
        kind,
        is_field: true,
    })
}

/// Returns the result type of a function, or of a method of `receiver`.
pub(super) fn call(
    name: &str,
    receiver: Option<&CelType>,
    arguments: &[CelType],
    at: usize,
) -> Result<TypedExpr, String> {
    let (mut is_declared, mut result) = (false, None);
    for overload in overloads(name) {
        is_declared = true;
        let fits = overload.is_method == receiver.is_some();
        let actual = receiver.into_iter().chain(arguments);
        if !fits || overload.parameters.len() != actual.clone().count() {
            continue;
        }
        let mut bindings = TypeBindings::default();
        if overload
            .parameters
            .iter()
            .zip(actual)
            .all(|(parameter, argument)| bindings.accepts(parameter, argument))
        {
            let kind = bindings.substitute(&overload.result);
            result = Some(match result {
                None => kind,
                Some(other) if other == kind => kind,
                Some(_) => CelType::Dyn,
            });
        }
    }
    match result {
        Some(kind) => Ok(TypedExpr::new(kind)),
        None if is_declared => {
            let listed: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let receiver = receiver
                .map(|receiver| format!("{receiver}."))
                .unwrap_or_default();
            Err(format!(
                "found no matching overload for {name:?} applied to {receiver}({}) at {at}",
                listed.join(", ")
            ))
        }
        None => Err(undeclared(name, at)),
    }
}

pub(super) fn bounded(kind: CelType, at: usize) -> Result<CelType, String> {
    if kind.parts() > MAX_TYPE_PARTS {
        return Err(format!(
            "a type with more than {MAX_TYPE_PARTS} parts at {at}"
        ));
    }
    Ok(kind)
}

pub(super) fn type_named(name: &str, at: usize) -> Result<TypedExpr, String> {
    if overloads::TYPES.contains(&name) {
        Ok(TypedExpr::new(CelType::Type))
    } else {
        Err(undeclared(name, at))
    }
}

pub(super) fn undeclared(name: &str, at: usize) -> String {
    format!(
        "undeclared reference to {:?} at {at}",
        truncate(name, MAX_NAME_LEN)
    )
}
