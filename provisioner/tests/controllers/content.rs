//! The content service, in this process, with a separate control plane: no Bundle controller acts on these Bundles, and
//! no garbage collector runs.

mod bundles;
pub(crate) mod support;
mod tls;
mod upload_storage;
mod uploads;
