//! The content service, in this process, against a control plane of its own: there is no Bundle controller that would
//! have a say about these Bundles, and no garbage collector.

mod bundles;
mod kept;
mod permissions;
pub(crate) mod site;
mod tls;
mod uploads;
