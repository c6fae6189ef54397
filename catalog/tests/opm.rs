//! Our output beside that of the real `opm`, byte by byte, on the same input.
//!
//! Nothing is compared with files that were recorded once: opm runs each time. Where the two differ on purpose,
//! docs/catalogs.md says so, and the tests here say it again. Where both refuse something, it is for the same reason.
//!
//! The tables in `opm/validation` name the rows of two acceptance lists, loading (E.1) and validation (E.2). Of E.1 row 1 is
//! what cannot be read, 2 folders, 3 `.indexignore`, 4 several documents, 5 keys, 6 manifests within bundles.
//!
//! Of the messages about whole trees (E.2), no files lead opm to these, for it stops before, or fills the fields itself:
//! `package key`, `channel key` and `channel … not correctly linked to parent package`, `package name must not be empty`,
//! `channel name must not be empty`, `package must be set`, `channel must be set`, `package does not match channel's
//! package`, `default channel … not found in channels list`, and errors of properties. `must be exactly one property with
//! type "olm.package"` is said of entries without a bundle alone, in
//! `trees::an_entry_without_a_bundle_is_told_of_every_channel`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::too_many_lines,
    reason = "helpers of tests fail by panicking; tables are long"
)]

#[macro_use(with)]
extern crate tests;

#[path = "../src/testing.rs"]
mod testing;

mod opm {
    mod bundles;
    mod catalogs;
    mod databases;
    pub(crate) mod reason;
    mod templates;
    mod validation;
}

use std::path::{Path, PathBuf};

use catalog::{
    Limits, Source,
    render::{Error, Format, Image, Level, Render, Rendered, Template},
};
use opm::reason::Reason;
use tempfile::TempDir;

/// A folder with files, gone when dropped.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            tests::write(folder.path(), path, text);
        }
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// What opm prints, or what it says instead.
fn run(folder: &Path, args: &[&str]) -> Result<String, String> {
    let output = tests::opm(folder, args);
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let [out, problem] = texts;
    output.status.success().then_some(out).ok_or(problem)
}

fn print(rendered: &Rendered, format: Format) -> String {
    let mut out = Vec::new();
    rendered.write(format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// What we make of folders, each of which is a catalog or a bundle.
fn ours(folders: &[PathBuf], level: Level, template: Option<&str>) -> Result<Rendered, Error> {
    let template: Option<Template> = template.map(|it| it.parse().unwrap());
    let mut render = Render::new(level);
    for folder in folders {
        if folder.join("manifests").is_dir() && folder.join("metadata").is_dir() {
            let content = unpacker::open(folder, &unpacker::Options::default()).unwrap();
            let image = template.as_ref().map_or(Image::Unknown, Image::Template);
            render.bundle(&content.content, image)?;
        } else {
            render.catalog(Source::Folder(folder), &Limits::default())?;
        }
    }
    Ok(render.finish())
}

/// Both formats and all levels are the same bytes; or both refuse it. Tells whether it could be rendered without
/// migrations.
fn assert_same(folders: &[&str], root: &Path, template: Option<&str>) -> bool {
    let mut rendered = false;
    for level in Level::NAMES {
        for format in [Format::Json, Format::Yaml] {
            rendered |= assert_same_in(folders, root, template, level, format) && level == "none";
        }
    }
    rendered
}

fn assert_same_in(
    folders: &[&str],
    root: &Path,
    template: Option<&str>,
    level: &str,
    format: Format,
) -> bool {
    let paths: Vec<PathBuf> = folders.iter().map(|it| root.join(it)).collect();
    let rendered = ours(&paths, level.parse().unwrap(), template);
    let name = format.extension();
    let mut args = vec!["render", "--migrate-level", level, "-o", name];
    if let Some(template) = template {
        args.extend(["--alpha-image-ref-template", template]);
    }
    args.extend(folders);
    match (&rendered, &run(root, &args)) {
        (Ok(rendered), Ok(theirs)) => same(&print(rendered, format), theirs),
        (Err(ours), Err(theirs)) => {
            let ours = ours.to_string();
            assert!(
                Reason::of(&ours).is(&Reason::of(theirs)),
                "{folders:?} {level} {name}: two reasons\nours: {ours}\nopm:  {theirs}"
            );
        }
        (Err(ours), Ok(_)) => panic!("{folders:?} {level} {name}: only we refuse it: {ours}"),
        (Ok(_), Err(theirs)) => {
            panic!("{folders:?} {level} {name}: only opm refuses it: {theirs}")
        }
    }
    rendered.is_ok()
}

/// Shows the first lines that differ, not megabytes.
#[track_caller]
fn same(ours: &str, theirs: &str) {
    if ours == theirs {
        return;
    }
    let mut both = ours.lines().zip(theirs.lines());
    let lines = ours.lines().count().min(theirs.lines().count());
    let at = both
        .position(|(ours, theirs)| ours != theirs)
        .unwrap_or(lines);
    let around = |text: &str| {
        let lines = text.lines().skip(at.saturating_sub(5)).take(9);
        testing::list(lines, |line| format!("{line:.300}\n"))
    };
    let (ours, theirs) = (around(ours), around(theirs));
    panic!("line {} differs\n--- ours\n{ours}--- opm\n{theirs}", at + 1);
}
