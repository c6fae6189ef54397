//! What flags may say.

use std::{fs::File, io::Read as _, path::PathBuf, time::Duration};

use clap::ValueEnum;
use jiff::SignedDuration;
use manifests::{api::bundle::Pull, image::Reference};
use unpacker::{access::Trust, registry::Mirrors, web};
use url::Url;

use crate::{
    process::{Error, log},
    settings::{CatalogServer, Mode},
};

/// Certificates of all authorities there are come to some hundred kilobytes.
const MAX_AUTHORITIES: u64 = 4 << 20;
/// More than a list of mirrors may have.
const MAX_MIRRORS: u64 = 2 << 20;

/// Which controllers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "any of them may run without the others"
)]
pub(in crate::process) struct Controllers {
    /// That of Bundles.
    pub(in crate::process) bundle: bool,
    /// That of BundleInstances.
    pub(in crate::process) instance: bool,
    /// That of PlatformOperators, and the catalogs.
    pub(in crate::process) platform: bool,
    /// What tells of all of these, and whether the cluster may be upgraded.
    pub(in crate::process) aggregator: bool,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::process) enum LogFormat {
    /// For machines, one object a line.
    Json,
    /// For people.
    Text,
}

/// Who serves catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Server {
    Auto,
    Own,
    Olm,
}

impl From<Server> for CatalogServer {
    fn from(server: Server) -> Self {
        match server {
            Server::Auto => Self::Auto,
            Server::Own => Self::Own,
            Server::Olm => Self::Olm,
        }
    }
}

pub(super) fn controllers(text: &str) -> Result<Controllers, String> {
    let mut controllers = Controllers {
        bundle: false,
        instance: false,
        platform: false,
        aggregator: false,
    };
    if text == "none" {
        return Ok(controllers);
    }
    for name in text.split(',') {
        match name.trim() {
            "bundle" => controllers.bundle = true,
            "instance" => controllers.instance = true,
            "platform" => controllers.platform = true,
            "aggregator" => controllers.aggregator = true,
            other => {
                return Err(format!(
                    "there is no controller {other:?}; write some of bundle, instance, platform and aggregator, with commas between them, or none"
                ));
            }
        }
    }
    Ok(controllers)
}

pub(super) fn duration(text: &str, least: u64, most: u64) -> Result<Duration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    let parsed = parsed
        .ok()
        .and_then(|parsed| Duration::try_from(parsed).ok());
    let parsed = parsed.ok_or("write a duration such as 15s, 10m or 1h")?;
    if (Duration::from_secs(least)..=Duration::from_secs(most)).contains(&parsed) {
        Ok(parsed)
    } else {
        Err(format!("choose from {least}s to {most}s"))
    }
}

pub(super) fn size(text: &str, least: u64) -> Result<u64, String> {
    let size = manifests::size::bytes(text)?;
    if size < least {
        return Err(format!("choose {least} bytes or more"));
    }
    Ok(size)
}

/// Of which namespaces catalogs count.
pub(super) fn catalog_namespaces(given: Option<Vec<String>>, system: &str) -> Vec<String> {
    let Some(mut given) = given else {
        // No tenant of OpenShift can have a namespace of such a name.
        let mut usual = vec![system.to_owned(), "openshift-marketplace".to_owned()];
        usual.dedup();
        return usual;
    };
    if given == ["none"] {
        return Vec::new();
    }
    let mut seen = std::collections::BTreeSet::new();
    given.retain(|namespace| seen.insert(namespace.clone()));
    given
}

/// A name of a namespace.
pub(super) fn label(text: &str) -> Result<String, &'static str> {
    if is_label(text, 63) {
        Ok(text.to_owned())
    } else {
        Err(
            "write a name of at most 63 small letters, digits and dashes, with none of these at an end",
        )
    }
}

/// A name of most other objects.
pub(super) fn subdomain(text: &str) -> Result<String, &'static str> {
    if text.len() <= 253 && text.split('.').all(|part| is_label(part, 253)) {
        Ok(text.to_owned())
    } else {
        Err("write a name of at most 253 small letters, digits, dashes and dots")
    }
}

fn is_label(text: &str, most: usize) -> bool {
    let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= most
        && text.starts_with(small)
        && text.ends_with(small)
        && text.chars().all(|c| small(c) || c == '-')
}

pub(super) fn optional_kind(text: &str) -> Result<String, String> {
    let is_kind = |kind: &str| {
        kind.starts_with(|c: char| c.is_ascii_uppercase())
            && kind.chars().all(|c| c.is_ascii_alphanumeric())
    };
    match text.split_once('.') {
        Some((kind, group)) if is_kind(kind) && subdomain(group).is_ok() => Ok(text.to_owned()),
        _ => Err("write Kind.group, such as ServiceMonitor.monitoring.coreos.com".to_owned()),
    }
}

/// Who pulls images.
pub(super) fn pull(text: &str) -> Result<Pull, &'static str> {
    match text {
        "registry" => Ok(Pull::Registry),
        "job" => Ok(Pull::Job),
        _ => Err("write registry or job"),
    }
}

/// How an unpack Job gets to see an image.
pub(super) fn mode(text: &str) -> Result<Mode, &'static str> {
    match text {
        "auto" => Ok(Mode::Auto),
        "image-volume" => Ok(Mode::ImageVolume),
        "init-container" => Ok(Mode::InitContainer),
        _ => Err("write auto, image-volume or init-container"),
    }
}

/// An image, as people write it.
pub(super) fn image(text: &str) -> Result<String, String> {
    let reference: Reference = text.parse().map_err(|error| format!("{error}"))?;
    drop(reference);
    Ok(text.to_owned())
}

/// An address to be continued by `/bundles/…`.
pub(super) fn external_address(text: &str) -> Result<String, String> {
    let problem = "write https://HOST or https://HOST:PORT, with or without a path";
    let url: Url = text
        .parse()
        .map_err(|error| format!("{error}; {problem}"))?;
    let is_plain = matches!(url.scheme(), "https" | "http")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if is_plain {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err(problem.to_owned())
    }
}

pub(super) fn log_level(text: &str) -> Result<String, String> {
    log::filter(text)?;
    Ok(text.to_owned())
}

/// The mirrors of a file.
pub(super) fn mirrors(path: PathBuf) -> Result<Mirrors, Error> {
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| file.take(MAX_MIRRORS).read_to_string(&mut text));
    if let Err(source) = read {
        return Err(Error::Read { path, source });
    }
    Mirrors::from_registries_conf(&text).map_err(|source| Error::Mirrors { path, source })
}

/// All certificates of these files, one behind the other.
pub(super) fn authorities(files: &[PathBuf]) -> Result<String, Error> {
    let mut all = String::new();
    for path in files {
        let failed = |source| Error::Read {
            path: path.clone(),
            source,
        };
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        let mut file = file.take(MAX_AUTHORITIES);
        file.read_to_string(&mut text).map_err(failed)?;
        let trust = Trust {
            roots: text.clone(),
            ..Trust::default()
        };
        let understood = web::Client::new(&trust, &web::Patience::default());
        understood.map_err(|source| Error::Authorities {
            path: path.clone(),
            source,
        })?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            return Err(Error::NoAuthorities(path.clone()));
        }
        all.push_str(&text);
        all.push('\n');
    }
    Ok(all)
}
