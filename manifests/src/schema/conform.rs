//! The typed round trip, in place.

use std::{cmp::Ordering, fmt};

use serde_json::{Map, Value};

use super::{
    Field, Struct, Type, hint,
    scalar::{self, Scalar},
};
use crate::path::{Path, Step};

/// How many unknown fields, and how many wrong types, are told at most; a document with more is not the kind it says it
/// is.
pub const MAX_PROBLEMS: usize = 1000;

/// A place where a document is not what Go's types say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub path: Path,
    /// What is wrong there.
    pub what: What,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Go does not have the field, and drops it without a word.
    Unknown {
        /// What was probably meant.
        hint: Option<Hint>,
    },
    /// Go fails on the value.
    Mismatch {
        /// What Go needs, with its article: `a string`.
        expected: &'static str,
        /// What there is instead: `a boolean`.
        found: &'static str,
        /// The value itself, cut to a readable length.
        value: String,
    },
}

/// Where an unknown field was probably meant to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// In the same place, under this name.
    Spelling(&'static str),
    /// Further out: the whole path of a field of this name.
    Outer(Path),
}

/// Makes a value what it would be after a round trip through its Go type, and returns where that was not possible
/// or took something away.
///
/// Fields that the type does not have are removed and told. Fields that say what their absence says (`null`, and
/// zero values where Go leaves those out) are removed silently. Numbers become what Go prints: `1.0` the integer
/// 1, the quantity `0.5` the string `500m`. Values of a wrong type are told and left as they are. Fields that Go
/// adds (`status: {}`) are not added.
///
/// At most [`MAX_PROBLEMS`] of each sort are told, but all are acted upon.
pub fn conform(value: &mut Value, ty: impl Into<Type>) -> Vec<Problem> {
    walk(value, ty.into(), Zeros::Drop)
}

/// Like [`conform`], but zero values stay where they were written: the manifest of somebody else loses only what no
/// API server would take.
pub fn prune(value: &mut Value, ty: impl Into<Type>) -> Vec<Problem> {
    walk(value, ty.into(), Zeros::Keep)
}

fn walk(value: &mut Value, ty: Type, zeros: Zeros) -> Vec<Problem> {
    let mut walk = Walk {
        problems: Vec::new(),
        unknown: 0,
        mismatches: 0,
        zeros,
    };
    let root = Frame {
        above: None,
        step: None,
        of: None,
    };
    if !value.is_null() {
        walk.value(value, ty, &root);
    }
    walk.problems
}

/// The problems that [`conform`] would tell; the value stays as it is.
pub fn check(value: &Value, ty: impl Into<Type>) -> Vec<Problem> {
    conform(&mut value.clone(), ty)
}

// === the walk ===

struct Walk {
    problems: Vec<Problem>,
    unknown: usize,
    mismatches: usize,
    zeros: Zeros,
}

/// What happens to values that Go would not print.
#[derive(Clone, Copy, PartialEq)]
enum Zeros {
    Drop,
    Keep,
}

/// Where the walk is. A path is made of these only when there is a problem to tell.
pub(super) struct Frame<'a> {
    pub(super) above: Option<&'a Frame<'a>>,
    step: Option<Here<'a>>,
    /// The type of the value here, if it is a struct.
    pub(super) of: Option<&'static Struct>,
}

#[derive(Clone, Copy)]
enum Here<'a> {
    Key(&'a str),
    Index(usize),
}

impl Walk {
    fn value(&mut self, value: &mut Value, ty: Type, at: &Frame<'_>) {
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
                    let at = at.then(Here::Key(key));
                    self.element(value, *of, &at);
                }
            }
            (Type::List(of), Value::Array(list)) => self.elements(list, *of, at),
            _ => match scalar::read(value, ty) {
                Scalar::Fits => {}
                Scalar::Prints(printed) => *value = printed,
                Scalar::Mismatch(expected) => self.tell_mismatch(|| Problem {
                    path: at.path(),
                    what: What::Mismatch {
                        expected,
                        found: scalar::name(value),
                        value: scalar::excerpt(value),
                    },
                }),
            },
        }
    }

    fn fields(&mut self, map: &mut Map<String, Value>, of: &'static Struct, at: &Frame<'_>) {
        let at = Frame {
            of: Some(of),
            ..*at
        };
        let mut gone: Vec<String> = Vec::new();
        for (key, value) in map.iter_mut() {
            let Some(field) = of.field(key) else {
                self.tell_unknown(|| Problem {
                    path: at.then(Here::Key(key)).path(),
                    what: What::Unknown {
                        hint: hint::of(key, of, &at),
                    },
                });
                gone.push(key.clone());
                continue;
            };
            if !value.is_null() {
                let at = at.then(Here::Key(key));
                self.value(value, field.ty, &at);
            }
            if value.is_null() || self.zeros == Zeros::Drop && is_omitted(value, field) {
                gone.push(key.clone());
            }
        }
        for key in gone {
            map.remove(&key);
        }
    }

    fn elements(&mut self, list: &mut [Value], of: Type, at: &Frame<'_>) {
        for (index, value) in list.iter_mut().enumerate() {
            let at = at.then(Here::Index(index));
            self.element(value, of, &at);
        }
    }

    /// A `null` in a list or a free mapping cannot be left out: Go makes it the type's zero value.
    fn element(&mut self, value: &mut Value, of: Type, at: &Frame<'_>) {
        if value.is_null() {
            *value = scalar::zero(of);
        } else {
            self.value(value, of, at);
        }
    }

    fn tell_unknown(&mut self, problem: impl FnOnce() -> Problem) {
        self.unknown += 1;
        if self.unknown <= MAX_PROBLEMS {
            self.problems.push(problem());
        }
    }

    /// Wrong types have a quota of their own, so that no number of unknown fields can hide one. Beyond it the document
    /// as a whole is wrong.
    fn tell_mismatch(&mut self, problem: impl FnOnce() -> Problem) {
        self.mismatches += 1;
        match self.mismatches.cmp(&(MAX_PROBLEMS + 1)) {
            Ordering::Less => self.problems.push(problem()),
            Ordering::Equal => self.problems.push(Problem {
                path: Path::root(),
                what: What::Mismatch {
                    expected: "an object with at most 1000 values of a wrong type",
                    found: "more of them",
                    value: String::new(),
                },
            }),
            Ordering::Greater => {}
        }
    }
}

impl<'a> Frame<'a> {
    fn then(&'a self, step: Here<'a>) -> Self {
        Self {
            above: Some(self),
            step: Some(step),
            of: None,
        }
    }

    pub(super) fn path(&self) -> Path {
        let mut steps = Vec::new();
        let mut frame = Some(self);
        while let Some(Frame { above, step, .. }) = frame {
            match step {
                Some(Here::Key(key)) => steps.push(Step::Key(scalar::short(key))),
                Some(Here::Index(index)) => steps.push(Step::Index(*index)),
                None => {}
            }
            frame = *above;
        }
        steps.reverse();
        Path::from(steps)
    }
}

/// Whether Go prints nothing for a zero value of the field.
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

// === words ===

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_root() {
            write!(f, "{}: ", self.path)?;
        }
        self.what.fmt(f)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { hint: None } => f.write_str("unknown field"),
            Self::Unknown {
                hint: Some(Hint::Spelling(name)),
            } => write!(f, "unknown field; did you mean {name}?"),
            Self::Unknown {
                hint: Some(Hint::Outer(path)),
            } => write!(f, "unknown field; did you mean {path}?"),
            Self::Mismatch {
                expected,
                found,
                value,
            } => write!(f, "expected {expected}, found {found} ({value})"),
        }
    }
}
