//! The real binary, as people and scripts use it.

mod bundle;
mod convert;
mod general;
mod inspect;
mod several;
mod validate;
