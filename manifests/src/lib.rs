//! Everything that is written down: the YAML codec, the object model, names, versions, and the checked set of
//! files (`Content`) that every other crate passes on. Bytes in, values out; no I/O beyond the readers it is given.

#[cfg(test)]
#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

#[cfg(feature = "api")]
pub mod api;
pub mod content;
pub mod error;
pub mod image;
pub mod names;
pub mod object;
pub mod openshift;
pub mod path;
pub mod range;
pub mod schema;
pub mod size;
pub mod template;
#[cfg(feature = "validation")]
pub mod validation;
pub mod version;
pub mod yaml;
