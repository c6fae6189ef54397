//! Types of expressions and their compatibility. The parts of a type are shared, because an expression can contain it
//! in thousands of places.

use std::{fmt, sync::Arc};

/// Type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CelType {
    /// Element type of an empty list, which is compatible with every type.
    Free,
    Dyn,
    /// Any message: like `Dyn`, but not iterable.
    Any,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Type,
    List(Arc<TypeParts<1>>),
    Map(Arc<TypeParts<2>>),
    /// Type variable in the declaration of a function; all of its occurrences are the same type.
    Variable(u8),
}

/// Element types of a list or map.
#[derive(Debug, Clone)]
pub(super) struct TypeParts<const N: usize> {
    pub(super) kinds: [CelType; N],
    /// Number of types of which it consists.
    parts: usize,
}

// === impl TypeParts ===

impl<const N: usize> TypeParts<N> {
    fn new(kinds: [CelType; N]) -> Arc<Self> {
        #[cfg(test)]
        tests::MADE.set(tests::MADE.get() + 1);
        let parts = kinds.iter().map(CelType::parts).sum();
        Arc::new(Self { kinds, parts })
    }

    /// Combines each pair of types with `each`. Returns one of the arguments if the result is equal to it.
    fn combine(
        a: &Arc<Self>,
        b: &Arc<Self>,
        each: impl Fn(&CelType, &CelType) -> Option<CelType>,
    ) -> Option<Arc<Self>> {
        if Arc::ptr_eq(a, b) {
            return Some(Arc::clone(a));
        }
        let mut kinds = a.kinds.clone();
        for (kind, other) in kinds.iter_mut().zip(&b.kinds) {
            *kind = each(kind, other)?;
        }
        let is = |inner: &Arc<Self>| kinds.iter().zip(&inner.kinds).all(|(a, b)| a.is(b));
        Some(match (is(a), is(b)) {
            (true, _) => Arc::clone(a),
            (_, true) => Arc::clone(b),
            _ => Self::new(kinds),
        })
    }
}

impl<const N: usize> PartialEq for TypeParts<N> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.parts == other.parts && self.kinds == other.kinds)
    }
}

impl<const N: usize> Eq for TypeParts<N> {}

// === impl CelType ===

impl CelType {
    /// Returns the type of the variable `properties`: a list of maps from strings to any values.
    pub(super) fn properties() -> Self {
        Self::list(Self::map(Self::Text, Self::Any))
    }

    /// Returns the type of a list of `element`.
    pub(super) fn list(element: Self) -> Self {
        Self::List(TypeParts::new([element]))
    }

    /// Returns the type of a map from `key` to `value`.
    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(TypeParts::new([key, value]))
    }

    /// Reports whether the types are trivially equal, without comparing their parts.
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(a), Self::List(b)) => Arc::ptr_eq(a, b),
            (Self::Map(a), Self::Map(b)) => Arc::ptr_eq(a, b),
            (Self::List(_) | Self::Map(_), _) | (_, Self::List(_) | Self::Map(_)) => false,
            (a, b) => a == b,
        }
    }

    fn is_open(&self) -> bool {
        matches!(self, Self::Free | Self::Dyn | Self::Any)
    }

    pub(super) fn is_bool_compatible(&self) -> bool {
        *self == Self::Bool || self.is_open()
    }

    /// Returns the number of types of which the type consists.
    pub(super) fn parts(&self) -> usize {
        match self {
            Self::List(inner) => 1 + inner.parts,
            Self::Map(inner) => 1 + inner.parts,
            _ => 1,
        }
    }

    /// Returns the type over which a macro iterates: the elements of a list, or the keys of a map.
    pub(super) fn element(&self) -> Option<Self> {
        match self {
            Self::List(inner) => {
                let [element] = &inner.kinds;
                Some(element.clone())
            }
            Self::Map(inner) => {
                let [key, _] = &inner.kinds;
                Some(key.clone())
            }
            Self::Dyn | Self::Free => Some(Self::Dyn),
            _ => None,
        }
    }

    /// Returns the element type of a list that also contains a value of type `other`.
    pub(super) fn joined(&self, other: &Self) -> Self {
        let joined = |a: &Self, b: &Self| Some(a.joined(b));
        let both = match (self, other) {
            (Self::Free, other) | (other, Self::Free) => Some(other.clone()),
            (Self::List(a), Self::List(b)) => TypeParts::combine(a, b, joined).map(Self::List),
            (Self::Map(a), Self::Map(b)) => TypeParts::combine(a, b, joined).map(Self::Map),
            (a, b) if a == b => Some(a.clone()),
            _ => None,
        };
        both.unwrap_or(Self::Dyn)
    }
}

impl fmt::Display for CelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_PARTS_SHOWN: usize = 20;
        f.write_str(match self {
            Self::List(_) if self.parts() > MAX_PARTS_SHOWN => "list(…)",
            Self::Map(..) if self.parts() > MAX_PARTS_SHOWN => "map(…)",
            Self::Free | Self::Dyn | Self::Variable(_) => "dyn",
            Self::Any => "any",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::Text => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::Type => "type",
            Self::List(inner) => {
                let [element] = &inner.kinds;
                return write!(f, "list({element})");
            }
            Self::Map(inner) => {
                let [key, value] = &inner.kinds;
                return write!(f, "map({key}, {value})");
            }
        })
    }
}

/// Bindings of the type variables of one declaration in one call.
#[derive(Debug, Default)]
pub(super) struct TypeBindings([Option<CelType>; 2]);

// === impl TypeBindings ===

impl TypeBindings {
    /// Reports whether a parameter accepts an argument, and binds its type variables.
    pub(super) fn accepts(&mut self, parameter: &CelType, argument: &CelType) -> bool {
        match (parameter, argument) {
            (CelType::Variable(variable), argument) => {
                let Some(slot) = self.0.get_mut(usize::from(*variable)) else {
                    return false;
                };
                let binding = slot.take().unwrap_or(CelType::Free);
                *slot = unify(&binding, argument);
                slot.is_some()
            }
            (CelType::List(parameter), CelType::List(argument)) => {
                self.accept_all(&parameter.kinds, &argument.kinds)
            }
            (CelType::Map(parameter), CelType::Map(argument)) => {
                self.accept_all(&parameter.kinds, &argument.kinds)
            }
            (CelType::List(inner), argument) if argument.is_open() => {
                self.accept_all(&inner.kinds, &[CelType::Dyn])
            }
            (CelType::Map(inner), argument) if argument.is_open() => {
                self.accept_all(&inner.kinds, &[CelType::Dyn, CelType::Dyn])
            }
            (parameter, argument) => unify(parameter, argument).is_some(),
        }
    }

    fn accept_all<const N: usize>(
        &mut self,
        parameter: &[CelType; N],
        argument: &[CelType; N],
    ) -> bool {
        let mut both = parameter.iter().zip(argument);
        both.all(|(parameter, argument)| self.accepts(parameter, argument))
    }

    /// Replaces the type variables of a declared type by their bindings.
    pub(super) fn substitute(&self, kind: &CelType) -> CelType {
        match kind {
            CelType::Variable(variable) => {
                let binding = self.0.get(usize::from(*variable));
                binding.cloned().flatten().unwrap_or(CelType::Free)
            }
            CelType::List(inner) => {
                let [element] = &inner.kinds;
                CelType::list(self.substitute(element))
            }
            CelType::Map(inner) => {
                let [key, value] = &inner.kinds;
                CelType::map(self.substitute(key), self.substitute(value))
            }
            other => other.clone(),
        }
    }
}

/// Unifies two types. Returns `None` if they are incompatible.
fn unify(a: &CelType, b: &CelType) -> Option<CelType> {
    Some(match (a, b) {
        (CelType::Free, other) | (other, CelType::Free) => other.clone(),
        (CelType::Any, _) | (_, CelType::Any) => CelType::Any,
        (CelType::Dyn, _) | (_, CelType::Dyn) => CelType::Dyn,
        (CelType::Null, time @ (CelType::Duration | CelType::Timestamp))
        | (time @ (CelType::Duration | CelType::Timestamp), CelType::Null) => time.clone(),
        (CelType::List(a), CelType::List(b)) => CelType::List(TypeParts::combine(a, b, unify)?),
        (CelType::Map(a), CelType::Map(b)) => CelType::Map(TypeParts::combine(a, b, unify)?),
        (a, b) if a == b => a.clone(),
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Number of composite types that were created in this thread.
        pub(crate) static MADE: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn equal_types_are_shared() {
        let (a, b) = (CelType::properties(), CelType::properties());
        let free = CelType::list(CelType::Free);
        let before = MADE.get();
        assert_eq!(a, b);
        for (a, b) in [(&a, &a.clone()), (&a, &b), (&a, &free), (&free, &b)] {
            assert!(unify(a, b).is_some());
            assert_eq!(a.joined(b), CelType::properties().joined(&CelType::Free));
        }
        // Only the types that the comparison itself creates.
        assert_eq!(MADE.get() - before, 4 * 2);
    }
}
