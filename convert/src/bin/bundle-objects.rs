//! Prints the objects of a bundle directory: the smallest program that uses this library.
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
    let directory = env::args_os().nth(1);
    let directory = PathBuf::from(directory.ok_or("usage: bundle-objects DIRECTORY")?);
    let mut files = Builder::new(Limits::default());
    add(&mut files, &directory, Path::new(""))?;
    let conversion = plain(&files.finish(), &Options::default());
    let mut out = io::stdout().lock();
    for object in conversion.objects.iter().flatten() {
        let (kind, name, namespace) = (object.kind(), object.name(), object.namespace());
        let line = format!("{kind:<25} {name:<50} {namespace}");
        writeln!(out, "{}", line.trim_end())?;
    }
    for finding in &conversion.report.findings {
        writeln!(io::stderr(), "{finding}")?;
    }
    match conversion.objects {
        Some(_) => Ok(()),
        None => Err("the bundle was rejected".into()),
    }
}

/// Adds the files below a path of a bundle directory. Links and devices are not followed.
fn add(files: &mut Builder, directory: &Path, path: &Path) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory.join(path))? {
        let entry = entry?;
        let path = path.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add(files, directory, &path)?;
        } else if kind.is_file() {
            let name = path.to_str().ok_or("a path is not valid UTF-8")?;
            files.add(name, 0o644, &mut File::open(entry.path())?)?;
        }
    }
    Ok(())
}
