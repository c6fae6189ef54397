//! Where a catalog is, whichever way its CatalogSource says it.

use std::{borrow::Cow, net::Ipv6Addr};

use serde_json::Value;

use super::{CatalogSource, CatalogSourceSpec};
use crate::object::shortened;

/// Where catalogs are served, unless an address says otherwise.
pub const PORT: u16 = 50051;

/// Where a catalog is.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin<'a> {
    /// In an image.
    Image {
        /// The image, which may have templates in it.
        reference: &'a str,
        /// How a pod that serves it is to look: the fields of `grpcPodConfig`.
        pod: Option<&'a Value>,
    },
    /// Served by somebody over gRPC.
    Service {
        /// `host:port`.
        address: Cow<'a, str>,
    },
    /// In a ConfigMap.
    ConfigMap {
        /// Its name, in the namespace of the CatalogSource.
        name: &'a str,
    },
}

/// Why a CatalogSource cannot be used; OLM's words where OLM has some.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Nothing says where the catalog is.
    #[error(
        "no source: set spec.catalogImageSource, spec.catalogServiceSource or spec.configMapSource"
    )]
    NoSource,
    /// Some of OLM's fields, without the one that says which of them count.
    #[error(
        "sourcetype unset: must be grpc for an image or an address, configmap for a ConfigMap; or write \
         spec.catalogImageSource, spec.catalogServiceSource or spec.configMapSource"
    )]
    NoType,
    /// No image and no address.
    #[error("image and address unset: at least one must be set for sourcetype: grpc")]
    NoPlace,
    /// No ConfigMap.
    #[error("configmap name unset: must be set for sourcetype: {0}")]
    NoConfigMap(String),
    /// A type that does not exist, such as `configMap`.
    #[error("unknown sourcetype: {0}: must be grpc or configmap")]
    Type(String),
    /// A member with nothing in it.
    #[error("{0} unset: must name the catalog")]
    Empty(&'static str),
    /// Something that is none of it.
    #[error("spec cannot be read: {0}")]
    Unread(String),
    /// Several sources, of which it is not said which one counts.
    #[error("more than one source: keep one of {0}, and remove the others")]
    Several(String),
}

/// Where a catalog is to be had at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place<'a> {
    /// Already served by somebody over gRPC: `host:port`.
    Served(Cow<'a, str>),
    /// In an image.
    Image(&'a str),
    /// In a ConfigMap of its namespace.
    ConfigMap(&'a str),
}

impl CatalogSource {
    /// Where the catalog is, as the spec has it. An image counts before an address beside it, and what is empty is not
    /// there (OLM v0 parity).
    ///
    /// # Errors
    /// When the spec does not say it, or says it twice.
    pub fn origin(&self) -> Result<Origin<'_>, Invalid> {
        let spec = &self.spec;
        if let Some(why) = &spec.unread {
            return Err(Invalid::Unread(shortened(why, 400)));
        }
        let deprecated = spec.deprecated();
        let mut named: Vec<&str> = spec.members().collect();
        if named.is_empty() {
            return spec.legacy(!deprecated.is_empty());
        }
        named.extend(deprecated);
        if named.len() > 1 {
            let named: Vec<String> = named.iter().map(|name| format!("spec.{name}")).collect();
            return Err(Invalid::Several(named.join(", ")));
        }
        if let Some(image) = &spec.catalog_image_source {
            return match image.catalog_image.as_str() {
                "" => Err(Invalid::Empty("spec.catalogImageSource.catalogImage")),
                reference => Ok(Origin::Image {
                    reference,
                    pod: image.pod_spec_overrides.as_ref(),
                }),
            };
        }
        if let Some(service) = &spec.catalog_service_source {
            return match service.address.as_str() {
                "" => Err(Invalid::Empty("spec.catalogServiceSource.address")),
                address => Ok(served(address)),
            };
        }
        let name = spec.config_map_source.as_ref();
        match filled(name.map(|source| &source.config_map)) {
            Some(name) => Ok(Origin::ConfigMap { name }),
            None => Err(Invalid::Empty("spec.configMapSource.configMap")),
        }
    }

    /// Where to take the catalog from: from who serves it, where OLM does that; else from its address, its image, or its
    /// ConfigMap.
    /// Without OLM in the cluster, what it has written is of the past.
    ///
    /// # Errors
    /// When it says neither.
    pub fn place(&self, has_olm: bool) -> Result<Place<'_>, Invalid> {
        let place = match self.origin()? {
            Origin::Image { reference, .. } => Place::Image(reference),
            Origin::Service { address } => Place::Served(address),
            Origin::ConfigMap { name } => Place::ConfigMap(name),
        };
        let status = self.status.as_ref();
        let state = status.and_then(|status| status.connection_state.as_ref());
        let served = state
            .filter(|state| has_olm && state.last_observed_state == "READY")
            .and_then(|state| filled(state.address.as_ref()));
        Ok(served.map_or(place, |served| Place::Served(served.into())))
    }
}

impl CatalogSourceSpec {
    /// The members that name a source by themselves, of which there may be one.
    fn members(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.catalog_image_source.is_some(), "catalogImageSource"),
            (
                self.catalog_service_source.is_some(),
                "catalogServiceSource",
            ),
            (self.config_map_source.is_some(), "configMapSource"),
        ]
        .into_iter()
        .filter_map(|(is_there, name)| is_there.then_some(name))
    }

    /// OLM's own fields that say something.
    fn deprecated(&self) -> Vec<&'static str> {
        let text = |text: &Option<String>| filled(text.as_ref()).is_some();
        [
            (text(&self.source_type), "sourceType"),
            (text(&self.image), "image"),
            (text(&self.address), "address"),
            (text(&self.config_map), "configMap"),
            (self.grpc_pod_config.is_some(), "grpcPodConfig"),
        ]
        .into_iter()
        .filter_map(|(is_there, name)| is_there.then_some(name))
        .collect()
    }

    /// What OLM's own fields say, if any.
    fn legacy(&self, says_something: bool) -> Result<Origin<'_>, Invalid> {
        match filled(self.source_type.as_ref()) {
            Some("grpc") => {
                let (image, address) = (filled(self.image.as_ref()), filled(self.address.as_ref()));
                match (image, address) {
                    (Some(reference), _) => Ok(Origin::Image {
                        reference,
                        pod: self.grpc_pod_config.as_ref(),
                    }),
                    (None, Some(address)) => Ok(served(address)),
                    (None, None) => Err(Invalid::NoPlace),
                }
            }
            Some(type_ @ ("configmap" | "internal")) => match filled(self.config_map.as_ref()) {
                Some(name) => Ok(Origin::ConfigMap { name }),
                None => Err(Invalid::NoConfigMap(type_.to_owned())),
            },
            Some(other) => Err(Invalid::Type(shortened(other, 80))),
            None if says_something => Err(Invalid::NoType),
            None => Err(Invalid::NoSource),
        }
    }
}

fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

/// An address is `host:port`; a host without a port, or with an empty one, is served at the usual port.
///
/// Nothing else can be meant by an empty port: OLM connects to port 0 then, and every connection fails.
fn served(address: &str) -> Origin<'_> {
    let is_host = |text: &&str| {
        let is_bracketed = text.starts_with('[') && text.ends_with(']');
        !text.is_empty() && (is_bracketed || !text.contains(':'))
    };
    let mut hosts = [Some(address), address.strip_suffix(':')]
        .into_iter()
        .flatten();
    let address = if let Some(host) = hosts.find(is_host) {
        format!("{host}:{PORT}").into()
    } else if address.parse::<Ipv6Addr>().is_ok() {
        format!("[{address}]:{PORT}").into()
    } else {
        address.into()
    };
    Origin::Service { address }
}

#[cfg(test)]
mod tests;
