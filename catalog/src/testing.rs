//! Shared by the unit tests and the test programs of this crate.

#![allow(
    dead_code,
    unused_imports,
    reason = "a test program uses only a part of the helpers"
)]

use std::fmt::Display;

use manifests::content::{self, Builder, Content};

pub(crate) use ::tests::assert_has as has;

/// Asserts that a text starts with another one.
#[track_caller]
pub(crate) fn starts(text: impl Display, start: &str) {
    let text = text.to_string();
    assert!(text.starts_with(start), "{text:.2000}\nwithout {start}");
}

/// Files by path.
pub(crate) fn content<T: AsRef<[u8]>>(files: &[(&str, T)]) -> Content {
    let limits = content::Limits {
        total: 1 << 30,
        file: 1 << 30,
        ..content::Limits::default()
    };
    let mut builder = Builder::new(limits);
    for (path, bytes) in files {
        builder.add(path, 0o644, &mut bytes.as_ref()).unwrap();
    }
    builder.finish()
}

/// The texts of all items, one after the other.
pub(crate) fn list<I: IntoIterator, T: Display>(
    items: I,
    mut text: impl FnMut(I::Item) -> T,
) -> String {
    let texts = items.into_iter().map(|item| text(item).to_string());
    texts.collect()
}
