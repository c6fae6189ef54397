//! Layers of an image. They are read one after the other; some are downloaded ahead.

use std::{
    env,
    io::{self, Read, Seek as _, Write as _},
    path::PathBuf,
};

use futures::{StreamExt as _, stream};
use tempfile::SpooledTempFile;
use tokio::{sync::mpsc, task::spawn_blocking};

use crate::{
    Options, Progress, Tree,
    http_client::{Reader, Timeouts},
    layers::Layers,
    oci::{Descriptor, Manifest},
    registry::{Blob, Checksum, Error, Failure, session::Session},
};

/// Number of layers that are downloaded ahead.
const PREFETCH: usize = 2;
/// Maximum size of a downloaded layer in memory, in bytes. Larger layers are stored on disk.
const IN_MEMORY: usize = 1 << 20;
/// Maximum size of a layer that is downloaded ahead, in bytes. It limits the disk space of a fetch.
const ON_DISK: u64 = 64 << 20;
/// Number of bytes of a rejected layer that are read to find out whether the transfer damaged it.
const ERROR_READ_LIMIT: u64 = 16 << 20;

/// Parameters of a download of layers.
pub(super) struct Fetch<'a> {
    pub(super) session: &'a Session,
    /// Name of the image in messages.
    pub(super) image: &'a str,
    pub(super) options: &'a Options,
    pub(super) timeouts: &'a Timeouts,
    pub(super) progress: &'a Progress,
}

/// A layer that can be read.
struct OpenLayer {
    digest: String,
    size: u64,
    /// File name, if the layer is a single file.
    file: Option<String>,
    input: Input,
}

enum Input {
    /// A layer that is read while it arrives.
    Pipe(Reader, Failure),
    /// A downloaded and verified layer.
    File(SpooledTempFile),
}

impl Fetch<'_> {
    /// Reads all layers from the topmost down. The result is returned only after all layers are verified.
    pub(super) async fn layers(&self, manifest: &Manifest) -> Result<(Tree, usize), Error> {
        let (sender, receiver) = mpsc::channel(1);
        let (image, options) = (self.image.to_owned(), self.options.clone());
        let reading = spawn_blocking(move || read(receiver, &image, &options));
        let layers = manifest.layers.iter().rev().enumerate();
        let layers = layers.map(|(number, layer)| {
            let file = manifest.file(layer).map(str::to_owned);
            (layer.clone(), file, number > 0)
        });
        let mut opened = stream::iter(layers.collect::<Vec<_>>())
            .map(|(layer, file, waits)| self.open(layer, file, waits))
            .buffered(PREFETCH);
        while let Some(layer) = opened.next().await {
            let failed = layer.is_err();
            // The reader stopped and returns the reason.
            if sender.send(layer).await.is_err() || failed {
                break;
            }
        }
        drop(sender);
        reading.await.map_err(|source| Error::Cancelled {
            what: self.image.to_owned(),
            source,
        })?
    }

    /// Opens a layer. The topmost layer and layers above the size limit are read while they arrive. Other layers are
    /// downloaded in advance.
    async fn open(
        &self,
        layer: Descriptor,
        file: Option<String>,
        waits: bool,
    ) -> Result<OpenLayer, Error> {
        let digest = layer.digest.to_string();
        let subject = format!("layer {digest} of {}", self.image);
        let blob = Blob {
            digest: Checksum::parse(&digest, &subject)?,
            size: layer.size,
            what: subject,
        };
        let (mut reader, failure) = blob.reader(self.session, self.timeouts, self.progress);
        let input = if waits && layer.size <= ON_DISK {
            let directory = self.options.spool.clone().unwrap_or_else(env::temp_dir);
            let image = self.image.to_owned();
            let buffered =
                spawn_blocking(move || buffer_layer(&mut reader, &failure, directory)).await;
            Input::File(buffered.map_err(|source| Error::Cancelled {
                what: image,
                source,
            })??)
        } else {
            Input::Pipe(reader, failure)
        };
        Ok(OpenLayer {
            digest,
            size: layer.size,
            file,
            input,
        })
    }
}

/// Downloads and verifies a layer.
fn buffer_layer(
    reader: &mut Reader,
    failure: &Failure,
    directory: PathBuf,
) -> Result<SpooledTempFile, Error> {
    let mut file = tempfile::spooled_tempfile_in(IN_MEMORY, &directory);
    let copied = io::copy(reader, &mut file);
    let copied = copied
        .and_then(|_| file.flush())
        .and_then(|()| file.rewind());
    if let Some(error) = failure.download() {
        return Err(error);
    }
    match copied {
        Ok(()) => Ok(file),
        Err(source) => Err(Error::Disk { directory, source }),
    }
}

fn read(
    mut layers: mpsc::Receiver<Result<OpenLayer, Error>>,
    image: &str,
    options: &Options,
) -> Result<(Tree, usize), Error> {
    let failed = |source| Error::Content {
        what: image.to_owned(),
        source: Box::new(source),
    };
    let mut stack = Layers::new(options).map_err(failed)?;
    while let Some(layer) = layers.blocking_recv() {
        let mut layer = layer?;
        layer.push(&mut stack)?.map_err(failed)?;
    }
    Ok(stack.finish())
}

impl OpenLayer {
    /// Reads the layer. A failed transfer takes precedence over its consequences.
    fn push(&mut self, stack: &mut Layers) -> Result<crate::Result<()>, Error> {
        let (reader, failure) = match &mut self.input {
            Input::Pipe(reader, failure) => (reader as &mut dyn Read, failure.clone()),
            Input::File(file) => (file as &mut dyn Read, Failure::default()),
        };
        let result = match &self.file {
            // Many images contain an empty blob as a layer, which is not an archive.
            None if self.size == 0 => Ok(()),
            None => stack.push(&self.digest, &mut *reader),
            Some(path) => stack.push_file(path, self.size, &mut *reader),
        };
        // The digest includes the data after the end of the archive.
        let limit = if result.is_ok() {
            u64::MAX
        } else {
            ERROR_READ_LIMIT
        };
        // A read failure is stored in `failure`.
        let _ = io::copy(&mut reader.take(limit), &mut io::sink());
        match failure.download() {
            Some(error) => Err(error),
            None => Ok(result),
        }
    }
}
