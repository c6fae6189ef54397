//! A stack of layers, read from the top down: what an upper layer has, hides or deletes, a lower one no longer adds.
//! So nothing is ever kept that loses, and what lies outside the folders that are wanted is not even remembered.
//!
//! | entry in a layer               | inside the selected directories                                  | outside          |
//! | ------------------------------ | ---------------------------------------------------------------- | ---------------- |
//! | regular file                   | read, unless an upper layer hides it                             | skipped, counted |
//! | directory                      | hides a lower file of its name                                   | passed over      |
//! | symbolic link                  | hides lower entries; recorded; refused above an entry            | skipped, counted |
//! | hard link                      | read if it links to a selected file of this layer; else recorded | skipped, counted |
//! | whiteout, opaque directory     | hides lower entries                                              | skipped, counted |
//! | device, FIFO, sparse file      | recorded, unless an upper layer hides it                         | skipped, counted |
//! | entry of an unknown kind       | refused, unless an upper layer hides it                          | skipped, counted |
//! | name that is not UTF-8         | refused                                                          | skipped, counted |
//! | the same path twice            | refused: tools differ in which they take                         | passed over      |
//! | name with `..`, or with a zero | refused                                                          | refused          |
//!
//! A selected entry of an upper layer below a symbolic link is refused, unless the upper layer replaces the link.
//!
//! A recorded link, device or sparse file is also one in the place of a directory above a selected one. It is not
//! content, see [`Tree::ensure_regular`].
//!
//! A leading `/` or `./` means the root of the image, as everywhere.
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

mod name;
mod parents;
mod stack;

use std::io::{self, Read};

use manifests::content;

use crate::{
    Error, ImageLimits, Options, Result,
    archive::{self, EXTENDED, Entry, pass},
    block::{Blocks, Meter, explain},
    inflate::Inflate,
    pax::lossy,
    select::Select,
    spool::Failure,
    tree::{Builder, Tree},
};

use name::Change;
pub(crate) use name::Name;
use parents::Parents;
use stack::{Fresh, Stack};

/// The files of an image, as they come in layer by layer.
#[derive(Debug)]
pub struct Layers {
    limits: ImageLimits,
    left: Left,
    select: Select,
    stack: Stack,
    parents: Parents,
    files: Builder,
    unselected: usize,
}

/// What may still be read.
#[derive(Debug)]
struct Left {
    layers: usize,
    entries: u64,
    bytes: u64,
    compressed: u64,
}

impl Layers {
    /// No layer yet. [`Selection::Natural`](crate::Selection::Natural) selects everything here: what the labels of an
    /// image name is known to [`oci::select`](crate::oci::select).
    ///
    /// # Errors
    /// When a selected path cannot be in an image.
    pub fn new(options: &Options) -> Result<Self> {
        let limits = options.image;
        Ok(Self {
            limits,
            left: Left {
                layers: limits.layers,
                entries: limits.entries,
                bytes: limits.bytes,
                compressed: limits.bytes,
            },
            select: Select::new(options)?,
            stack: Stack::default(),
            parents: Parents::default(),
            files: Builder::new(options.limits, options.room()),
            unselected: 0,
        })
    }

    /// Reads the next lower layer to its end: a tar, plain or compressed with gzip or zstd. The name, usually its
    /// digest, is for messages. After an error nothing more can be pushed.
    ///
    /// # Errors
    /// When the layer cannot be read, holds what is refused, or exceeds a limit.
    pub fn push(&mut self, name: &str, reader: impl Read) -> Result<()> {
        self.read(reader).map_err(|error| match error {
            Error::TooLong { .. } => self.too_much(),
            too_large @ Error::ImageTooLarge { .. } => too_large,
            error => Error::Layer {
                name: name.chars().take(100).collect(),
                source: Box::new(error),
            },
        })
    }

    /// Reads a single file as if it stood alone in the next lower layer.
    ///
    /// # Errors
    /// As [`push`](Self::push), and when there are not `size` bytes.
    pub fn push_file(&mut self, path: &str, size: u64, reader: impl Read) -> Result<()> {
        let path = content::normalize(path)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        let mut head = tar::Builder::new(Vec::new());
        // The body follows from elsewhere.
        let written = head.append_data(&mut header, &path, io::empty());
        written.map_err(|source| Error::Write { source })?;
        let padding = size.next_multiple_of(512) - size;
        let tail = io::repeat(0).take(padding.saturating_add(1024));
        self.push(&path, head.get_ref().as_slice().chain(reader).chain(tail))
    }

    /// Returns the remaining entries, and the number of those that are not selected.
    pub fn finish(self) -> (Tree, usize) {
        (self.files.finish(), self.unselected)
    }

    fn too_much(&self) -> Error {
        Error::ImageTooLarge {
            problem: "uncompressed bytes",
            limit: self.limits.bytes,
        }
    }

    fn read(&mut self, reader: impl Read) -> Result<()> {
        self.left.layers = self
            .left
            .layers
            .checked_sub(1)
            .ok_or(Error::ImageTooLarge {
                problem: "layers",
                limit: self.limits.layers as u64,
            })?;
        let mut metered = Meter::new(reader, self.left.compressed);
        let inflated = Inflate::new(&mut metered)
            .map_err(|error| explain(error, "at its start".to_owned()))?;
        let wrapping = inflated.wrapping();
        let mut blocks = Blocks::new(inflated, wrapping, self.left.bytes).vouched();
        let mut layer = Layer {
            layers: self,
            fresh: Fresh::default(),
        };
        archive::each(&mut blocks, EXTENDED, |blocks, entry| {
            layer.entry(blocks, entry)
        })?;
        let fresh = layer.fresh;
        self.stack.put_below(fresh);
        self.parents.end_layer();
        self.files.forget_aside();
        self.left.bytes -= blocks.count().min(self.left.bytes);
        drop(blocks);
        self.left.compressed -= metered.count().min(self.left.compressed);
        Ok(())
    }
}

/// One layer while it is read. Its own whiteouts are for lower layers, so they wait in `fresh` until its end.
struct Layer<'a> {
    layers: &'a mut Layers,
    fresh: Fresh,
}

impl Layer<'_> {
    fn entry<R: Read>(&mut self, blocks: &mut Blocks<R>, entry: &Entry) -> Result<()> {
        let limit = self.layers.limits.entries;
        let left = &mut self.layers.left.entries;
        *left = left.checked_sub(1).ok_or(Error::ImageTooLarge {
            problem: "entries",
            limit,
        })?;
        let bytes = entry.before.path(&entry.header)?;
        let kind = entry.kind(&bytes);
        let lossy_path = || lossy(&bytes);
        entry.check_size(&lossy_path(), kind)?;
        let name = Name::read(&bytes)?;
        let change = name.change()?;
        self.pass_parents(kind, &name.path, &change)?;
        let select = &self.layers.select;
        let is_of_interest = match &change {
            Change::Nothing => false,
            Change::Add(path) | Change::Hide(path) | Change::Opaque(path) => select.enters(path),
        };
        if !is_of_interest {
            self.layers.unselected += usize::from(kind != b'5');
            return pass(blocks, entry, kind);
        }
        if !name.is_text {
            return Err(Error::Name { path: lossy_path() });
        }
        match change {
            Change::Nothing => Ok(()),
            Change::Hide(path) => {
                self.layers.files.skip(&path)?;
                self.fresh.hide(path);
                pass(blocks, entry, kind)
            }
            Change::Opaque(folder) => {
                self.layers.files.skip(&folder)?;
                self.fresh.opaque(folder);
                pass(blocks, entry, kind)
            }
            Change::Add(path) if path.is_empty() => match kind {
                b'5' => Ok(()),
                _ => archive::refuse(
                    &lossy_path(),
                    "the root of the image, and no folder",
                    "build the image again with another tool",
                ),
            },
            Change::Add(path) if kind == b'5' => {
                self.layers.files.skip(&path)?;
                Ok(self.fresh.folder(path)?)
            }
            Change::Add(path) => self.add(blocks, entry, kind, path),
        }
    }

    /// Checks that no runtime would write the entry through a link of a lower layer.
    fn pass_parents(&mut self, kind: u8, name: &str, change: &Change) -> Result<()> {
        let Layers {
            parents, select, ..
        } = &mut *self.layers;
        match change {
            // With everything selected, the links of operating systems matter as little as their files.
            _ if select.is_everything() => Ok(()),
            Change::Nothing => Ok(()),
            Change::Hide(path) => parents.whiteout(path, name, select),
            Change::Opaque(directory) => parents.opaque(directory, name, select),
            Change::Add(path) if path.is_empty() => Ok(()),
            Change::Add(path) => match kind {
                b'5' => parents.directory(path, select),
                b'2' => parents.link(path, select),
                _ => parents.file(path, select),
            },
        }
    }

    /// Anything but a folder.
    fn add<R: Read>(
        &mut self,
        blocks: &mut Blocks<R>,
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
        // A link in the place of a directory hides what is selected in it.
        let is_wanted = select.takes(&path) || !is_file;
        self.fresh.file(&path)?;
        if is_hidden || !is_wanted {
            *unselected += usize::from(!is_wanted);
            files.skip(&path)?;
            let may_be_linked = is_wanted && is_file;
            if may_be_linked && files.has_room_aside(entry.size) {
                // An upper layer has removed this name of the file, and perhaps not its others.
                let mut body = blocks.body(entry.size);
                let kept = files.set_aside(&path, entry.mode(), &mut body);
                self.fresh.keep(path.clone());
                return kept.map_err(|failure| match failure {
                    Failure::Write(error) => error,
                    Failure::Read(source) => explain(source, format!("in {path:?}")),
                });
            }
            return pass(blocks, entry, kind);
        }
        match entry.irregular(&path, kind)? {
            None => archive::add(files, blocks, &path, entry)?,
            Some(irregular) => {
                let fresh = &self.fresh;
                entry.record(files, &path, irregular, |files, target| {
                    let target = Name::read(target)?;
                    // The target is a file that this layer added before, because lower layers are read later.
                    Ok(fresh.has_file(&target.path) && files.link(&path, &target.path)?)
                })?;
                pass(blocks, entry, kind)?;
            }
        }
        self.fresh.keep(path);
        Ok(())
    }
}

impl From<stack::Conflict> for Error {
    fn from(conflict: stack::Conflict) -> Self {
        Self::Content(match conflict {
            stack::Conflict::Twice(path) => content::Error::Duplicate { path },
            stack::Conflict::FileAsFolder(path, other) => {
                content::Error::FileAsFolder { path, other }
            }
        })
    }
}
