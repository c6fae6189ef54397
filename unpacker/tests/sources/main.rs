//! Folders and archives as strangers make them.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod archives;
mod bombs;
mod folders;
mod fuzz;
mod irregular;
mod layers;
mod layouts;
mod packing;
mod raw;

use tests::chain;
use unpacker::{Content, Error, Unpacked};

/// Paths and text, for comparing.
fn listed(content: &Content) -> Vec<(&str, &str)> {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    content
        .files()
        .map(|(path, file)| (path, text(&file.bytes)))
        .collect()
}

/// One line that describes the outcome: the paths and the number of irregular entries, or the message.
fn outcome(result: Result<Unpacked, Error>) -> String {
    match result {
        Ok(Unpacked { content, .. }) => {
            let paths: Vec<_> = content.files().map(|(path, _)| path).collect();
            let irregular = content.irregular().count();
            format!("{} +{irregular} links", paths.join(" "))
        }
        Err(error) => chain(&error),
    }
}
