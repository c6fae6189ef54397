//! Round trip of a value through its Go type, in place.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use super::{
    Field, Struct, Type,
    scalar::{self, Scalar},
    suggest,
};
use crate::path::{Path, Step};

/// Maximum number of reported unknown fields, and of reported type errors. A document with more problems is not of its
/// declared kind.
pub const MAX_PROBLEMS: usize = 1000;

/// A location where a document differs from Go's types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The path of the field.
    pub path: Path,
    /// The kind of problem.
    pub kind: ProblemKind,
}

/// Kind of problem of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProblemKind {
    /// Go lacks the field, and drops it silently.
    Unknown {
        /// The field that was probably intended.
        hint: Option<Suggestion>,
    },
    /// Go fails on the value.
    Mismatch {
        /// The type that Go requires, with its article: `a string`.
        expected: &'static str,
        /// The type of the value: `a boolean`.
        found: &'static str,
        /// The value, truncated.
        value: String,
    },
}

/// The probable intention of an unknown field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suggestion {
    /// A field of the same struct with this name.
    Spelling(&'static str),
    /// A field of an enclosing struct, with its whole path.
    Parent(Path),
}

/// Converts a value as a round trip through its Go type does, and returns the locations where conversion failed or removed
/// a field.
///
/// Fields that the type lacks are removed and reported. Fields that equal their absence (`null`, and zero values that Go
/// omits) are removed silently. Numbers take the form that Go prints: `1.0` becomes the integer 1, the quantity `0.5` the
/// string `500m`. Values of a wrong type are reported and left unchanged. Fields that Go adds (`status: {}`) are not added.
///
/// At most [`MAX_PROBLEMS`] of each kind are reported, but all are applied.
pub fn conform(value: &mut Value, ty: impl Into<Type>) -> Vec<Problem> {
    walk(value, ty.into(), Zeros::Drop)
}

/// Like [`conform`], but preserves explicit zero values: a third-party manifest loses only fields that no API server
/// accepts.
pub fn prune(value: &mut Value, ty: impl Into<Type>) -> Vec<Problem> {
    walk(value, ty.into(), Zeros::Keep)
}

fn walk(value: &mut Value, ty: Type, zeros: Zeros) -> Vec<Problem> {
    let mut walk = ConformWalk {
        problems: Vec::new(),
        unknown: 0,
        mismatches: 0,
        zeros,
    };
    let root = PathFrame {
        above: None,
        step: None,
        of: None,
    };
    if !value.is_null() {
        walk.value(value, ty, &root);
    }
    walk.problems
}

/// Returns the problems that [`conform`] would report, without changing the value.
pub fn check(value: &Value, ty: impl Into<Type>) -> Vec<Problem> {
    conform(&mut value.clone(), ty)
}

// === ConformWalk ===

struct ConformWalk {
    problems: Vec<Problem>,
    unknown: usize,
    mismatches: usize,
    zeros: Zeros,
}

/// Handling of zero values that Go would not print.
#[derive(Clone, Copy, PartialEq)]
enum Zeros {
    Drop,
    Keep,
}

/// Position in the document. Builds a path only for a reported problem.
pub(super) struct PathFrame<'a> {
    pub(super) above: Option<&'a PathFrame<'a>>,
    step: Option<FrameStep<'a>>,
    /// The type of the current value, if it is a struct.
    pub(super) of: Option<&'static Struct>,
}

#[derive(Clone, Copy)]
enum FrameStep<'a> {
    Key(&'a str),
    Index(usize),
}

impl ConformWalk {
    fn value(&mut self, value: &mut Value, ty: Type, at: &PathFrame<'_>) {
        match (ty, &mut *value) {
            (
                Type::Struct(of)
                | Type::SchemaOrBool(of)
                | Type::SchemaOrList(of)
                | Type::SchemaOrStrings(of),
                Value::Object(map),
            ) => self.fields(map, of, at),
            (Type::SchemaOrBool(_), Value::Bool(_)) => {}
            (Type::SchemaOrList(of), Value::Array(list)) => {
                self.elements(list, Type::Struct(of), at);
            }
            (Type::SchemaOrStrings(_), Value::Array(list)) => {
                self.elements(list, Type::String, at);
            }
            (Type::Map(of), Value::Object(map)) => {
                for (key, value) in map.iter_mut() {
                    let at = at.then(FrameStep::Key(key));
                    self.element(value, *of, &at);
                }
            }
            (Type::List(of), Value::Array(list)) => self.elements(list, *of, at),
            _ => match scalar::read(value, ty) {
                Scalar::Valid => {}
                Scalar::Normalized(printed) => *value = printed,
                Scalar::Mismatch(expected) => self.report_mismatch(|| Problem {
                    path: at.path(),
                    kind: ProblemKind::Mismatch {
                        expected,
                        found: scalar::name(value),
                        value: scalar::excerpt(value),
                    },
                }),
            },
        }
    }

    fn fields(&mut self, map: &mut Map<String, Value>, of: &'static Struct, at: &PathFrame<'_>) {
        let at = PathFrame {
            of: Some(of),
            ..*at
        };
        let mut removed: Vec<String> = Vec::new();
        for (key, value) in map.iter_mut() {
            let Some(field) = of.field(key) else {
                self.report_unknown(|| Problem {
                    path: at.then(FrameStep::Key(key)).path(),
                    kind: ProblemKind::Unknown {
                        hint: suggest::suggest(key, of, &at),
                    },
                });
                removed.push(key.clone());
                continue;
            };
            if !value.is_null() {
                let at = at.then(FrameStep::Key(key));
                self.value(value, field.ty, &at);
            }
            if value.is_null() || self.zeros == Zeros::Drop && is_omitted(value, field) {
                removed.push(key.clone());
            }
        }
        for key in removed {
            map.remove(&key);
        }
    }

    fn elements(&mut self, list: &mut [Value], of: Type, at: &PathFrame<'_>) {
        for (index, value) in list.iter_mut().enumerate() {
            let at = at.then(FrameStep::Index(index));
            self.element(value, of, &at);
        }
    }

    /// A `null` in a list or a mapping cannot be omitted: Go converts it to the zero value of the type.
    fn element(&mut self, value: &mut Value, of: Type, at: &PathFrame<'_>) {
        if value.is_null() {
            *value = scalar::zero(of);
        } else {
            self.value(value, of, at);
        }
    }

    fn report_unknown(&mut self, problem: impl FnOnce() -> Problem) {
        self.unknown += 1;
        if self.unknown <= MAX_PROBLEMS {
            self.problems.push(problem());
        }
    }

    /// Reports a type error. Type errors have a separate quota, so that no number of unknown fields can hide one. Beyond
    /// the quota, the document as a whole is reported.
    fn report_mismatch(&mut self, problem: impl FnOnce() -> Problem) {
        self.mismatches += 1;
        match self.mismatches.cmp(&(MAX_PROBLEMS + 1)) {
            Ordering::Less => self.problems.push(problem()),
            Ordering::Equal => self.problems.push(Problem {
                path: Path::root(),
                kind: ProblemKind::Mismatch {
                    expected: "an object with at most 1000 values of a wrong type",
                    found: "an object with more of them",
                    value: String::new(),
                },
            }),
            Ordering::Greater => {}
        }
    }
}

impl<'a> PathFrame<'a> {
    fn then(&'a self, step: FrameStep<'a>) -> Self {
        Self {
            above: Some(self),
            step: Some(step),
            of: None,
        }
    }

    pub(super) fn path(&self) -> Path {
        let mut steps = Vec::new();
        let mut frame = Some(self);
        while let Some(PathFrame { above, step, .. }) = frame {
            match step {
                Some(FrameStep::Key(key)) => steps.push(Step::Key(scalar::short(key))),
                Some(FrameStep::Index(index)) => steps.push(Step::Index(*index)),
                None => {}
            }
            frame = *above;
        }
        steps.reverse();
        Path::from(steps)
    }
}

/// Reports whether Go omits a zero value of the field.
fn is_omitted(value: &Value, field: &Field) -> bool {
    field.omits_zero
        && match (field.ty, value) {
            (Type::String | Type::Bytes, Value::String(text)) => text.is_empty(),
            (Type::Bool, Value::Bool(value)) => !value,
            (Type::Int32 | Type::Int64, Value::Number(number)) => number.as_i64() == Some(0),
            (Type::Float, Value::Number(number)) => number.as_f64() == Some(0.0),
            (Type::List(_), Value::Array(list)) => list.is_empty(),
            (Type::Map(_), Value::Object(map)) => map.is_empty(),
            _ => false,
        }
}

// === formatting ===

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_root() {
            write!(f, "{}: ", self.path)?;
        }
        self.kind.fmt(f)
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { hint: None } => f.write_str("unknown field"),
            Self::Unknown {
                hint: Some(Suggestion::Spelling(name)),
            } => write!(f, "unknown field; did you mean {name}?"),
            Self::Unknown {
                hint: Some(Suggestion::Parent(path)),
            } => write!(f, "unknown field; did you mean {path}?"),
            Self::Mismatch {
                expected,
                found,
                value,
            } => write!(f, "expected {expected}, found {found} ({value})"),
        }
    }
}
