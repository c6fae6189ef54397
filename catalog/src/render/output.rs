//! Output of sorted blobs to a stream or to the files of a directory.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use manifests::yaml;
use serde_json::Value;

use super::{
    blob::{Blob, BlobKind},
    json,
    parallel::write,
};

/// Output format of blobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// Consecutive JSON objects, indented by four spaces.
    #[default]
    Json,
    /// YAML documents with sorted keys, each after a `---`.
    Yaml,
}

/// Sorted blobs that are ready to be printed.
#[derive(Debug)]
pub struct Rendered {
    pub(crate) blobs: Vec<Blob>,
}

/// The error for a blob that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a blob of package {package:?} ({key:?}) {problem}; remove it")]
pub struct WriteError {
    package: String,
    key: String,
    problem: String,
}

/// Blobs of one file in the output directory.
#[derive(Debug, Clone)]
pub struct OutputFile<'a> {
    /// Path relative to the output directory: `etcd/catalog.json`.
    pub path: String,
    blobs: &'a [Blob],
    format: Format,
}

/// Reasons why blobs cannot be written to a directory.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The directory is not empty.
    #[error("output dir {path:?} must be empty; use another directory, or empty it")]
    NotEmpty {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The directory cannot be read.
    #[error("failed to list the directory {path:?}; check that it is a readable directory")]
    Read {
        /// Path of the directory.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// The name of a package is not a valid directory name.
    #[error(
        "invalid package name {name:?}: must be a single local path element of at most 255 bytes; correct it in the catalog"
    )]
    Package {
        /// Name of the package.
        name: String,
    },
    /// The name of a package equals that of the file for blobs without a package.
    #[error(
        "package {name:?} would be a directory, but blobs without a package are written to a file of that name; rename the \
         package in the catalog"
    )]
    NameCollision {
        /// Name of the package.
        name: String,
    },
    /// A blob cannot be written.
    #[error(transparent)]
    Blob(#[from] WriteError),
}

// === impl Format ===

impl Format {
    /// Returns the file extension of the format.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
        }
    }

    /// Checks that a blob can be written.
    fn check(self, blob: &Blob) -> Result<(), WriteError> {
        let max_depth = match self {
            Self::Json => json::MAX_DEPTH,
            Self::Yaml => MAX_YAML_DEPTH,
        };
        if blob.depth > max_depth {
            let format = match self {
                Self::Json => "JSON",
                Self::Yaml => "YAML",
            };
            return Err(blob.write_error(&format!(
                "is nested deeper than the limit of {max_depth} levels for {format}"
            )));
        }
        Ok(())
    }

    pub(super) fn write(self, blob: &Blob, out: &mut Vec<u8>) -> io::Result<()> {
        let unwritable =
            |problem: &str| io::Error::new(io::ErrorKind::InvalidData, blob.write_error(problem));
        match self {
            Self::Json => {
                if !json::indent(&blob.json, out) {
                    return Err(unwritable("is nested too deeply"));
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
    /// Returns an error that identifies the blob.
    fn write_error(&self, problem: &str) -> WriteError {
        let short = |text: &str| text.chars().take(100).collect::<String>();
        WriteError {
            package: short(&self.package),
            key: short(&self.key),
            problem: problem.to_owned(),
        }
    }
}

// === impl OutputFile ===

impl OutputFile<'_> {
    /// Writes the blobs of the file.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write(self.blobs, self.format, out)
    }
}

// === impl Rendered ===

impl Rendered {
    /// Sorts blobs by package, with those of no package last, then by kind, and then by name or schema. The sort is
    /// stable.
    pub(crate) fn from_blobs(mut blobs: Vec<Blob>) -> Self {
        blobs.sort_by(|a, b| {
            let rank = |blob: &Blob| (blob.package.is_empty(), blob.class);
            let (x, y) = (rank(a), rank(b));
            x.0.cmp(&y.0)
                .then_with(|| a.package.cmp(&b.package))
                .then_with(|| x.1.cmp(&y.1))
                .then_with(|| match a.class {
                    // At most one blob exists per package, or duplicates have no sort key.
                    BlobKind::Package | BlobKind::Deprecations => std::cmp::Ordering::Equal,
                    // Blobs without a package keep their order.
                    BlobKind::Other if a.package.is_empty() => std::cmp::Ordering::Equal,
                    _ => a.key.cmp(&b.key),
                })
        });
        Self { blobs }
    }

    pub(crate) fn blobs(&self) -> &[Blob] {
        &self.blobs
    }

    /// Reports whether the list of blobs is empty.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// Writes all blobs.
    ///
    /// # Errors
    /// Returns an error if they cannot be written.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        write(&self.blobs, format, out)
    }

    /// Checks that all blobs can be written, because printed output cannot be undone.
    ///
    /// # Errors
    /// Returns an error for the first blob that cannot be written.
    pub fn check(&self, format: Format) -> Result<(), WriteError> {
        self.blobs.iter().try_for_each(|blob| format.check(blob))
    }

    /// Returns a file `<package>/catalog.<format>` for each package and one for blobs of no package. All files can be
    /// written.
    ///
    /// # Errors
    /// Returns an error if a package name is not a valid, unique directory name, or if a blob cannot be written.
    pub fn files(&self, format: Format) -> Result<Vec<OutputFile<'_>>, FolderError> {
        self.check(format)?;
        let name = format!("catalog.{}", format.extension());
        let has_others = self.blobs.iter().any(|blob| blob.package.is_empty());
        let mut files = Vec::new();
        for blobs in self.blobs.chunk_by(|a, b| a.package == b.package) {
            let package = blobs.first().map_or("", |blob| &blob.package);
            let path = match package {
                "" => name.clone(),
                _ if !is_name(package) => {
                    let name = package.chars().take(200).collect();
                    return Err(FolderError::Package { name });
                }
                _ if has_others && package == name => {
                    return Err(FolderError::NameCollision { name });
                }
                _ => format!("{package}/{name}"),
            };
            files.push(OutputFile {
                path,
                blobs,
                format,
            });
        }
        Ok(files)
    }
}

/// Checks that blobs can be written to a directory: it is empty or does not exist.
///
/// # Errors
/// Returns an error if the directory is not empty or cannot be read.
pub fn ensure_empty(directory: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Read {
        path: directory.to_owned(),
        source,
    };
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(FolderError::NotEmpty {
                path: directory.to_owned(),
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Maximum length of a directory name in bytes.
const MAX_NAME_LEN: usize = 255;

/// Reports whether a text is a single path element.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
        && !text.contains(['/', '\\', '\0'])
        && text.len() <= MAX_NAME_LEN
}

/// Maximum depth of YAML output; it is the limit of the JSON parser.
const MAX_YAML_DEPTH: usize = 127;
