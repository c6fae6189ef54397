//! Fetching of bundles. The network is used only if a source needs it.

use std::{fmt::Display, io};

use anyhow::Context;
use manifests::image::Reference;
use tokio::runtime::{Builder, Runtime};
use unpacker::{
    Access, Content, Digest, Error, Fetched, Options, Result,
    registry::{self, BundleImage},
};

use crate::{args::AccessArgs, output::progress::ProgressLine, parallel, source::Source};

/// Maximum number of concurrent transfers, which spend most of their time waiting.
const MAX_TRANSFERS: usize = 8;

/// Fetches bundles from all kinds of sources.
pub(crate) struct Fetcher {
    /// Fetcher for remote sources; `None` if all sources are local. Then no credentials are read, and no runtime and no
    /// progress line are started.
    remote: Option<RemoteFetcher>,
    platform: Option<String>,
}

struct RemoteFetcher {
    access: Access,
    runtime: Runtime,
    progress_line: ProgressLine,
}

impl Fetcher {
    /// Creates a fetcher for these sources.
    ///
    /// # Errors
    /// Returns an error if a file with credentials cannot be read.
    pub(crate) fn new(
        args: &AccessArgs,
        sources: &[Source],
        is_quiet: bool,
    ) -> anyhow::Result<Self> {
        let remote = sources.iter().filter(|source| source.is_remote());
        let locations: Vec<&unpacker::Source> = remote
            .filter_map(|source| source.location.as_ref().ok())
            .collect();
        let remote =
            (!locations.is_empty()).then(|| RemoteFetcher::new(args, &locations, is_quiet));
        Ok(Self {
            remote: remote.transpose()?,
            platform: args.platform.clone(),
        })
    }

    /// Returns the number of bundles to process concurrently.
    pub(crate) fn max_parallel(&self) -> usize {
        let processors = parallel::processors();
        match self.remote {
            Some(_) => processors.max(MAX_TRANSFERS),
            None => processors,
        }
    }

    /// Fetches a bundle and returns its content. An archive may contain it in a directory.
    pub(crate) fn content(&self, source: &Source, options: &Options) -> Result<Content> {
        self.fetch(source, options)?.tree.into_content()
    }

    /// Publishes a bundle in a registry that was among the sources of [`Self::new`].
    pub(crate) fn push(&self, image: &Reference, bundle: &BundleImage) -> Result<Digest> {
        let Some(RemoteFetcher {
            access,
            runtime,
            progress_line,
        }) = &self.remote
        else {
            return Err(setup_error(image));
        };
        progress_line.during(&image.to_string(), |_| {
            Ok(runtime.block_on(registry::push(image, bundle, access))?)
        })
    }

    /// Fetches a bundle and returns its files and its resolved source.
    pub(crate) fn fetch(&self, source: &Source, options: &Options) -> Result<Fetched> {
        let location = source.location.clone()?;
        match (&location, &self.remote) {
            (unpacker::Source::Local(local), _) => {
                unpacker::local(local, self.platform.as_deref(), options)
            }
            (location, Some(remote)) => {
                let RemoteFetcher {
                    access,
                    runtime,
                    progress_line,
                } = remote;
                progress_line.during(&source.text(), |progress| {
                    runtime.block_on(unpacker::fetch(location, access, options, progress))
                })
            }
            (location, None) => Err(setup_error(location)),
        }
    }
}

impl RemoteFetcher {
    fn new(
        args: &AccessArgs,
        locations: &[&unpacker::Source],
        is_quiet: bool,
    ) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().enable_all().build();
        Ok(Self {
            access: args.read(locations)?,
            runtime: runtime.context("failed to start the network runtime")?,
            progress_line: ProgressLine::new(is_quiet),
        })
    }
}

/// Returns the error for a remote source that was not among the sources of [`Fetcher::new`], which no command requests.
fn setup_error(location: &impl Display) -> Error {
    Error::Open {
        path: location.to_string().into(),
        source: io::ErrorKind::NotConnected.into(),
    }
}
