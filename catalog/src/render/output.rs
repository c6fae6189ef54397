//! Blobs in their order, to a stream or to the files of a folder.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use manifests::yaml;
use serde_json::Value;

use super::{
    blob::{Blob, Class},
    json,
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
    blobs: Vec<Blob>,
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
    /// A package is called what no folder can be called.
    #[error(
        "invalid package name {name:?}: must be a single local path element; correct it in the catalog"
    )]
    Package {
        /// The name.
        name: String,
    },
    /// The system says no.
    #[error("failed to write {path:?}; is there space, and may you write there?")]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
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

    fn write(self, blob: &Blob, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Json => {
                if !json::indent(&blob.json, out) {
                    return Err(
                        blob.cannot(&format!("is nested deeper than {} levels", json::DEPTH))
                    );
                }
            }
            Self::Yaml => {
                let value: Value = serde_json::from_slice(&blob.json)
                    .map_err(|error| blob.cannot(&format!("cannot be written as YAML: {error}")))?;
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
    fn cannot(&self, problem: &str) -> io::Error {
        let short = |text: &str| text.chars().take(100).collect::<String>();
        let (package, key) = (short(&self.package), short(&self.key));
        let text = format!("a blob of package {package:?} ({key:?}) {problem}; leave it out");
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

// === impl Rendered ===

impl Rendered {
    /// Packages by name, what belongs to none behind them; within a package by class, and then by name or schema. What is
    /// equal by then stays in the order it came in.
    pub(super) fn of(mut blobs: Vec<Blob>) -> Self {
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

    /// Writes a file for each package, `<package>/catalog.<format>`, and one for what belongs to none. The folder is
    /// made if it is not there.
    ///
    /// # Errors
    /// When there is something in the folder, a package cannot be the name of a folder, or something cannot be written.
    pub fn write_folder(&self, folder: &Path, format: Format) -> Result<(), FolderError> {
        check_empty(folder)?;
        for blob in &self.blobs {
            if !blob.package.is_empty() && !is_name(&blob.package) {
                let name = blob.package.chars().take(200).collect();
                return Err(FolderError::Package { name });
            }
        }
        make(folder)?;
        for blobs in self.blobs.chunk_by(|a, b| a.package == b.package) {
            let package = blobs.first().map_or("", |it| &it.package);
            let mut path = folder.to_owned();
            if !package.is_empty() {
                path.push(package);
                make(&path)?;
            }
            path.push(format!("catalog.{}", format.extension()));
            let failed = |source| FolderError::Write {
                path: path.clone(),
                source,
            };
            let file = fs::File::create_new(&path).map_err(failed)?;
            let mut out = BufWriter::new(file);
            write(blobs, format, &mut out)
                .and_then(|()| out.flush())
                .map_err(failed)?;
        }
        Ok(())
    }
}

/// Says whether blobs could be written to a folder: it is empty, or not there.
///
/// # Errors
/// When it is not empty, or cannot be read.
pub fn check_empty(folder: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Write {
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

fn make(folder: &Path) -> Result<(), FolderError> {
    fs::create_dir_all(folder).map_err(|source| FolderError::Write {
        path: folder.to_owned(),
        source,
    })
}

/// Whether a text can only be the name of something right within a folder.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..") && !text.contains(['/', '\\', '\0'])
}

/// Bytes that are written at once.
const CHUNK: usize = 1 << 20;

fn write(blobs: &[Blob], format: Format, out: &mut dyn Write) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(CHUNK);
    for blob in blobs {
        format.write(blob, &mut buffer)?;
        if buffer.len() >= CHUNK {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    out.write_all(&buffer)
}
