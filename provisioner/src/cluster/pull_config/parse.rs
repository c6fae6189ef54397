//! Parses the cluster's objects into the pull configuration.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use kube::{ResourceExt as _, core::DynamicObject};
use manifests::api::pulling::{
    CA_BUNDLE, ImageContentSourcePolicySpec, ImageDigestMirrorSetSpec, ImageSpec,
    ImageTagMirrorSetSpec, MirrorSet, ProxySpec, ProxyStatus,
};
use serde::de::DeserializeOwned;
use unpacker::{
    Access,
    access::Trust,
    http_client::{Client, Proxies, Timeouts},
    registry::{Credentials, Mirrors, mirrors::Pull},
};

use super::{
    ConfigProblem, Source,
    mirrors::{self, SetEntry},
};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Pull configuration of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullSettings {
    /// Mirrors of registries, and rules for permitted images.
    pub mirrors: Mirrors,
    /// CA certificates in PEM that are trusted for all servers.
    pub roots: String,
    /// CA certificates in PEM that are trusted for one registry, by registry.
    pub cas: BTreeMap<String, String>,
    /// Proxies of the cluster, if any.
    pub proxies: Option<Proxies>,
    /// Pull credentials of the nodes.
    pub credentials: Credentials,
}

/// Latest objects of each source. A source whose objects are unknown is missing.
pub(super) type Objects = BTreeMap<Source, Vec<DynamicObject>>;

impl PullSettings {
    /// Adds the cluster's settings to those from flags, which take precedence.
    pub fn add_to(&self, mut access: Access) -> Access {
        access.mirrors = [access.mirrors, self.mirrors.clone()].into_iter().collect();
        access.registries = [access.registries, self.credentials.clone()]
            .into_iter()
            .collect();
        if !self.roots.is_empty() {
            access.trust.roots.push('\n');
            access.trust.roots.push_str(&self.roots);
        }
        for (registry, roots) in &self.cas {
            let trusted = access.cas.entry(registry.clone()).or_default();
            trusted.push('\n');
            trusted.push_str(roots);
        }
        access.proxies = access.proxies.or_else(|| self.proxies.clone());
        access
    }

    /// Parses the objects. Invalid parts are ignored and returned as problems.
    pub(super) fn read(objects: &Objects) -> (Self, Vec<ConfigProblem>) {
        let mut problems = Vec::new();
        let (mirrors, mirror_problems) = mirrors_of(objects, &mut problems);
        problems.extend(mirror_problems);
        let proxy = one(objects, Source::Proxy);
        let status: Option<ProxyStatus> =
            proxy.and_then(|proxy| part(proxy, "status", Source::Proxy, &mut problems));
        let proxies = status.map(|status| {
            let ProxyStatus {
                http_proxy,
                https_proxy,
                no_proxy,
            } = status;
            Proxies::of_cluster(&http_proxy, &https_proxy, &no_proxy)
        });
        let configuration = Self {
            mirrors,
            roots: roots(objects, &mut problems),
            cas: cas(objects, &mut problems),
            proxies: proxies.filter(Proxies::names_any),
            credentials: credentials(objects, &mut problems),
        };
        (configuration, problems)
    }
}

/// Returns the name of the ConfigMap with CA certificates that an object references.
pub(super) fn named(objects: &Objects, source: Source) -> Option<String> {
    let mut problems = Vec::new();
    let name = match source {
        Source::ImageAuthorities => {
            let image = one(objects, Source::Image)?;
            let spec: ImageSpec = part(image, "spec", source, &mut problems)?;
            spec.additional_trusted_ca.name
        }
        Source::ProxyAuthorities => {
            let proxy = one(objects, Source::Proxy)?;
            let spec: ProxySpec = part(proxy, "spec", source, &mut problems)?;
            spec.trusted_ca.name
        }
        _ => return None,
    };
    (!name.is_empty()).then_some(name)
}

fn mirrors_of(
    objects: &Objects,
    problems: &mut Vec<ConfigProblem>,
) -> (Mirrors, Vec<ConfigProblem>) {
    let mut sets: Vec<(Source, String, Pull, Vec<MirrorSet>)> = Vec::new();
    // The older policies come first, because they existed before.
    for source in [
        Source::ImageContentSourcePolicy,
        Source::ImageDigestMirrorSet,
        Source::ImageTagMirrorSet,
    ] {
        for object in objects.get(&source).into_iter().flatten() {
            let (pull, entries) = match source {
                Source::ImageTagMirrorSet => (
                    Pull::Tags,
                    part(object, "spec", source, problems)
                        .map(|spec: ImageTagMirrorSetSpec| spec.image_tag_mirrors),
                ),
                Source::ImageDigestMirrorSet => (
                    Pull::Digests,
                    part(object, "spec", source, problems)
                        .map(|spec: ImageDigestMirrorSetSpec| spec.image_digest_mirrors),
                ),
                _ => (
                    Pull::Digests,
                    part(object, "spec", source, problems)
                        .map(|spec: ImageContentSourcePolicySpec| spec.repository_digest_mirrors),
                ),
            };
            sets.extend(entries.map(|entries| (source, object.name_any(), pull, entries)));
        }
    }
    let sets: Vec<SetEntry<'_>> = sets
        .iter()
        .flat_map(|(source, object, pull, sets)| {
            sets.iter().map(|set| SetEntry {
                source: *source,
                object,
                pull: *pull,
                entry: set,
            })
        })
        .collect();
    let image = one(objects, Source::Image);
    let spec = image.and_then(|image| part(image, "spec", Source::Image, problems));
    let spec: ImageSpec = spec.unwrap_or_default();
    mirrors::rules(&sets, &spec.registry_sources)
}

fn one(objects: &Objects, source: Source) -> Option<&DynamicObject> {
    objects.get(&source)?.first()
}

/// Parses the spec or the status of an object. An object without it has no settings.
fn part<T: DeserializeOwned + Default>(
    object: &DynamicObject,
    name: &str,
    source: Source,
    problems: &mut Vec<ConfigProblem>,
) -> Option<T> {
    let part = object.data.get(name)?;
    match T::deserialize(part) {
        Ok(parsed) => Some(parsed),
        Err(error) => {
            let text = format!("{name} is invalid and ignored: {error}; correct it");
            problems.push(ConfigProblem::new(source, &object.name_any(), text));
            None
        }
    }
}

/// Returns the CA certificates that are trusted for all servers.
fn roots(objects: &Objects, problems: &mut Vec<ConfigProblem>) -> String {
    let source = Source::ProxyAuthorities;
    let Some(name) = named(objects, source) else {
        return String::new();
    };
    // The initial list is incomplete or the watch fails, which is reported elsewhere.
    let Some(maps) = objects.get(&source) else {
        return String::new();
    };
    let pem = maps
        .first()
        .and_then(|map| map.data.get("data")?.get(CA_BUNDLE)?.as_str());
    if let Some(pem) = pem {
        return certificates(pem, source, &name, CA_BUNDLE, problems);
    }
    let text = format!(
        "ConfigMap or its key {CA_BUNDLE:?} not found, but the cluster's Proxy references it as trustedCA; create it"
    );
    problems.push(ConfigProblem::new(source, &name, text));
    String::new()
}

/// Returns the CA certificates that are trusted for single registries.
fn cas(objects: &Objects, problems: &mut Vec<ConfigProblem>) -> BTreeMap<String, String> {
    let source = Source::ImageAuthorities;
    let mut cas = BTreeMap::new();
    let (Some(name), Some(maps)) = (named(objects, source), objects.get(&source)) else {
        return cas;
    };
    let Some(map) = maps.first() else {
        let text = "ConfigMap not found, but the cluster's Image references it as additionalTrustedCA; create it";
        problems.push(ConfigProblem::new(source, &name, text));
        return cas;
    };
    let data = map.data.get("data").and_then(|data| data.as_object());
    for (key, pem) in data.into_iter().flatten() {
        let pem = pem.as_str().unwrap_or_default();
        let pem = certificates(pem, source, &name, key, problems);
        if !pem.is_empty() {
            // A ConfigMap key cannot contain the colon before a port.
            cas.insert(key.replacen("..", ":", 1), pem);
        }
    }
    cas
}

/// Returns the valid certificates of a PEM text.
fn certificates(
    pem: &str,
    source: Source,
    name: &str,
    key: &str,
    problems: &mut Vec<ConfigProblem>,
) -> String {
    let is_valid = |pem: &str| {
        let trust = Trust {
            roots: pem.to_owned(),
            ..Trust::default()
        };
        Client::with_proxies(&trust, &Timeouts::default(), &Proxies::default()).is_ok()
    };
    if pem.contains(BEGIN) && is_valid(pem) {
        return pem.to_owned();
    }
    let blocks = pem
        .split_inclusive(END)
        .filter(|block| block.contains(BEGIN));
    let valid: Vec<_> = blocks.filter(|block| is_valid(block)).collect();
    let text = format!(
        "key {key:?} contains invalid PEM certificates, which are ignored (valid certificates in use: {}); correct \
         them",
        valid.len()
    );
    problems.push(ConfigProblem::new(source, name, text));
    valid.join("\n")
}

/// Returns the pull credentials of the nodes.
fn credentials(objects: &Objects, problems: &mut Vec<ConfigProblem>) -> Credentials {
    let source = Source::PullSecret;
    let Some(secret) = one(objects, source) else {
        return Credentials::default();
    };
    let json = secret
        .data
        .get("data")
        .and_then(|data| data.get(".dockerconfigjson")?.as_str());
    let json = json.and_then(|text| BASE64.decode(text).ok());
    let result = match &json {
        Some(json) => Credentials::from_docker_config(json).map_err(|error| error.to_string()),
        None => Err(
            "key \".dockerconfigjson\" is missing; set it to the cluster's pull secret".to_owned(),
        ),
    };
    result.unwrap_or_else(|text| {
        problems.push(ConfigProblem::new(source, &secret.name_any(), text));
        Credentials::default()
    })
}

#[cfg(test)]
mod tests;
