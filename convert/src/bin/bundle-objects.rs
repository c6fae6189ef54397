//! Prints the objects of a bundle folder: the smallest program that uses this library.
//!
//! `make demo` starts with this program, because it builds within a minute. `rukpak convert` prints the manifests, and
//! reads bundles from every source.

use std::{
    env,
    error::Error,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use convert::{Options, plain};
use manifests::content::{Builder, Limits};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args_os().nth(1);
    let folder = PathBuf::from(folder.ok_or("usage: bundle-objects FOLDER")?);
    let mut files = Builder::new(Limits::default());
    add(&mut files, &folder, Path::new(""))?;
    let conversion = plain(&files.finish(), &Options::default());
    let mut out = io::stdout().lock();
    for object in conversion.objects.iter().flatten() {
        let (kind, name, namespace) = (object.kind(), object.name(), object.namespace());
        writeln!(out, "{}", format!("{kind:<25} {name:<50} {namespace}").trim_end())?;
    }
    for finding in &conversion.report.findings {
        writeln!(io::stderr(), "{finding}")?;
    }
    match conversion.objects {
        Some(_) => Ok(()),
        None => Err("the bundle is refused".into()),
    }
}

/// Adds the files below a path of a bundle folder. Links and devices are not followed.
fn add(files: &mut Builder, folder: &Path, path: &Path) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder.join(path))? {
        let entry = entry?;
        let path = path.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add(files, folder, &path)?;
        } else if kind.is_file() {
            let name = path.to_str().ok_or("a path is not UTF-8")?;
            files.add(name, 0o644, &mut File::open(entry.path())?)?;
        }
    }
    Ok(())
}
