//! Why bundles and an index make no catalog.

use super::Form;
use crate::{
    render::{self, Unwritable},
    source,
};

/// Why there is no catalog.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to inject.
    #[error("there is no bundle to inject; name one")]
    Nothing,
    /// The package's name.
    #[error(
        "invalid package name {name:?}: {problem}; correct the bundle's metadata/annotations.yaml"
    )]
    Name {
        /// The name.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A bundle is of something else.
    #[error(
        "bundle {bundle:?} ({image}) belongs to package {found:?} and not to {package:?}; name a bundle of that package"
    )]
    Package {
        /// The bundle.
        bundle: String,
        /// Its image.
        image: String,
        /// Its package.
        found: String,
        /// That of the others.
        package: String,
    },
    /// Two of the bundles have one name.
    #[error(
        "bundle {name:?} is there twice, as {first} and as {second}; give the newer one another version and another name"
    )]
    Twice {
        /// The name.
        name: String,
        /// The image that comes first.
        first: String,
        /// The other one.
        second: String,
    },
    /// The index has a bundle of that name; in operator-sdk's words.
    #[error("bundle {bundle:?} already exists in the {}; give it another version and another name, or name \
         another index", in_index(*form, index))]
    BundleExists {
        /// The bundle.
        bundle: String,
        /// The index.
        index: String,
        /// What is being done.
        form: Form,
    },
    /// The index has the channel already; in operator-sdk's words.
    #[error(
        "channel {channel:?} already exists in the index image: {index}; name another index, or upgrade what is \
         installed from that channel"
    )]
    ChannelExists {
        /// The channel.
        channel: String,
        /// The index.
        index: String,
    },
    /// Every entry of the channel is replaced by another.
    #[error(
        "no channel head found: in channel {channel:?} of package {package:?} every entry is replaced by another one; \
         correct the index"
    )]
    NoHead {
        /// The channel.
        channel: String,
        /// The package.
        package: String,
    },
    /// It is not known which entry is upgraded from.
    #[error(
        "multiple channel heads found in channel {channel:?} of package {package:?}: {heads}; correct the index, so \
         that only one of them is replaced by none"
    )]
    SeveralHeads {
        /// The channel.
        channel: String,
        /// The package.
        package: String,
        /// Sorted.
        heads: String,
    },
    /// The result is no catalog, in opm's words.
    #[error("{0}; correct the bundle, or the index")]
    Invalid(String),
    /// The result is too large.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A bundle cannot be rendered.
    #[error(transparent)]
    Render(#[from] render::Error),
    /// A document of the result cannot be written.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
}

/// As the two commands of operator-sdk say it.
fn in_index(form: Form, index: &str) -> String {
    match form {
        Form::Run => format!("index image: {index}"),
        Form::Upgrade => format!("Index Image {index:?}"),
    }
}
