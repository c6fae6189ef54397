//! Images as real tools build and save them. Needs buildah and skopeo.

// clippy.toml allows the first ones in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::panic, clippy::wildcard_imports)]

#[macro_use(assert_rows, with)]
extern crate tests;

mod buildah;
mod choice;
mod contents;

use std::path::{Path, PathBuf};
use std::{fs, process::Command};

use tempfile::TempDir;
use tests::{Buildah, Cell, Values, chain, pairs, table, write};
use unpacker::{
    Digest, Options, Selection, Source, Tree, fetch::Fetched, local, open_tree, source::Local,
};

use buildah::Store;

/// What a tool wrote, and as what it is read.
fn forms(folder: &Path) -> Vec<Local> {
    vec![
        Local::OciLayout(folder.join("layout"), None),
        Local::OciArchive(folder.join("oci.tar"), None),
        Local::DockerArchive(folder.join("docker.tar"), None),
    ]
}

fn read(local: &Local, select: Selection) -> Fetched {
    let options = with!(Options, select);
    local::image(local, None, &options).unwrap_or_else(|error| panic!("{local}: {error:?}"))
}

/// The digest of the content, and its paths.
fn listed(tree: &Tree) -> (Digest, Vec<String>) {
    let paths = tree.files().map(|(path, _)| path.to_owned());
    (tree.write_tar(std::io::sink()).unwrap(), paths.collect())
}
