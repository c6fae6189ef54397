//! `metadata/annotations.yaml`: the package and its channels.

use std::collections::BTreeSet;

use manifests::{names, path::Path};

use crate::{
    bundle::metadata::{Metadata, keys},
    finding::{Findings, Location, code::Code},
};

pub(super) fn run(metadata: &Metadata, findings: &mut Findings) {
    if metadata.place.file.is_empty() {
        return;
    }
    required(metadata, findings);
    manifests_folder(metadata, findings);
    package_name(metadata, findings);
    channel_names(metadata, findings);
    repeated_channels(metadata, findings);
    default_channel(metadata, findings);
    channel_convention(metadata, findings);
}

fn place(metadata: &Metadata, key: &str) -> Location {
    let annotations = Path::from(["annotations"]);
    metadata.place.at(&if metadata.annotation(key).is_some() {
        annotations.key(key)
    } else {
        annotations
    })
}

fn required(metadata: &Metadata, findings: &mut Findings) {
    for (key, default) in [
        (keys::MANIFESTS, "manifests/"),
        (keys::METADATA, "metadata/"),
        (keys::CHANNELS, "stable"),
    ] {
        let problem = match metadata.annotation(key) {
            None => "is missing",
            Some("") => "has no value",
            Some(_) => continue,
        };
        findings.warn(
            Code::BundleAnnotation,
            place(metadata, key),
            format!("annotation {key:?} {problem}; opm rejects the bundle"),
            &format!("set it, usually to \"{default}\""),
        );
    }
}

fn manifests_folder(metadata: &Metadata, findings: &mut Findings) {
    if metadata.manifests_dir != "manifests" {
        findings.warn(
            Code::BundleAnnotation,
            place(metadata, keys::MANIFESTS),
            format!(
                "the objects are in {:?}; opm always reads \"manifests\" and ignores the annotation",
                metadata.manifests_dir
            ),
            "rename the directory to \"manifests\"",
        );
    }
}

fn package_name(metadata: &Metadata, findings: &mut Findings) {
    let name = metadata.package();
    if let Some(problem) = names::dns_label(name).err().filter(|_| !name.is_empty()) {
        findings.warn(
            Code::PackageName,
            place(metadata, keys::PACKAGE),
            format!("package name {name:?} is invalid: {problem}; opm rejects catalogs with it"),
            "use lower-case letters, digits and \"-\"",
        );
    }
}

fn channel_names(metadata: &Metadata, findings: &mut Findings) {
    for channel in metadata.channels() {
        if let Err(problem) = names::dns_subdomain(&channel) {
            findings.warn(
                Code::Channel,
                place(metadata, keys::CHANNELS),
                format!(
                    "channel name {channel:?} is invalid: {problem}; OLM v1 cannot install from it"
                ),
                "use lower-case letters, digits, \"-\" and \".\"",
            );
        }
    }
}

fn repeated_channels(metadata: &Metadata, findings: &mut Findings) {
    let mut unique = BTreeSet::new();
    for channel in metadata.channels() {
        if !unique.insert(channel.clone()) {
            let message = format!("channel {channel:?} is listed twice");
            findings.warn(
                Code::Channel,
                place(metadata, keys::CHANNELS),
                message,
                "list each channel once",
            );
        }
    }
}

fn default_channel(metadata: &Metadata, findings: &mut Findings) {
    let channels = metadata.channels();
    let message = match metadata.annotation(keys::DEFAULT_CHANNEL) {
        None if channels.len() > 1 => {
            format!(
                "the bundle is in {} channels and has no default channel",
                channels.len()
            )
        }
        Some("") => format!(
            "annotation {:?} has no value; opm rejects the bundle",
            keys::DEFAULT_CHANNEL
        ),
        Some(default)
            if !channels.is_empty()
                && !channels.iter().any(|channel| channel == default.trim()) =>
        {
            format!(
                "default channel {default:?} is not among the bundle's channels: {}",
                channels.join(", ")
            )
        }
        _ => return,
    };
    findings.warn(
        Code::Channel,
        place(metadata, keys::DEFAULT_CHANNEL),
        message,
        &format!("set {} to one of the channels", keys::DEFAULT_CHANNEL),
    );
}

fn channel_convention(metadata: &Metadata, findings: &mut Findings) {
    let is_conventional = |channel: &String| {
        ["candidate", "fast", "stable"]
            .iter()
            .any(|prefix| channel.starts_with(prefix))
    };
    let others: Vec<String> = metadata
        .channels()
        .into_iter()
        .filter(|channel| !is_conventional(channel))
        .collect();
    if !others.is_empty() {
        findings.warn(
            Code::ChannelName,
            place(metadata, keys::CHANNELS),
            format!(
                "channel names do not follow the convention: {}",
                others.join(", ")
            ),
            "start the name with candidate, fast or stable, which users recognize",
        );
    }
}
