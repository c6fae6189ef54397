//! Flags of unpack Jobs.

use std::time::Duration;

use clap::Args;
use manifests::api::bundle::Pull;

use super::values;
use crate::settings::{self, Mode};

/// How nodes pull images.
#[derive(Debug, Args)]
#[command(next_help_heading = "Unpack Jobs")]
pub(super) struct Jobs {
    /// Who pulls images of Bundles that do not say (spec.source.image.pull): registry, which is this process, or job, a
    /// Job on a node with its mirrors and credentials
    #[arg(long, value_name = "WHO", value_parser = values::pull, default_value = "registry")]
    image_pull: Pull,

    /// The image of unpack Jobs, with the program /unpack, and of the init container of every catalog's own pod, with
    /// /provisioner; the provisioner's own has both
    #[arg(
        long,
        value_name = "IMAGE",
        value_parser = values::image,
        default_value_t = settings::Jobs::default().image
    )]
    unpack_image: String,

    /// How unpack Jobs get to see an image: image-volume, so that nothing of it runs, init-container, where clusters have
    /// no image volumes, or auto, by the version of the cluster (image volumes since 1.35)
    #[arg(long, value_name = "MODE", value_parser = values::mode, default_value = "auto")]
    unpack_mode: Mode,

    /// How long an unpack Job may take, pulling the image included
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = |text: &str| values::duration(text, 10, 86_400),
        default_value = "10m"
    )]
    unpack_deadline: Duration,
}

impl Jobs {
    pub(super) fn settings(self) -> settings::Jobs {
        let Self {
            image_pull,
            unpack_image,
            unpack_mode,
            unpack_deadline,
        } = self;
        settings::Jobs {
            pull: image_pull,
            image: unpack_image,
            mode: unpack_mode,
            deadline: unpack_deadline,
        }
    }
}
