//! Verification of received content, in code that may block.

use std::io::{self, Read, Write};

use bytes::{Buf as _, Bytes};
use http::HeaderName;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::{
    BODY_DIGEST, CONTENT_DIGEST, CONTENT_SIZE, DeclaredUpload, Rejection, RequiredHeaders,
    StoredUpload,
};
use crate::{Digest, Error, Options, Store, Tree, store::Stored, stream_tree, tar::blocks::fill};

/// A message of the channel for the body.
pub(super) enum Message {
    Bytes(Bytes),
    /// The end of the body. It distinguishes a complete body from an aborted one.
    End,
}

/// A blocking reader of the body.
pub(super) struct BodyReader {
    messages: mpsc::Receiver<Message>,
    chunk: Bytes,
    ended: bool,
    hash: Sha256,
}

impl BodyReader {
    pub(super) fn new(messages: mpsc::Receiver<Message>) -> Self {
        Self {
            messages,
            chunk: Bytes::new(),
            ended: false,
            hash: Sha256::new(),
        }
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !self.ended && !buffer.is_empty() {
            match self.messages.blocking_recv() {
                Some(Message::Bytes(chunk)) => {
                    self.hash.update(&chunk);
                    self.chunk = chunk;
                }
                Some(Message::End) => self.ended = true,
                None => return Err(io::Error::other("the upload was aborted")),
            }
        }
        let count = self.chunk.len().min(buffer.len());
        if let Some(buffer) = buffer.get_mut(..count) {
            self.chunk.copy_to_slice(buffer);
        }
        Ok(count)
    }
}

/// A completely read body.
pub(super) struct ReceivedArchive {
    tree: Tree,
    body: Digest,
}

pub(super) fn read(
    mut reader: BodyReader,
    options: &Options,
) -> Result<ReceivedArchive, Rejection> {
    let failed = |source| {
        let path = "upload".to_owned();
        Rejection::Archive(Error::Read { path, source })
    };
    let mut magic = [0; 2];
    let count = fill(&mut reader, &mut magic).map_err(failed)?;
    if count == 0 {
        return Err(Rejection::Archive(Error::Empty));
    }
    if magic != [0x1f, 0x8b] {
        return Err(Rejection::NotGzip);
    }
    let full = Read::chain(magic.as_slice(), &mut reader);
    let (tree, _) = stream_tree(full, options).map_err(Rejection::Archive)?;
    Ok(ReceivedArchive {
        tree,
        body: reader.hash.into(),
    })
}

/// Compares the received content with the expected digest and with the claims, and stores it only if all of them
/// match.
pub(super) fn pack_and_store(
    store: &Store,
    demand: RequiredHeaders,
    expected: Option<Digest>,
    claims: &DeclaredUpload,
    archive: ReceivedArchive,
) -> Result<StoredUpload, Rejection> {
    let ReceivedArchive { tree, body } = archive;
    compare(demand, BODY_DIGEST, claims.body, &body)?;
    let has_claims =
        demand == RequiredHeaders::Claims || (claims.content, claims.size) != (None, None);
    let tree = if has_claims {
        tree
    } else {
        tree.strip_top_folder()
    };
    let skipped = tree.ensure_regular().map_err(Rejection::Archive)?;
    if tree.is_empty() {
        return Err(Rejection::Empty);
    }
    let mut size = Count(0);
    let digest = tree.write_tar(&mut size).map_err(Rejection::Archive)?;
    if let Some(expected) = expected.filter(|expected| *expected != digest) {
        let found = digest;
        return Err(Rejection::Unexpected { expected, found });
    }
    compare(demand, CONTENT_DIGEST, claims.content, &digest)?;
    compare(demand, CONTENT_SIZE, claims.size, &size.0)?;
    // The store is queried only after the claims were verified, so that a claim does not reveal whether the store has
    // the content. Existing content is verified, so that a corrupt copy is replaced by the received content.
    let Ok(hold) = store.verified(&digest) else {
        return Ok(StoredUpload {
            stored: store.put(&tree)?,
            skipped,
            already_stored: false,
        });
    };
    Ok(StoredUpload {
        stored: Stored {
            digest,
            size: hold.size(),
            hold,
        },
        skipped,
        already_stored: true,
    })
}

fn compare<T: PartialEq + ToString>(
    demand: RequiredHeaders,
    name: HeaderName,
    claimed: Option<T>,
    found: &T,
) -> Result<(), Rejection> {
    match claimed {
        Some(claimed) if claimed == *found => Ok(()),
        Some(claimed) => Err(Rejection::HeaderMismatch {
            name,
            claimed: claimed.to_string(),
            found: found.to_string(),
        }),
        None if demand == RequiredHeaders::Claims => Err(Rejection::MissingHeader { name }),
        None => Ok(()),
    }
}

/// A writer that only counts bytes.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0 += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
