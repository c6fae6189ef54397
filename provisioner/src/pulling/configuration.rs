//! What the cluster's objects mean for pulling.

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
    registry::{Credentials, Mirrors, mirrors::Pull},
    web::{Client, Patience, Proxies},
};

use super::{
    Problem, Source,
    mirrors::{self, Set},
};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// How the cluster wants its images pulled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Where the content of registries is, and what may be pulled at all.
    pub mirrors: Mirrors,
    /// Authorities in PEM that are believed everywhere.
    pub roots: String,
    /// Authorities in PEM that one registry is believed by.
    pub authorities: BTreeMap<String, String>,
    /// The proxies, if there are any.
    pub proxies: Option<Proxies>,
    /// The credentials that all nodes have.
    pub credentials: Credentials,
}

/// The latest objects from each source, as far as they are known.
pub(super) type Objects = BTreeMap<Source, Vec<DynamicObject>>;

impl Configuration {
    /// Adds what the cluster says to what was given by flags, which comes first.
    pub fn add_to(&self, mut access: Access) -> Access {
        access.mirrors = [access.mirrors, self.mirrors.clone()].into_iter().collect();
        access.registries = [access.registries, self.credentials.clone()]
            .into_iter()
            .collect();
        if !self.roots.is_empty() {
            access.trust.roots.push('\n');
            access.trust.roots.push_str(&self.roots);
        }
        for (registry, roots) in &self.authorities {
            let believed = access.authorities.entry(registry.clone()).or_default();
            believed.push('\n');
            believed.push_str(roots);
        }
        access.proxies = access.proxies.or_else(|| self.proxies.clone());
        access
    }

    /// Reads the objects. What is wrong is left out, and told.
    pub(super) fn read(objects: &Objects) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let (mirrors, told) = mirrors_of(objects, &mut problems);
        problems.extend(told);
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
            authorities: authorities(objects, &mut problems),
            proxies: proxies.filter(Proxies::names_any),
            credentials: credentials(objects, &mut problems),
        };
        (configuration, problems)
    }
}

/// The ConfigMap with authorities that an object names, and that has to be read as well.
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

fn mirrors_of(objects: &Objects, problems: &mut Vec<Problem>) -> (Mirrors, Vec<Problem>) {
    let mut sets: Vec<(Source, String, Pull, Vec<MirrorSet>)> = Vec::new();
    // The older policies come first, as they were there before.
    for source in [
        Source::ImageContentSourcePolicy,
        Source::ImageDigestMirrorSet,
        Source::ImageTagMirrorSet,
    ] {
        for object in objects.get(&source).into_iter().flatten() {
            let (pull, found) = match source {
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
            sets.extend(found.map(|found| (source, object.name_any(), pull, found)));
        }
    }
    let sets: Vec<Set<'_>> = sets
        .iter()
        .flat_map(|(source, object, pull, sets)| {
            sets.iter().map(|set| Set {
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

/// The spec or the status of an object; one without it says nothing.
fn part<T: DeserializeOwned + Default>(
    object: &DynamicObject,
    name: &str,
    source: Source,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let part = object.data.get(name)?;
    match T::deserialize(part) {
        Ok(read) => Some(read),
        Err(error) => {
            let text = format!("its {name} is not understood, and left out: {error}; correct it");
            problems.push(Problem::of(source, &object.name_any(), text));
            None
        }
    }
}

/// What every server is believed by.
fn roots(objects: &Objects, problems: &mut Vec<Problem>) -> String {
    let source = Source::ProxyAuthorities;
    let Some(name) = named(objects, source) else {
        return String::new();
    };
    // Not listed yet, or a watch that does not work: that is told elsewhere.
    let Some(found) = objects.get(&source) else {
        return String::new();
    };
    let pem = found
        .first()
        .and_then(|map| map.data.get("data")?.get(CA_BUNDLE)?.as_str());
    if let Some(pem) = pem {
        return certificates(pem, source, &name, CA_BUNDLE, problems);
    }
    let text = format!(
        "there is no {CA_BUNDLE:?} in such a ConfigMap, which the cluster's Proxy names as its trustedCA; create it"
    );
    problems.push(Problem::of(source, &name, text));
    String::new()
}

/// What single registries are believed by.
fn authorities(objects: &Objects, problems: &mut Vec<Problem>) -> BTreeMap<String, String> {
    let source = Source::ImageAuthorities;
    let mut authorities = BTreeMap::new();
    let (Some(name), Some(found)) = (named(objects, source), objects.get(&source)) else {
        return authorities;
    };
    let Some(map) = found.first() else {
        let text = "there is no such ConfigMap, which the cluster's Image names as its additionalTrustedCA; create it";
        problems.push(Problem::of(source, &name, text));
        return authorities;
    };
    let data = map.data.get("data").and_then(|data| data.as_object());
    for (key, pem) in data.into_iter().flatten() {
        let pem = pem.as_str().unwrap_or_default();
        let pem = certificates(pem, source, &name, key, problems);
        if !pem.is_empty() {
            // A key cannot have the colon before a port.
            authorities.insert(key.replacen("..", ":", 1), pem);
        }
    }
    authorities
}

/// Those certificates of a text that are ones.
fn certificates(
    pem: &str,
    source: Source,
    name: &str,
    key: &str,
    problems: &mut Vec<Problem>,
) -> String {
    let understood = |pem: &str| {
        let trust = Trust {
            roots: pem.to_owned(),
            ..Trust::default()
        };
        Client::with_proxies(&trust, &Patience::default(), &Proxies::default()).is_ok()
    };
    if pem.contains(BEGIN) && understood(pem) {
        return pem.to_owned();
    }
    let blocks = pem
        .split_inclusive(END)
        .filter(|block| block.contains(BEGIN));
    let good: Vec<_> = blocks.filter(|block| understood(block)).collect();
    let text = format!(
        "{key:?} has something that is no certificate in PEM, which is left out; {} are used: correct it",
        good.len()
    );
    problems.push(Problem::of(source, name, text));
    good.join("\n")
}

/// What all nodes pull with.
fn credentials(objects: &Objects, problems: &mut Vec<Problem>) -> Credentials {
    let source = Source::PullSecret;
    let Some(secret) = one(objects, source) else {
        return Credentials::default();
    };
    let json = secret
        .data
        .get("data")
        .and_then(|data| data.get(".dockerconfigjson")?.as_str());
    let json = json.and_then(|text| BASE64.decode(text).ok());
    let read = match &json {
        Some(json) => Credentials::from_docker_config(json).map_err(|error| error.to_string()),
        None => Err("it has no \".dockerconfigjson\"; write the cluster's pull secret".to_owned()),
    };
    read.unwrap_or_else(|text| {
        problems.push(Problem::of(source, &secret.name_any(), text));
        Credentials::default()
    })
}

#[cfg(test)]
mod tests;
