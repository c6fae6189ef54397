//! Manifests: the YAML codec, the object model, names, versions, and the validated set of files (`Content`) that all other
//! crates use. Performs no I/O except through the readers that it gets.

#[cfg(test)]
#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

#[cfg(feature = "api")]
pub mod api;
pub mod byte_size;
pub mod content;
pub mod duration;
pub mod error;
pub mod go_types;
pub mod image;
pub mod image_template;
pub mod names;
pub mod object;
pub mod openshift;
pub mod path;
#[cfg(feature = "validation")]
pub mod validation;
pub mod version;
pub mod version_range;
pub mod yaml;
