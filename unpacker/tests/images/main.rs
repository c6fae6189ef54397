//! Images as real tools build and save them. Needs buildah and skopeo.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::panic)]

mod buildah;
mod choice;
mod contents;

use std::path::Path;

use tests::chain;
use unpacker::{Digest, Options, Result, Selection, Tree, fetch::Fetched, local, source::Local};

/// What a tool wrote, and as what it is read.
fn forms(folder: &Path) -> Vec<Local> {
    vec![
        Local::OciLayout(folder.join("layout"), None),
        Local::OciArchive(folder.join("oci.tar"), None),
        Local::DockerArchive(folder.join("docker.tar"), None),
    ]
}

fn read(local: &Local, select: Selection) -> Result<Fetched> {
    let options = Options {
        select,
        ..Options::default()
    };
    local::image(local, None, &options)
}

/// The digest of the content, and its paths.
fn listed(tree: &Tree) -> (Digest, Vec<String>) {
    let paths = tree.files().map(|(path, _)| path.to_owned());
    (tree.write_tar(std::io::sink()).unwrap(), paths.collect())
}
