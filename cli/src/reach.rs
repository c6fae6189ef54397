//! The way to bundles: past files at once, over networks only when one is needed.

use std::io;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use unpacker::{Access, Content, Error, Fetched, Options, Result};

use crate::{args::AccessArgs, parallel, progress::Board, source::Source};

/// Transfers at a time. Most of their time is waiting.
const TRANSFERS: usize = 8;

/// What bundles are fetched with.
pub(crate) struct Reach {
    /// Nothing is read, started or drawn while all bundles are on this machine.
    remote: Option<Remote>,
}

struct Remote {
    access: Access,
    runtime: Runtime,
    board: Board,
}

impl Reach {
    /// Prepares for these sources.
    ///
    /// # Errors
    /// When a file with credentials cannot be read.
    pub(crate) fn new(
        args: &AccessArgs,
        sources: &[Source],
        is_quiet: bool,
    ) -> anyhow::Result<Self> {
        let remote = sources.iter().filter(|source| source.is_remote());
        let places: Vec<&unpacker::Source> = remote
            .filter_map(|source| source.place.as_ref().ok())
            .collect();
        if places.is_empty() {
            return Ok(Self { remote: None });
        }
        let runtime = Builder::new_multi_thread().enable_all().build();
        Ok(Self {
            remote: Some(Remote {
                access: args.read(&places)?,
                runtime: runtime.context("failed to start what talks to networks")?,
                board: Board::new(is_quiet),
            }),
        })
    }

    /// How many bundles should be worked on at a time.
    pub(crate) fn width(&self) -> usize {
        let processors = parallel::processors();
        match self.remote {
            Some(_) => processors.max(TRANSFERS),
            None => processors,
        }
    }

    /// Reads a bundle to its end. An archive may hold it in a folder.
    pub(crate) fn content(&self, source: &Source, options: &Options) -> Result<Content> {
        self.fetch(source, options)?.tree.into_content()
    }

    /// Reads a bundle to its end, and says what it was.
    pub(crate) fn fetch(&self, source: &Source, options: &Options) -> Result<Fetched> {
        let place = source.place.clone()?;
        match (&place, &self.remote) {
            (unpacker::Source::Local(local), _) => unpacker::local(local, options),
            (place, Some(remote)) => {
                let Remote {
                    access,
                    runtime,
                    board,
                } = remote;
                board.during(&source.text(), |progress| {
                    runtime.block_on(unpacker::fetch(place, access, options, progress))
                })
            }
            // Never so: whoever asks for it was made for it.
            (place, None) => Err(Error::Open {
                path: place.to_string().into(),
                source: io::ErrorKind::NotConnected.into(),
            }),
        }
    }
}
