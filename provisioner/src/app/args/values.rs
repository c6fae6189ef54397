//! Parsers of flag values.

use std::{fs::File, io::Read as _, path::PathBuf, time::Duration};

use clap::ValueEnum;
use manifests::{api::bundle::PullMode, duration::nanoseconds, image::Reference};
use unpacker::{access::Trust, http_client, registry::Mirrors};
use url::Url;

use crate::{
    app::Error,
    runtime::{
        log,
        settings::{CatalogServer, UnpackMode},
    },
};

/// Value of a list flag that stands for an empty list.
pub(super) const NONE: &str = "none";
/// Maximum size of a CA file in bytes. The certificates of all public CAs have some hundred kilobytes.
const MAX_CA_FILE_SIZE: u64 = 4 << 20;
/// Maximum size of a file with mirrors in bytes.
const MAX_MIRRORS_FILE_SIZE: u64 = 2 << 20;

/// Controllers that run in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "any of them may run without the others"
)]
pub(in crate::app) struct Controllers {
    /// Controller of Bundles.
    pub(in crate::app) bundle: bool,
    /// Controller of BundleInstances.
    pub(in crate::app) instance: bool,
    /// Controller of PlatformOperators, and the catalogs.
    pub(in crate::app) platform: bool,
    /// ClusterOperator controller, which also decides whether the cluster may be upgraded.
    pub(in crate::app) aggregator: bool,
}

/// Component that serves catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CatalogServerArg {
    Auto,
    Own,
    Olm,
}

impl From<CatalogServerArg> for CatalogServer {
    fn from(server: CatalogServerArg) -> Self {
        match server {
            CatalogServerArg::Auto => Self::Auto,
            CatalogServerArg::Own => Self::Own,
            CatalogServerArg::Olm => Self::Olm,
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
    if text == NONE {
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
                    "unknown controller {other:?}; use a comma-separated list of bundle, instance, platform and \
                     aggregator, or none"
                ));
            }
        }
    }
    Ok(controllers)
}

pub(super) fn duration(text: &str, min: u64, max: u64) -> Result<Duration, String> {
    let nanos = nanoseconds(text)
        .ok()
        .and_then(|nanos| u64::try_from(nanos).ok());
    let nanos = nanos.ok_or("use a duration such as 15s, 10m or 1h")?;
    let parsed = Duration::from_nanos(nanos);
    if (Duration::from_secs(min)..=Duration::from_secs(max)).contains(&parsed) {
        Ok(parsed)
    } else {
        Err(format!("use a duration from {min}s to {max}s"))
    }
}

pub(super) fn size(text: &str, min: u64) -> Result<u64, String> {
    let size = manifests::byte_size::bytes(text)?;
    if size < min {
        return Err(format!("use {min} bytes or more"));
    }
    Ok(size)
}

/// Returns the namespaces whose catalogs are available to platform operators.
pub(super) fn catalog_namespaces(requested: Option<Vec<String>>, system: &str) -> Vec<String> {
    let Some(mut requested) = requested else {
        // OpenShift tenants cannot create namespaces with such names.
        let mut defaults = vec![system.to_owned(), "openshift-marketplace".to_owned()];
        defaults.dedup();
        return defaults;
    };
    if requested == [NONE] {
        return Vec::new();
    }
    let mut unique = std::collections::BTreeSet::new();
    requested.retain(|namespace| unique.insert(namespace.clone()));
    requested
}

/// Parses the name of a namespace.
pub(super) fn label(text: &str) -> Result<String, &'static str> {
    if is_label(text, 63) {
        Ok(text.to_owned())
    } else {
        Err(
            "use a name of at most 63 lower-case letters, digits and dashes that starts and ends with a letter or \
             digit",
        )
    }
}

/// Parses the name of most other objects.
pub(super) fn subdomain(text: &str) -> Result<String, &'static str> {
    if text.len() <= 253 && text.split('.').all(|part| is_label(part, 253)) {
        Ok(text.to_owned())
    } else {
        Err("use a name of at most 253 lower-case letters, digits, dashes and dots")
    }
}

fn is_label(text: &str, max: usize) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= max
        && text.starts_with(is_alphanumeric)
        && text.ends_with(is_alphanumeric)
        && text.chars().all(|c| is_alphanumeric(c) || c == '-')
}

pub(super) fn optional_kind(text: &str) -> Result<String, String> {
    let is_kind = |kind: &str| {
        kind.starts_with(|c: char| c.is_ascii_uppercase())
            && kind.chars().all(|c| c.is_ascii_alphanumeric())
    };
    match text.split_once('.') {
        Some((kind, group)) if is_kind(kind) && subdomain(group).is_ok() => Ok(text.to_owned()),
        _ => Err("use Kind.group, such as ServiceMonitor.monitoring.coreos.com".to_owned()),
    }
}

/// Parses the component that pulls images.
pub(super) fn pull(text: &str) -> Result<PullMode, &'static str> {
    match text {
        "registry" => Ok(PullMode::Registry),
        "job" => Ok(PullMode::Job),
        _ => Err("use registry or job"),
    }
}

/// Parses how an unpack Job accesses an image.
pub(super) fn mode(text: &str) -> Result<UnpackMode, &'static str> {
    match text {
        "auto" => Ok(UnpackMode::Auto),
        "image-volume" => Ok(UnpackMode::ImageVolume),
        "init-container" => Ok(UnpackMode::InitContainer),
        _ => Err("use auto, image-volume or init-container"),
    }
}

/// Parses an image reference.
pub(super) fn image(text: &str) -> Result<String, String> {
    let reference: Reference = text.parse().map_err(|error| format!("{error}"))?;
    drop(reference);
    Ok(text.to_owned())
}

/// Parses an address that a path such as `/bundles/…` is appended to.
pub(super) fn external_address(text: &str) -> Result<String, String> {
    let problem = "use https://HOST or https://HOST:PORT, with or without a path";
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

/// Reads the mirrors of a file.
pub(super) fn mirrors(path: PathBuf) -> Result<Mirrors, Error> {
    let mut text = String::new();
    let read = File::open(&path)
        .and_then(|file| file.take(MAX_MIRRORS_FILE_SIZE).read_to_string(&mut text));
    if let Err(source) = read {
        return Err(Error::Read { path, source });
    }
    Mirrors::from_registries_conf(&text).map_err(|source| Error::Mirrors { path, source })
}

/// Reads the certificates of all files, concatenated.
pub(super) fn ca_certificates(files: &[PathBuf]) -> Result<String, Error> {
    let mut certificates = String::new();
    for path in files {
        let failed = |source| Error::Read {
            path: path.clone(),
            source,
        };
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        let mut file = file.take(MAX_CA_FILE_SIZE);
        file.read_to_string(&mut text).map_err(failed)?;
        let trust = Trust {
            roots: text.clone(),
            ..Trust::default()
        };
        let client = http_client::Client::new(&trust, &http_client::Timeouts::default());
        client.map_err(|source| Error::Authorities {
            path: path.clone(),
            source,
        })?;
        if !text.contains("-----BEGIN CERTIFICATE-----") {
            return Err(Error::NoAuthorities(path.clone()));
        }
        certificates.push_str(&text);
        certificates.push('\n');
    }
    Ok(certificates)
}
