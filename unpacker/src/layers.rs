//! Reader of image layers from the topmost down. Entries that an upper layer replaces or deletes are not read from
//! lower layers. Therefore no replaced file is ever stored, and entries outside of the selected directories need no
//! memory.
//!
//! | entry in a layer               | inside the selected directories                                  | outside          |
//! | ------------------------------ | ---------------------------------------------------------------- | ---------------- |
//! | regular file                   | read, unless an upper layer hides it                             | skipped, counted |
//! | directory                      | hides a lower file with its name                                 | skipped          |
//! | symbolic link                  | hides lower entries; recorded; rejected above an entry           | skipped, counted |
//! | hard link                      | read if it links to a selected file of this layer; else recorded | skipped, counted |
//! | whiteout, opaque directory     | hides lower entries                                              | skipped, counted |
//! | device, FIFO, sparse file      | recorded, unless an upper layer hides it                         | skipped, counted |
//! | entry of an unknown kind       | rejected, unless an upper layer hides it                         | skipped, counted |
//! | name that is not UTF-8         | rejected                                                         | skipped, counted |
//! | the same path twice            | rejected: tools differ in which entry they use                   | skipped          |
//! | name with `..`, or with a zero | rejected                                                         | rejected         |
//!
//! A selected entry of an upper layer below a symbolic link is rejected, unless the upper layer replaces the link.
//!
//! A link, device or sparse file in place of a directory above a selected one is recorded, too. Recorded entries are
//! not content, see [`Tree::ensure_regular`].
//!
//! A leading `/` or `./` is the root of the image, as in all sources.
//!
//! ```
//! use unpacker::{layers::Layers, Options};
//! let layer = |name| {
//!     let mut tar = tar::Builder::new(Vec::new());
//!     let mut header = tar::Header::new_gnu();
//!     header.set_size(0);
//!     tar.append_data(&mut header, name, std::io::empty())?;
//!     tar.into_inner()
//! };
//! let mut layers = Layers::new(&Options::default())?;
//! layers.push("upper", layer("manifests/.wh.old.yaml")?.as_slice())?;
//! layers.push("lower", layer("manifests/old.yaml")?.as_slice())?;
//! let (tree, _) = layers.finish();
//! assert!(tree.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod overlay;
mod parents;
mod path;

use std::io::{self, Read};

use manifests::content;

use crate::{
    Error, ImageLimits, Options, Result,
    archive::{self, EXTENDED, Entry, skip_body},
    decompress::Decompressor,
    select::Select,
    spool::Failure,
    tar::{
        blocks::{Meter, TarBlocks, explain},
        pax::to_utf8,
    },
    tree::{Builder, Tree},
};

use overlay::{LayerChanges, Overlay};
use parents::Parents;
pub(crate) use path::LayerPath;
use path::Whiteout;

/// The files of an image, which are added layer by layer.
#[derive(Debug)]
pub struct Layers {
    limits: ImageLimits,
    budget: LayerBudget,
    select: Select,
    stack: Overlay,
    parents: Parents,
    files: Builder,
    unselected: usize,
}

/// The remaining budget of an image.
#[derive(Debug)]
struct LayerBudget {
    layers: usize,
    entries: u64,
    bytes: u64,
    compressed: u64,
}

impl Layers {
    /// Creates a reader without layers. Here, [`Selection::Default`](crate::Selection::Default) selects everything;
    /// [`oci::select`](crate::oci::select) returns the directories that the labels of an image name.
    ///
    /// # Errors
    /// Returns an error if a selected path cannot exist in an image.
    pub fn new(options: &Options) -> Result<Self> {
        let limits = options.image;
        Ok(Self {
            limits,
            budget: LayerBudget {
                layers: limits.layers,
                entries: limits.entries,
                bytes: limits.bytes,
                compressed: limits.bytes,
            },
            select: Select::new(options)?,
            stack: Overlay::default(),
            parents: Parents::default(),
            files: Builder::new(options.limits, options.storage()),
            unselected: 0,
        })
    }

    /// Reads the next lower layer to its end: a tar archive, optionally compressed with gzip or zstd. `name`
    /// identifies the layer in messages and is usually its digest. After an error, no further layer can be pushed.
    ///
    /// # Errors
    /// Returns an error if the layer cannot be read, contains rejected entries, or exceeds a limit.
    pub fn push(&mut self, name: &str, reader: impl Read) -> Result<()> {
        self.read(reader).map_err(|error| match error {
            Error::TooLong { .. } => self.too_large(),
            too_large @ Error::ImageTooLarge { .. } => too_large,
            error => Error::Layer {
                name: name.chars().take(100).collect(),
                source: Box::new(error),
            },
        })
    }

    /// Reads a single file as the next lower layer.
    ///
    /// # Errors
    /// Returns the errors of [`push`](Self::push), and an error if the file does not have `size` bytes.
    pub fn push_file(&mut self, path: &str, size: u64, reader: impl Read) -> Result<()> {
        let path = content::normalize(path)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        let mut head = tar::Builder::new(Vec::new());
        // The body is read from `reader`.
        let written = head.append_data(&mut header, &path, io::empty());
        written.map_err(|source| Error::Write { source })?;
        let padding = size.next_multiple_of(512) - size;
        let tail = io::repeat(0).take(padding.saturating_add(1024));
        self.push(&path, head.get_ref().as_slice().chain(reader).chain(tail))
    }

    /// Returns the remaining entries, and the number of entries that are not selected.
    pub fn finish(self) -> (Tree, usize) {
        (self.files.finish(), self.unselected)
    }

    fn too_large(&self) -> Error {
        Error::ImageTooLarge {
            problem: "uncompressed bytes",
            limit: self.limits.bytes,
        }
    }

    fn read(&mut self, reader: impl Read) -> Result<()> {
        self.budget.layers = self
            .budget
            .layers
            .checked_sub(1)
            .ok_or(Error::ImageTooLarge {
                problem: "layers",
                limit: self.limits.layers as u64,
            })?;
        let mut metered = Meter::new(reader, self.budget.compressed);
        let inflated = Decompressor::new(&mut metered)
            .map_err(|error| explain(error, "at its start".to_owned()))?;
        let wrapping = inflated.wrapping();
        let mut blocks =
            TarBlocks::new(inflated, wrapping, self.budget.bytes).with_verified_length();
        let mut layer = Layer {
            layers: self,
            changes: LayerChanges::default(),
        };
        archive::each(&mut blocks, EXTENDED, |blocks, entry| {
            layer.entry(blocks, entry)
        })?;
        let changes = layer.changes;
        self.stack.merge(changes);
        self.parents.end_layer();
        self.files.drop_set_aside();
        self.budget.bytes -= blocks.count().min(self.budget.bytes);
        drop(blocks);
        self.budget.compressed -= metered.count().min(self.budget.compressed);
        Ok(())
    }
}

/// The current layer. Its whiteouts apply to lower layers, so they are collected in `changes` until its end.
struct Layer<'a> {
    layers: &'a mut Layers,
    changes: LayerChanges,
}

impl Layer<'_> {
    fn entry<R: Read>(&mut self, blocks: &mut TarBlocks<R>, entry: &Entry) -> Result<()> {
        let limit = self.layers.limits.entries;
        let remaining = &mut self.layers.budget.entries;
        *remaining = remaining.checked_sub(1).ok_or(Error::ImageTooLarge {
            problem: "entries",
            limit,
        })?;
        let bytes = entry.before.path(&entry.header)?;
        let kind = entry.kind(&bytes);
        let lossy_path = || to_utf8(&bytes);
        entry.check_size(&lossy_path(), kind)?;
        let name = LayerPath::read(&bytes)?;
        let change = name.change()?;
        self.pass_parents(kind, &name.path, &change)?;
        let select = &self.layers.select;
        let is_relevant = match &change {
            Whiteout::Nothing => false,
            Whiteout::Add(path) | Whiteout::Remove(path) | Whiteout::Opaque(path) => {
                select.descends_into(path)
            }
        };
        if !is_relevant {
            self.layers.unselected += usize::from(kind != b'5');
            return skip_body(blocks, entry, kind);
        }
        if !name.is_text {
            return Err(Error::Name { path: lossy_path() });
        }
        match change {
            Whiteout::Nothing => Ok(()),
            Whiteout::Remove(path) => {
                self.layers.files.skip(&path)?;
                self.changes.hide(path);
                skip_body(blocks, entry, kind)
            }
            Whiteout::Opaque(dir) => {
                self.layers.files.skip(&dir)?;
                self.changes.opaque(dir);
                skip_body(blocks, entry, kind)
            }
            Whiteout::Add(path) if path.is_empty() => match kind {
                b'5' => Ok(()),
                _ => archive::refuse(
                    &lossy_path(),
                    "the root of the image, but not a directory",
                    "build the image again with another tool",
                ),
            },
            Whiteout::Add(path) if kind == b'5' => {
                self.layers.files.skip(&path)?;
                Ok(self.changes.dir(path)?)
            }
            Whiteout::Add(path) => self.add(blocks, entry, kind, path),
        }
    }

    /// Verifies that no container runtime would write the entry through a link of a lower layer.
    fn pass_parents(&mut self, kind: u8, name: &str, change: &Whiteout) -> Result<()> {
        let Layers {
            parents, select, ..
        } = &mut *self.layers;
        match change {
            // If everything is selected, the links of operating systems are as irrelevant as their files.
            _ if select.is_everything() => Ok(()),
            Whiteout::Nothing => Ok(()),
            Whiteout::Remove(path) => parents.whiteout(path, name, select),
            Whiteout::Opaque(directory) => parents.opaque(directory, name, select),
            Whiteout::Add(path) if path.is_empty() => Ok(()),
            Whiteout::Add(path) => match kind {
                b'5' => parents.directory(path, select),
                b'2' => parents.link(path, select),
                _ => parents.file(path, select),
            },
        }
    }

    /// Adds an entry that is not a directory.
    fn add<R: Read>(
        &mut self,
        blocks: &mut TarBlocks<R>,
        entry: &Entry,
        kind: u8,
        path: String,
    ) -> Result<()> {
        let Layers {
            select,
            stack,
            files,
            unselected,
            ..
        } = &mut *self.layers;
        let is_hidden = stack.hides(&path);
        let is_file = kind == b'0' && !entry.is_sparse();
        // A link in place of a directory hides selected files below it.
        let is_selected = select.matches(&path) || !is_file;
        self.changes.file(&path)?;
        if is_hidden || !is_selected {
            *unselected += usize::from(!is_selected);
            files.skip(&path)?;
            let may_be_linked = is_selected && is_file;
            if may_be_linked && files.has_room_aside(entry.size) {
                // An upper layer has removed this name of the file, but hard links may give it other names.
                let mut body = blocks.body(entry.size);
                let result = files.set_aside(&path, entry.mode(), &mut body);
                self.changes.record_read(path.clone());
                return result.map_err(|failure| match failure {
                    Failure::Write(error) => error,
                    Failure::Read(source) => explain(source, format!("in {path:?}")),
                });
            }
            return skip_body(blocks, entry, kind);
        }
        match entry.irregular(&path, kind)? {
            None => archive::add(files, blocks, &path, entry)?,
            Some(irregular) => {
                let changes = &self.changes;
                entry.record(files, &path, irregular, |files, target| {
                    let target = LayerPath::read(target)?;
                    // The target is a file that this layer added before, because lower layers are read later.
                    Ok(changes.has_file(&target.path) && files.link(&path, &target.path)?)
                })?;
                skip_body(blocks, entry, kind)?;
            }
        }
        self.changes.record_read(path);
        Ok(())
    }
}

impl From<overlay::Conflict> for Error {
    fn from(conflict: overlay::Conflict) -> Self {
        Self::Content(match conflict {
            overlay::Conflict::Duplicate(path) => content::Error::Duplicate { path },
            overlay::Conflict::FileAsFolder(path, other) => {
                content::Error::FileAsFolder { path, other }
            }
        })
    }
}
