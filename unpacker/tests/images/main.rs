//! Images built and saved by buildah, which must be installed.

// clippy.toml allows the first lints in test functions, but not in shared helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::wildcard_imports)]

#[macro_use(assert_rows, with)]
extern crate tests;

mod buildah;
mod contents;
mod platforms;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;
use tests::{Buildah, Cell, Values, chain, pairs, table, write};
use unpacker::{
    Digest, Fetched, Options, Selection, Source, Tree, local, open_tree, source::Local,
};

use buildah::Store;

fn read(local: &Local, select: Selection) -> Fetched {
    let options = with!(Options, select);
    local::image(local, None, &options).unwrap_or_else(|error| panic!("{local}: {error:?}"))
}

fn listed(tree: &Tree) -> (Digest, Vec<String>) {
    let paths = tree.files().map(|(path, _)| path.to_owned());
    (tree.write_tar(std::io::sink()).unwrap(), paths.collect())
}
