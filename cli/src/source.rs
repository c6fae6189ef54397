//! Where bundles come from, and what they are called.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, IsTerminal},
    path::{Component, Path, PathBuf},
};

use unpacker::{Content, Options, Unpacked, strip_top_folder};

use crate::args;

/// A bundle that was named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Tells it from the others.
    pub(crate) name: String,
    /// `None` is standard input.
    pub(crate) path: Option<PathBuf>,
}

/// Names the bundles; ends the process when that cannot be done, or when one of them would have to be typed.
pub(crate) fn all(paths: &[PathBuf]) -> Vec<Source> {
    let sources = name_all(paths).unwrap_or_else(|problem| args::usage(&problem));
    if sources.iter().any(|source| source.path.is_none()) && io::stdin().is_terminal() {
        args::usage("\"-\" reads a tar from standard input, which is a terminal; pipe one into it");
    }
    sources
}

/// Names every bundle after the end of its path, and takes as many folders before it as it needs to tell all of them
/// apart: `a/bundle b/bundle` become `a-bundle` and `b-bundle`.
fn name_all(paths: &[PathBuf]) -> Result<Vec<Source>, String> {
    let parts: Vec<Vec<String>> = paths.iter().map(|path| parts(path)).collect();
    let deepest = parts.iter().map(Vec::len).max().unwrap_or(0);
    for depth in 1..=deepest.max(1) {
        let names: Vec<String> = parts.iter().map(|parts| end(parts, depth)).collect();
        let distinct: BTreeSet<&String> = names.iter().collect();
        if distinct.len() == names.len() {
            let named = names.into_iter().zip(paths);
            return Ok(named
                .map(|(name, path)| Source {
                    name,
                    path: (path.as_os_str() != "-").then(|| path.clone()),
                })
                .collect());
        }
    }
    Err("two of the bundles cannot be told apart by their paths; name each of them once".to_owned())
}

fn end(parts: &[String], depth: usize) -> String {
    let from = parts.len().saturating_sub(depth);
    parts.get(from..).unwrap_or_default().join("-")
}

/// The names along a path, the last one without what marks an archive.
fn parts(path: &Path) -> Vec<String> {
    if path.as_os_str() == "-" {
        return vec!["stdin".to_owned()];
    }
    let names = |path: &Path| -> Vec<String> {
        let normal = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        });
        normal.collect()
    };
    let ends_in_dots = path.file_name().is_none();
    let mut parts = match fs::canonicalize(path) {
        Ok(whole) if ends_in_dots => names(&whole),
        _ => names(path),
    };
    if let Some(last) = parts.last_mut() {
        for ending in [".tar.gz", ".tgz", ".tar"] {
            if let Some(stem) = last.strip_suffix(ending).filter(|stem| !stem.is_empty()) {
                *last = stem.to_owned();
                break;
            }
        }
    }
    parts
}

impl Source {
    /// Whether files of the bundle can be found in the file system.
    pub(crate) fn is_folder(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.is_dir())
    }

    /// Reads it to its end. An archive may hold the bundle in a folder.
    pub(crate) fn read(&self, options: &Options) -> unpacker::Result<Content> {
        let Some(path) = &self.path else {
            let Unpacked { content, .. } =
                unpacker::stream(io::stdin().lock(), options).map_err(|source| {
                    unpacker::Error::Unpack {
                        path: "-".into(),
                        source: Box::new(source),
                    }
                })?;
            return Ok(strip_top_folder(content));
        };
        let Unpacked { content, .. } = unpacker::open(path, options)?;
        Ok(if path.is_dir() {
            content
        } else {
            strip_top_folder(content)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[&str]) -> Option<Vec<String>> {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        Some(
            name_all(&paths)
                .ok()?
                .into_iter()
                .map(|source| source.name)
                .collect(),
        )
    }

    #[test]
    fn bundles_are_named_by_as_much_of_their_path_as_it_takes() {
        for (paths, expected) in [
            (&["x/a", "y/b/"][..], Some(&["a", "b"][..])),
            (
                &["x/a.tar.gz", "b.tgz", "c.tar", "-"],
                Some(&["a", "b", "c", "stdin"]),
            ),
            (&["x/1.0.0", "y/1.0.0"], Some(&["x-1.0.0", "y-1.0.0"])),
            (&["x/a/b", "y/a/b", "c"], Some(&["x-a-b", "y-a-b", "c"])),
            (&[".tar"], Some(&[".tar"])),
            (&["a", "a"], None),
            (&["a", "./a"], None),
            (&["-", "-"], None),
        ] {
            let expected =
                expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(names(paths), expected, "{paths:?}");
        }
    }
}
