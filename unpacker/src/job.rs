//! Client of the unpack Job: uploads a directory of its container to the content service, in the format of
//! [`transfer`](crate::transfer). No file is held in memory.
//!
//! ```
//! use unpacker::{Options, Selection, job::Payload};
//!
//! let directory = tempfile::tempdir()?;
//! std::fs::create_dir(directory.path().join("manifests"))?;
//! std::fs::write(directory.path().join("manifests/csv.yaml"), "kind: ClusterServiceVersion")?;
//! let options = Options { select: Selection::Only(vec!["manifests".to_owned()]), ..Options::default() };
//! let payload = Payload::new(directory.path(), &options)?;
//! let mut archive = Vec::new();
//! let packed = payload.write(&mut archive)?;
//! let unpacked = unpacker::stream(archive.as_slice(), &Options::default())?;
//! assert_eq!(packed.digest, unpacker::pack(&unpacked.content, unpacker::Format::Tar, std::io::sink())?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod connect;
mod error;
mod install;
mod payload;
mod send;
mod upload;

pub use address::Address;
pub use error::Error;
pub use install::install;
pub use payload::{Packed, Payload};
pub use send::{Receiver, SendReport, send};
