//! What comes in is checked here, where reading may block.

use std::io::{self, Read, Write};

use bytes::{Buf as _, Bytes};
use http::HeaderName;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::{BODY_DIGEST, CONTENT_DIGEST, CONTENT_SIZE, Claims, Demand, Received, Refusal};
use crate::{Digest, Error, Options, Store, Tree, block::fill, store::Stored, stream_tree};

/// A part of a body.
pub(super) enum Part {
    Bytes(Bytes),
    /// So that a body that was given up is not taken for one that came to its end.
    End,
}

/// The body, for a reader that blocks.
pub(super) struct Inlet {
    parts: mpsc::Receiver<Part>,
    part: Bytes,
    ended: bool,
    hash: Sha256,
}

impl Inlet {
    pub(super) fn new(parts: mpsc::Receiver<Part>) -> Self {
        Self {
            parts,
            part: Bytes::new(),
            ended: false,
            hash: Sha256::new(),
        }
    }
}

impl Read for Inlet {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() && !self.ended && !buffer.is_empty() {
            match self.parts.blocking_recv() {
                Some(Part::Bytes(part)) => {
                    self.hash.update(&part);
                    self.part = part;
                }
                Some(Part::End) => self.ended = true,
                None => return Err(io::Error::other("the upload was given up")),
            }
        }
        let count = self.part.len().min(buffer.len());
        if let Some(buffer) = buffer.get_mut(..count) {
            self.part.copy_to_slice(buffer);
        }
        Ok(count)
    }
}

/// A body that has been read to its end.
pub(super) struct Taken {
    tree: Tree,
    body: Digest,
}

pub(super) fn read(mut inlet: Inlet, options: &Options) -> Result<Taken, Refusal> {
    let failed = |source| {
        let path = "upload".to_owned();
        Refusal::Archive(Error::Read { path, source })
    };
    let mut magic = [0; 2];
    let count = fill(&mut inlet, &mut magic).map_err(failed)?;
    if count == 0 {
        return Err(Refusal::Archive(Error::Empty));
    }
    if magic != [0x1f, 0x8b] {
        return Err(Refusal::NotGzip);
    }
    let whole = Read::chain(magic.as_slice(), &mut inlet);
    let (tree, _) = stream_tree(whole, options).map_err(Refusal::Archive)?;
    Ok(Taken {
        tree,
        body: inlet.hash.into(),
    })
}

/// Compares the received content with the expected digest and with the claims, and stores it only if all of them agree.
pub(super) fn keep(
    store: &Store,
    demand: Demand,
    expected: Option<Digest>,
    claims: &Claims,
    taken: Taken,
) -> Result<Received, Refusal> {
    let Taken { tree, body } = taken;
    compare(demand, BODY_DIGEST, claims.body, &body)?;
    let has_claims = demand == Demand::Claims || (claims.content, claims.size) != (None, None);
    let tree = if has_claims {
        tree
    } else {
        tree.strip_top_folder()
    };
    let skipped = tree.ensure_regular().map_err(Refusal::Archive)?;
    if tree.is_empty() {
        return Err(Refusal::Empty);
    }
    let mut size = Count(0);
    let digest = tree.write_tar(&mut size).map_err(Refusal::Archive)?;
    if let Some(expected) = expected.filter(|expected| *expected != digest) {
        let found = digest;
        return Err(Refusal::Unexpected { expected, found });
    }
    compare(demand, CONTENT_DIGEST, claims.content, &digest)?;
    compare(demand, CONTENT_SIZE, claims.size, &size.0)?;
    // Not asked before the claims are known to be right: nobody learns what is here by claiming it. What is here is
    // read again: who has just sent the right bytes must not be sent away for the sake of damaged ones.
    let Ok(hold) = store.verified(&digest) else {
        return Ok(Received {
            stored: store.put(&tree)?,
            skipped,
            known: false,
        });
    };
    Ok(Received {
        stored: Stored {
            digest,
            size: hold.size(),
            hold,
        },
        skipped,
        known: true,
    })
}

fn compare<T: PartialEq + ToString>(
    demand: Demand,
    name: HeaderName,
    claimed: Option<T>,
    found: &T,
) -> Result<(), Refusal> {
    match claimed {
        Some(claimed) if claimed == *found => Ok(()),
        Some(claimed) => Err(Refusal::WrongClaim {
            name,
            claimed: claimed.to_string(),
            found: found.to_string(),
        }),
        None if demand == Demand::Claims => Err(Refusal::NoClaim { name }),
        None => Ok(()),
    }
}

/// Counts what would be written.
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
