//! Errors of composing a catalog from an index and bundles.

use super::ComposeMode;
use crate::{
    render::{self, WriteError},
    source,
};

/// Reasons why a catalog cannot be composed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The list of bundles is empty.
    #[error("no bundle to inject; specify a bundle")]
    NoBundles,
    /// The package name is invalid.
    #[error(
        "invalid package name {name:?}: {problem}; correct the bundle's metadata/annotations.yaml"
    )]
    Name {
        /// Name of the package.
        name: String,
        /// Description of the problem.
        problem: &'static str,
    },
    /// A bundle belongs to another package.
    #[error(
        "bundle {bundle:?} ({image}) belongs to package {found:?} and not to {package:?}; use a bundle of that package"
    )]
    Package {
        /// Name of the bundle.
        bundle: String,
        /// Image of the bundle.
        image: String,
        /// Package of the bundle.
        found: String,
        /// Package of the other bundles.
        package: String,
    },
    /// Two bundles have the same name.
    #[error(
        "bundle {name:?} exists twice, as {first} and as {second}; change the version and name of the newer one"
    )]
    DuplicateBundle {
        /// Name of the bundles.
        name: String,
        /// Image of the first bundle.
        first: String,
        /// Image of the second bundle.
        second: String,
    },
    /// The index already contains a bundle of that name. The message is that of operator-sdk.
    #[error("bundle {bundle:?} already exists in the {}; change its version and name, or use another index", in_index(*form, index))]
    BundleExists {
        /// Name of the bundle.
        bundle: String,
        /// Name of the index.
        index: String,
        /// Command that composes the catalog.
        form: ComposeMode,
    },
    /// The index already contains the channel. The message is that of operator-sdk.
    #[error(
        "channel {channel:?} already exists in the index image: {index}; use another index, or upgrade the bundle that is \
         installed from that channel"
    )]
    ChannelExists {
        /// Name of the channel.
        channel: String,
        /// Name of the index.
        index: String,
    },
    /// Every entry of the channel is replaced by another one.
    #[error(
        "no channel head found: in channel {channel:?} of package {package:?} every entry is replaced by another one; \
         correct the index"
    )]
    NoHead {
        /// Name of the channel.
        channel: String,
        /// Name of the package.
        package: String,
    },
    /// The channel has several heads, so the entry to upgrade is ambiguous.
    #[error(
        "multiple channel heads found in channel {channel:?} of package {package:?}: {heads}; correct the index so that the \
         channel has exactly one head"
    )]
    SeveralHeads {
        /// Name of the channel.
        channel: String,
        /// Name of the package.
        package: String,
        /// Names of the heads, sorted.
        heads: String,
    },
    /// The result is not a valid catalog. The message is that of opm.
    #[error("{0}; correct the bundle, or the index")]
    Invalid(String),
    /// The result exceeds a limit.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A bundle cannot be rendered.
    #[error(transparent)]
    Render(#[from] render::Error),
    /// A document of the result cannot be written.
    #[error(transparent)]
    Unwritable(#[from] WriteError),
}

/// Formats the index as the corresponding command of operator-sdk does.
fn in_index(form: ComposeMode, index: &str) -> String {
    match form {
        ComposeMode::Run => format!("index image: {index}"),
        ComposeMode::Upgrade => format!("Index Image {index:?}"),
    }
}
