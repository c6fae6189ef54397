//! The way to bundles: past files at once, over networks only when one is needed.

use std::{fmt::Display, io};

use anyhow::Context;
use manifests::image::Reference;
use tokio::runtime::{Builder, Runtime};
use unpacker::{
    Access, Content, Digest, Error, Fetched, Options, Result,
    registry::{self, BundleImage},
};

use crate::{args::AccessArgs, parallel, progress::Board, source::Source};

/// Transfers at a time. Most of their time is waiting.
const TRANSFERS: usize = 8;

/// What bundles are fetched with.
pub(crate) struct Reach {
    /// Nothing is read, started or drawn while all bundles are on this machine.
    remote: Option<Remote>,
    platform: Option<String>,
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
        let remote = (!places.is_empty()).then(|| Remote::new(args, &places, is_quiet));
        Ok(Self {
            remote: remote.transpose()?,
            platform: args.platform.clone(),
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

    /// Publishes a bundle in a registry that this was made for.
    pub(crate) fn push(&self, image: &Reference, bundle: &BundleImage) -> Result<Digest> {
        let Some(Remote {
            access,
            runtime,
            board,
        }) = &self.remote
        else {
            return Err(unprepared(image));
        };
        board.during(&image.to_string(), |_| {
            Ok(runtime.block_on(registry::push(image, bundle, access))?)
        })
    }

    /// Reads a bundle to its end, and says what it was.
    pub(crate) fn fetch(&self, source: &Source, options: &Options) -> Result<Fetched> {
        let place = source.place.clone()?;
        match (&place, &self.remote) {
            (unpacker::Source::Local(local), _) => {
                unpacker::local(local, self.platform.as_deref(), options)
            }
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
            (place, None) => Err(unprepared(place)),
        }
    }
}

impl Remote {
    fn new(
        args: &AccessArgs,
        places: &[&unpacker::Source],
        is_quiet: bool,
    ) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().enable_all().build();
        Ok(Self {
            access: args.read(places)?,
            runtime: runtime.context("failed to start what talks to networks")?,
            board: Board::new(is_quiet),
        })
    }
}

/// Never so: whoever asks for something remote has said so before.
fn unprepared(place: &impl Display) -> Error {
    Error::Open {
        path: place.to_string().into(),
        source: io::ErrorKind::NotConnected.into(),
    }
}
