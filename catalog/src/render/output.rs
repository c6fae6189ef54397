//! Blobs in their order, to a stream or to the files of a folder.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use manifests::yaml;
use serde_json::Value;

use super::{
    blob::{Blob, Class},
    json,
    writing::write,
};

/// How blobs are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Objects one after the other, indented by four spaces.
    #[default]
    Json,
    /// Documents with sorted keys, each behind a `---`.
    Yaml,
}

/// Blobs, ready to be printed.
#[derive(Debug)]
pub struct Rendered {
    pub(crate) blobs: Vec<Blob>,
}

/// A blob that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a blob of package {package:?} ({key:?}) {problem}; leave it out")]
pub struct Unwritable {
    package: String,
    key: String,
    problem: String,
}

/// What blobs are for one file of a folder.
#[derive(Debug, Clone)]
pub struct File<'a> {
    /// Where it belongs, relative to the folder: `etcd/catalog.json`.
    pub path: String,
    blobs: &'a [Blob],
    format: Format,
}

/// Why blobs cannot be written to a folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is something in it already.
    #[error("output dir {path:?} must be empty; name another one or empty it")]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The folder cannot be read.
    #[error("failed to list the folder {path:?}; is it one, and may you read it?")]
    Read {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A package is called what no folder can be called.
    #[error(
        "invalid package name {name:?}: must be a single local path element of at most 255 bytes; correct it in the catalog"
    )]
    Package {
        /// The name.
        name: String,
    },
    /// A package is called like the file for what belongs to none.
    #[error(
        "package {name:?} would be a folder, and what belongs to no package is written to a file of that name; give one of \
         these blobs another package in the catalog"
    )]
    Twice {
        /// The name.
        name: String,
    },
    /// A blob cannot be written.
    #[error(transparent)]
    Blob(#[from] Unwritable),
}

// === impl Format ===

impl Format {
    /// What names of files end in.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
        }
    }

    /// Says whether a blob can be written.
    fn check(self, blob: &Blob) -> Result<(), Unwritable> {
        let most = match self {
            Self::Json => json::DEPTH,
            Self::Yaml => YAML_DEPTH,
        };
        if blob.depth > most {
            let format = match self {
                Self::Json => "JSON",
                Self::Yaml => "YAML",
            };
            return Err(blob.cannot(&format!(
                "is nested deeper than the {most} levels that are written as {format}"
            )));
        }
        Ok(())
    }

    pub(super) fn write(self, blob: &Blob, out: &mut Vec<u8>) -> io::Result<()> {
        let unwritable =
            |problem: &str| io::Error::new(io::ErrorKind::InvalidData, blob.cannot(problem));
        match self {
            Self::Json => {
                if !json::indent(&blob.json, out) {
                    return Err(unwritable("is nested too deep"));
                }
            }
            Self::Yaml => {
                let value: Value = serde_json::from_slice(&blob.json)
                    .map_err(|error| unwritable(&format!("cannot be written as YAML: {error}")))?;
                let mut text = String::from("---\n");
                yaml::write_as_go(&mut text, &value);
                out.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }
}

// === impl Blob ===

impl Blob {
    /// An error that names the blob.
    fn cannot(&self, problem: &str) -> Unwritable {
        let short = |text: &str| text.chars().take(100).collect::<String>();
        Unwritable {
            package: short(&self.package),
            key: short(&self.key),
            problem: problem.to_owned(),
        }
    }
}

// === impl File ===

impl File<'_> {
    /// Writes what is in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write(self.blobs, self.format, out)
    }
}

// === impl Rendered ===

impl Rendered {
    /// Packages by name, what belongs to none behind them; within a package by class, and then by name or schema. What is
    /// equal by then stays in the order it came in.
    pub(crate) fn of(mut blobs: Vec<Blob>) -> Self {
        blobs.sort_by(|a, b| {
            let rank = |it: &Blob| (it.package.is_empty(), it.class);
            let (x, y) = (rank(a), rank(b));
            x.0.cmp(&y.0)
                .then_with(|| a.package.cmp(&b.package))
                .then_with(|| x.1.cmp(&y.1))
                .then_with(|| match a.class {
                    // There is one, or they are told apart by nothing.
                    Class::Package | Class::Deprecations => std::cmp::Ordering::Equal,
                    // Without a package, in the order they came in.
                    Class::Other if a.package.is_empty() => std::cmp::Ordering::Equal,
                    _ => a.key.cmp(&b.key),
                })
        });
        Self { blobs }
    }

    pub(crate) fn blobs(&self) -> &[Blob] {
        &self.blobs
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// Writes all blobs.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        write(&self.blobs, format, out)
    }

    /// Says whether all blobs can be written, for nothing can be taken back that was printed.
    ///
    /// # Errors
    /// The first one that cannot.
    pub fn check(&self, format: Format) -> Result<(), Unwritable> {
        self.blobs.iter().try_for_each(|blob| format.check(blob))
    }

    /// A file for each package, `<package>/catalog.<format>`, and one for what belongs to none, all of which can be
    /// written.
    ///
    /// # Errors
    /// When a package cannot be the name of a folder beside the others, or a blob cannot be written.
    pub fn files(&self, format: Format) -> Result<Vec<File<'_>>, FolderError> {
        self.check(format)?;
        let name = format!("catalog.{}", format.extension());
        let has_others = self.blobs.iter().any(|it| it.package.is_empty());
        let mut files = Vec::new();
        for blobs in self.blobs.chunk_by(|a, b| a.package == b.package) {
            let package = blobs.first().map_or("", |it| &it.package);
            let path = match package {
                "" => name.clone(),
                _ if !is_name(package) => {
                    let name = package.chars().take(200).collect();
                    return Err(FolderError::Package { name });
                }
                _ if has_others && package == name => return Err(FolderError::Twice { name }),
                _ => format!("{package}/{name}"),
            };
            files.push(File {
                path,
                blobs,
                format,
            });
        }
        Ok(files)
    }
}

/// Says whether blobs could be written to a folder: it is empty, or not there.
///
/// # Errors
/// When it is not empty, or cannot be read.
pub fn check_empty(folder: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Read {
        path: folder.to_owned(),
        source,
    };
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(FolderError::NotEmpty {
                path: folder.to_owned(),
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// The longest name of a folder, in bytes.
const LONGEST: usize = 255;

/// Whether a text can only be the name of something right within a folder.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\\', '\0']) && text.len() <= LONGEST
}

/// How deep what is written as YAML may be nested: what reads values stops there.
const YAML_DEPTH: usize = 127;
