//! The layers of an image: some are fetched ahead, and one after the other is read.

use std::{
    env,
    io::{self, Read, Seek as _, Write as _},
    path::PathBuf,
};

use futures::{StreamExt as _, stream};
use tempfile::SpooledTempFile;
use tokio::{sync::mpsc, task::spawn_blocking};

use crate::{
    Options, Tree,
    fetch::Progress,
    layers::Layers,
    oci::{Descriptor, Manifest},
    registry::{Blob, Checksum, Error, Failure, session::Session},
    web::{Patience, Reader},
};

/// How many layers are fetched ahead of the one that is read.
const AHEAD: usize = 2;
/// A layer that waits is kept in memory up to this size, and on disk beyond.
const IN_MEMORY: usize = 1 << 20;
/// A larger layer waits where it is until it is read, so that what a fetch needs of the disk has a bound.
const ON_DISK: u64 = 64 << 20;
/// How much is read of a layer that was given up, to learn whether it is the transfer that has damaged it.
const AUTOPSY: u64 = 16 << 20;

/// What the layers are fetched with.
pub(super) struct Fetch<'a> {
    pub(super) session: &'a Session,
    /// The image, for messages.
    pub(super) what: &'a str,
    pub(super) options: &'a Options,
    pub(super) patience: &'a Patience,
    pub(super) progress: &'a Progress,
}

/// A layer that can be read.
struct Opened {
    digest: String,
    size: u64,
    /// The name of the single file that it is.
    file: Option<String>,
    input: Input,
}

enum Input {
    /// As it arrives.
    Pipe(Reader, Failure),
    /// Checked already.
    File(SpooledTempFile),
}

impl Fetch<'_> {
    /// Reads all layers, from the topmost down. Nothing of them counts before all are checked.
    pub(super) async fn layers(&self, manifest: &Manifest) -> Result<(Tree, usize), Error> {
        let (sender, receiver) = mpsc::channel(1);
        let (what, options) = (self.what.to_owned(), self.options.clone());
        let reading = spawn_blocking(move || read(receiver, &what, &options));
        let layers = manifest.layers.iter().rev().enumerate();
        let layers = layers.map(|(number, layer)| {
            let file = manifest.file(layer).map(str::to_owned);
            (layer.clone(), file, number > 0)
        });
        let mut opened = stream::iter(layers.collect::<Vec<_>>())
            .map(|(layer, file, waits)| self.open(layer, file, waits))
            .buffered(AHEAD);
        while let Some(layer) = opened.next().await {
            let failed = layer.is_err();
            // Whoever reads has failed if nobody listens, and will say why.
            if sender.send(layer).await.is_err() || failed {
                break;
            }
        }
        drop(sender);
        reading.await.map_err(|source| Error::Stopped {
            what: self.what.to_owned(),
            source,
        })?
    }

    /// The topmost layer is read as it arrives, and so is one that is too large to be kept. Others arrive while it is
    /// read, and wait.
    async fn open(
        &self,
        layer: Descriptor,
        file: Option<String>,
        waits: bool,
    ) -> Result<Opened, Error> {
        let digest = layer.digest.to_string();
        let what = format!("layer {digest} of {}", self.what);
        let blob = Blob {
            digest: Checksum::parse(&digest, &what)?,
            size: layer.size,
            what,
        };
        let (mut reader, failure) = blob.reader(self.session, self.patience, self.progress);
        let input = if waits && layer.size <= ON_DISK {
            let folder = self.options.spool.clone().unwrap_or_else(env::temp_dir);
            let what = self.what.to_owned();
            let kept = spawn_blocking(move || keep(&mut reader, &failure, folder)).await;
            Input::File(kept.map_err(|source| Error::Stopped { what, source })??)
        } else {
            Input::Pipe(reader, failure)
        };
        Ok(Opened {
            digest,
            size: layer.size,
            file,
            input,
        })
    }
}

/// Reads a layer to its end, so that it is checked.
fn keep(reader: &mut Reader, failure: &Failure, folder: PathBuf) -> Result<SpooledTempFile, Error> {
    let mut file = tempfile::spooled_tempfile_in(IN_MEMORY, &folder);
    let copied = io::copy(reader, &mut file);
    let copied = copied
        .and_then(|_| file.flush())
        .and_then(|()| file.rewind());
    if let Some(error) = failure.take() {
        return Err(error);
    }
    match copied {
        Ok(()) => Ok(file),
        Err(source) => Err(Error::Disk { folder, source }),
    }
}

fn read(
    mut layers: mpsc::Receiver<Result<Opened, Error>>,
    what: &str,
    options: &Options,
) -> Result<(Tree, usize), Error> {
    let failed = |source| Error::Content {
        what: what.to_owned(),
        source: Box::new(source),
    };
    let mut stack = Layers::new(options).map_err(failed)?;
    while let Some(layer) = layers.blocking_recv() {
        let mut layer = layer?;
        layer.push(&mut stack)?.map_err(failed)?;
    }
    Ok(stack.finish())
}

impl Opened {
    /// Reads the layer. That its transfer has failed is told before what came of it.
    fn push(&mut self, stack: &mut Layers) -> Result<crate::Result<()>, Error> {
        let (reader, failure) = match &mut self.input {
            Input::Pipe(reader, failure) => (reader as &mut dyn Read, failure.clone()),
            Input::File(file) => (file as &mut dyn Read, Failure::default()),
        };
        let pushed = match &self.file {
            // Registries are full of the same empty blob, which is no archive.
            None if self.size == 0 => Ok(()),
            None => stack.push(&self.digest, &mut *reader),
            Some(path) => stack.push_file(path, self.size, &mut *reader),
        };
        // What stands behind the end of the archive is part of what is checked, too.
        let rest = if pushed.is_ok() { u64::MAX } else { AUTOPSY };
        // A failure is in `failure`.
        let _ = io::copy(&mut reader.take(rest), &mut io::sink());
        match failure.take() {
            Some(error) => Err(error),
            None => Ok(pushed),
        }
    }
}
