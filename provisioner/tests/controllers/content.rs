//! The content service, in this process, with a separate control plane: no Bundle controller acts on these Bundles, and
//! no garbage collector runs.

mod bundles;
mod kept;
mod permissions;
pub(crate) mod site;
mod tls;
mod uploads;
