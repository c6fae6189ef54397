//! Types of expressions, and whether one may stand where another is wanted. What a type is made of is shared: an expression
//! may have thousands of places in which it stands.

use std::{fmt, sync::Arc};

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of what an empty list has elements: whatever is wanted.
    Free,
    Dyn,
    /// Any message: as dyn, but nothing that one can go through.
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
    List(Arc<Of<1>>),
    Map(Arc<Of<2>>),
    /// In the declaration of a function: the same wherever it stands.
    Variable(u8),
}

/// What another type is of.
#[derive(Debug, Clone)]
pub(super) struct Of<const N: usize> {
    pub(super) kinds: [Kind; N],
    /// Of how many types it is made.
    parts: usize,
}

// === impl Of ===

impl<const N: usize> Of<N> {
    fn new(kinds: [Kind; N]) -> Arc<Self> {
        #[cfg(test)]
        tests::MADE.set(tests::MADE.get() + 1);
        let parts = kinds.iter().map(Kind::parts).sum();
        Arc::new(Self { kinds, parts })
    }

    /// What comes of these two and two others; what is there already if it is that.
    fn both(
        a: &Arc<Self>,
        b: &Arc<Self>,
        each: impl Fn(&Kind, &Kind) -> Option<Kind>,
    ) -> Option<Arc<Self>> {
        if Arc::ptr_eq(a, b) {
            return Some(Arc::clone(a));
        }
        let mut kinds = a.kinds.clone();
        for (kind, other) in kinds.iter_mut().zip(&b.kinds) {
            *kind = each(kind, other)?;
        }
        let is = |of: &Arc<Self>| kinds.iter().zip(&of.kinds).all(|(a, b)| a.is(b));
        Some(match (is(a), is(b)) {
            (true, _) => Arc::clone(a),
            (_, true) => Arc::clone(b),
            _ => Self::new(kinds),
        })
    }
}

impl<const N: usize> PartialEq for Of<N> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.parts == other.parts && self.kinds == other.kinds)
    }
}

impl<const N: usize> Eq for Of<N> {}

// === impl Kind ===

impl Kind {
    /// What constraints of OLM look at: a list of maps from text to anything.
    pub(super) fn properties() -> Self {
        Self::list(Self::map(Self::Text, Self::Any))
    }

    /// A list of these.
    pub(super) fn list(element: Self) -> Self {
        Self::List(Of::new([element]))
    }

    /// A map from the one to the other.
    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Of::new([key, value]))
    }

    /// Whether it is the same at sight, without looking at what it is made of.
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

    pub(super) fn may_be_bool(&self) -> bool {
        *self == Self::Bool || self.is_open()
    }

    /// Of how many types it is made.
    pub(super) fn parts(&self) -> usize {
        match self {
            Self::List(of) => 1 + of.parts,
            Self::Map(of) => 1 + of.parts,
            _ => 1,
        }
    }

    /// What a macro goes through: the elements of a list, the keys of a map.
    pub(super) fn element(&self) -> Option<Self> {
        match self {
            Self::List(of) => {
                let [element] = &of.kinds;
                Some(element.clone())
            }
            Self::Map(of) => {
                let [key, _] = &of.kinds;
                Some(key.clone())
            }
            Self::Dyn | Self::Free => Some(Self::Dyn),
            _ => None,
        }
    }

    /// The type of a list's elements when one more is in it.
    pub(super) fn joined(&self, other: &Self) -> Self {
        let joined = |a: &Self, b: &Self| Some(a.joined(b));
        let both = match (self, other) {
            (Self::Free, other) | (other, Self::Free) => Some(other.clone()),
            (Self::List(a), Self::List(b)) => Of::both(a, b, joined).map(Self::List),
            (Self::Map(a), Self::Map(b)) => Of::both(a, b, joined).map(Self::Map),
            (a, b) if a == b => Some(a.clone()),
            _ => None,
        };
        both.unwrap_or(Self::Dyn)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONG: usize = 20;
        f.write_str(match self {
            Self::List(_) if self.parts() > LONG => "list(…)",
            Self::Map(..) if self.parts() > LONG => "map(…)",
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
            Self::List(of) => {
                let [element] = &of.kinds;
                return write!(f, "list({element})");
            }
            Self::Map(of) => {
                let [key, value] = &of.kinds;
                return write!(f, "map({key}, {value})");
            }
        })
    }
}

/// What the variables of one declaration stand for in one call.
#[derive(Debug, Default)]
pub(super) struct Solving([Option<Kind>; 2]);

// === impl Solving ===

impl Solving {
    /// Whether a parameter takes an argument.
    pub(super) fn takes(&mut self, wanted: &Kind, given: &Kind) -> bool {
        match (wanted, given) {
            (Kind::Variable(variable), given) => {
                let Some(slot) = self.0.get_mut(usize::from(*variable)) else {
                    return false;
                };
                let known = slot.take().unwrap_or(Kind::Free);
                *slot = meet(&known, given);
                slot.is_some()
            }
            (Kind::List(wanted), Kind::List(given)) => self.take(&wanted.kinds, &given.kinds),
            (Kind::Map(wanted), Kind::Map(given)) => self.take(&wanted.kinds, &given.kinds),
            (Kind::List(of), given) if given.is_open() => self.take(&of.kinds, &[Kind::Dyn]),
            (Kind::Map(of), given) if given.is_open() => {
                self.take(&of.kinds, &[Kind::Dyn, Kind::Dyn])
            }
            (wanted, given) => meet(wanted, given).is_some(),
        }
    }

    fn take<const N: usize>(&mut self, wanted: &[Kind; N], given: &[Kind; N]) -> bool {
        let mut both = wanted.iter().zip(given);
        both.all(|(wanted, given)| self.takes(wanted, given))
    }

    /// A declared type, with what its variables stand for.
    pub(super) fn solved(&self, kind: &Kind) -> Kind {
        match kind {
            Kind::Variable(variable) => {
                let known = self.0.get(usize::from(*variable));
                known.cloned().flatten().unwrap_or(Kind::Free)
            }
            Kind::List(of) => {
                let [element] = &of.kinds;
                Kind::list(self.solved(element))
            }
            Kind::Map(of) => {
                let [key, value] = &of.kinds;
                Kind::map(self.solved(key), self.solved(value))
            }
            other => other.clone(),
        }
    }
}

/// What two types are that have to be one; `None` if they cannot be.
fn meet(a: &Kind, b: &Kind) -> Option<Kind> {
    Some(match (a, b) {
        (Kind::Free, other) | (other, Kind::Free) => other.clone(),
        (Kind::Any, _) | (_, Kind::Any) => Kind::Any,
        (Kind::Dyn, _) | (_, Kind::Dyn) => Kind::Dyn,
        (Kind::Null, time @ (Kind::Duration | Kind::Timestamp))
        | (time @ (Kind::Duration | Kind::Timestamp), Kind::Null) => time.clone(),
        (Kind::List(a), Kind::List(b)) => Kind::List(Of::both(a, b, meet)?),
        (Kind::Map(a), Kind::Map(b)) => Kind::Map(Of::both(a, b, meet)?),
        (a, b) if a == b => a.clone(),
        _ => return None,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How many types of others were made in this thread.
        pub(crate) static MADE: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn what_is_the_same_is_shared() {
        let (a, b) = (Kind::properties(), Kind::properties());
        let free = Kind::list(Kind::Free);
        let before = MADE.get();
        assert_eq!(a, b);
        for (a, b) in [(&a, &a.clone()), (&a, &b), (&a, &free), (&free, &b)] {
            assert!(meet(a, b).is_some());
            assert_eq!(a.joined(b), Kind::properties().joined(&Kind::Free));
        }
        // Those of the line that compares.
        assert_eq!(MADE.get() - before, 4 * 2);
    }
}
