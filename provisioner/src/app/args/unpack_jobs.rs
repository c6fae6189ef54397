//! Flags of unpack Jobs.

use std::time::Duration;

use clap::Args;
use manifests::api::bundle::PullMode;

use super::values;
use crate::runtime::settings::{self, UnpackMode};

/// Flags of unpack Jobs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Unpack Jobs")]
pub(super) struct UnpackJobArgs {
    /// Component that pulls images of Bundles without spec.source.image.pull: registry (this process), or job (a Job on a
    /// node, with its mirrors and credentials)
    #[arg(long, value_name = "WHO", value_parser = values::pull, default_value = "registry")]
    image_pull: PullMode,

    /// Image of unpack Jobs, with the program /unpack, and of the init container of registry pods, with /provisioner; the
    /// image of the provisioner has both
    #[arg(
        long,
        value_name = "IMAGE",
        value_parser = values::image,
        default_value_t = settings::UnpackJobs::default().image
    )]
    unpack_image: String,

    /// Access of unpack Jobs to an image: image-volume (no program of the image runs), init-container (for clusters without
    /// image volumes), or auto (by cluster version: image volumes since 1.35)
    #[arg(long, value_name = "MODE", value_parser = values::mode, default_value = "auto")]
    unpack_mode: UnpackMode,

    /// Timeout of an unpack Job, including the pull of the image
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = |text: &str| values::duration(text, 10, 86_400),
        default_value = "10m"
    )]
    unpack_deadline: Duration,
}

impl UnpackJobArgs {
    pub(super) fn settings(self) -> settings::UnpackJobs {
        let Self {
            image_pull,
            unpack_image,
            unpack_mode,
            unpack_deadline,
        } = self;
        settings::UnpackJobs {
            pull: image_pull,
            image: unpack_image,
            mode: unpack_mode,
            deadline: unpack_deadline,
        }
    }
}
