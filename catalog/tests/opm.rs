//! Byte-by-byte comparison of our output with that of the real `opm` on the same input.
//!
//! Each comparison runs opm; no results are recorded. docs/catalog-opm.md lists the intended differences, and the tests
//! repeat them. If both reject an input, they do so for the same reason.
//!
//! The tables in `opm/validation` name the rows of two acceptance lists, loading (E.1) and validation (E.2). In E.1,
//! row 1 is unreadable input, 2 directories, 3 `.indexignore`, 4 several documents, 5 keys, 6 manifests within bundles.
//!
//! No files lead opm to these messages about whole trees (E.2), because it fails before, or sets the fields itself:
//! `package key`, `channel key` and `channel … not correctly linked to parent package`, `package name must not be
//! empty`, `channel name must not be empty`, `package must be set`, `channel must be set`, `package does not match
//! channel's package`, `default channel … not found in channels list`, and errors of properties. Only entries without a
//! bundle lead to `must be exactly one property with type "olm.package"`, in
//! `trees::entry_without_bundle_is_reported_for_every_channel`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // helpers of tests fail by panicking
#![allow(clippy::too_many_lines)] // tables are long

#[macro_use(with)]
extern crate tests;

#[path = "../src/testing.rs"]
mod testing;

mod opm {
    mod bundles;
    mod catalogs;
    mod databases;
    pub(crate) mod error_text;
    mod templates;
    mod validation;
}

use std::path::{Path, PathBuf};

use catalog::{
    Limits, Source,
    render::{BundleImageRef, Error, Format, Level, Render, Rendered, Template},
};
use opm::error_text::Reason;
use tempfile::TempDir;

fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        tests::write(dir.path(), path, text);
    }
    dir
}

fn run(dir: &Path, args: &[&str]) -> Result<String, String> {
    let output = tests::opm(dir, args);
    let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let [out, problem] = texts;
    output.status.success().then_some(out).ok_or(problem)
}

fn print(rendered: &Rendered, format: Format) -> String {
    let mut out = Vec::new();
    rendered.write(format, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Renders directories, each of which is a catalog or a bundle.
fn rukpak_output(
    dirs: &[PathBuf],
    level: Level,
    template: Option<&str>,
) -> Result<Rendered, Error> {
    let template: Option<Template> = template.map(|text| text.parse().unwrap());
    let mut render = Render::new(level);
    for dir in dirs {
        if dir.join("manifests").is_dir() && dir.join("metadata").is_dir() {
            let content = unpacker::open(dir, &unpacker::Options::default()).unwrap();
            let image = template.as_ref().map(BundleImageRef::Template);
            render.bundle(&content.content, image.unwrap_or(BundleImageRef::Unknown))?;
        } else {
            render.catalog(Source::Directory(dir), &Limits::default())?;
        }
    }
    Ok(render.finish())
}

/// Asserts that opm and this crate render the same bytes in both formats at all levels, or that both reject the input.
/// Returns whether it could be rendered without migrations.
fn assert_same(dirs: &[&str], root: &Path, template: Option<&str>) -> bool {
    let mut rendered = false;
    for level in Level::NAMES {
        for format in [Format::Json, Format::Yaml] {
            rendered |= assert_same_in(dirs, root, template, level, format) && level == "none";
        }
    }
    rendered
}

fn assert_same_in(
    dirs: &[&str],
    root: &Path,
    template: Option<&str>,
    level: &str,
    format: Format,
) -> bool {
    let paths: Vec<PathBuf> = dirs.iter().map(|dir| root.join(dir)).collect();
    let rendered = rukpak_output(&paths, level.parse().unwrap(), template);
    let name = format.extension();
    let mut args = vec!["render", "--migrate-level", level, "-o", name];
    if let Some(template) = template {
        args.extend(["--alpha-image-ref-template", template]);
    }
    args.extend(dirs);
    match (&rendered, &run(root, &args)) {
        (Ok(rendered), Ok(theirs)) => same(&print(rendered, format), theirs),
        (Err(rukpak), Err(theirs)) => {
            let rukpak = rukpak.to_string();
            assert!(
                Reason::from_message(&rukpak).is(&Reason::from_message(theirs)),
                "{dirs:?} {level} {name}: two reasons\nours: {rukpak}\nopm:  {theirs}"
            );
        }
        (Err(rukpak), Ok(_)) => panic!("{dirs:?} {level} {name}: opm accepts it: {rukpak}"),
        (Ok(_), Err(theirs)) => panic!("{dirs:?} {level} {name}: opm rejects it: {theirs}"),
    }
    rendered.is_ok()
}

/// Compares texts line by line, so that a failure does not show megabytes.
#[track_caller]
fn same(rukpak: &str, theirs: &str) {
    for (number, (rukpak, theirs)) in (1..).zip(rukpak.lines().zip(theirs.lines())) {
        let is_same = rukpak == theirs;
        assert!(is_same, "line {number}: {rukpak:.300}\nopm: {theirs:.300}");
    }
    let lengths = (rukpak.len(), theirs.len());
    assert!(rukpak == theirs, "{lengths:?} bytes");
}
