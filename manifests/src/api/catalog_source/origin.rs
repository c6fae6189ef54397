//! Location of a catalog, in either form of a CatalogSource.

use std::{borrow::Cow, net::Ipv6Addr};

use serde_json::Value;

use super::{CatalogSource, CatalogSourceSpec};
use crate::object::truncate;

/// Default port of catalog servers.
pub const PORT: u16 = 50051;

/// Declared location of a catalog.
#[derive(Debug, Clone, PartialEq)]
pub enum Origin<'a> {
    /// The catalog is in an image.
    Image {
        /// The image reference, which may contain template variables.
        reference: &'a str,
        /// Options of a pod that serves the image: the fields of `grpcPodConfig`.
        pod: Option<&'a Value>,
    },
    /// A gRPC server provides the catalog.
    Service {
        /// The address as `host:port`.
        address: Cow<'a, str>,
    },
    /// The catalog is in a ConfigMap.
    ConfigMap {
        /// The name of the ConfigMap, in the namespace of the CatalogSource.
        name: &'a str,
    },
}

/// Reason why a CatalogSource is invalid, in OLM's wording where OLM reports the same problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The spec has no location.
    #[error(
        "one of spec.catalogImageSource, spec.catalogServiceSource or spec.configMapSource must be set"
    )]
    NoSource,
    /// The spec has some of OLM's fields, but not the type that selects one.
    #[error(
        "sourcetype unset: must be grpc for an image or an address, configmap for a ConfigMap; or set \
         spec.catalogImageSource, spec.catalogServiceSource or spec.configMapSource"
    )]
    NoType,
    /// The spec has neither an image nor an address.
    #[error("image and address unset: at least one must be set for sourcetype: grpc")]
    NoPlace,
    /// The spec has no ConfigMap name.
    #[error("configmap name unset: must be set for sourcetype: {0}")]
    NoConfigMap(String),
    /// The type does not exist, such as `configMap`.
    #[error("unknown sourcetype: {0}: must be grpc or configmap")]
    Type(String),
    /// The member is empty.
    #[error("{0} unset: must specify the catalog")]
    Empty(&'static str),
    /// The spec could not be parsed.
    #[error("failed to read spec: {0}")]
    Unread(String),
    /// The spec has several sources.
    #[error("exactly one of {0} must be set; remove the others")]
    Several(String),
}

/// Current location of a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclaredLocation<'a> {
    /// A gRPC server at `host:port`.
    Served(Cow<'a, str>),
    /// The image with this reference.
    Image(&'a str),
    /// A ConfigMap in the namespace of the CatalogSource.
    ConfigMap(&'a str),
}

impl CatalogSource {
    /// Returns the location in the spec. An image takes precedence over an address, and empty fields count as absent (OLM
    /// v0 parity).
    ///
    /// # Errors
    /// Returns an error if the spec has no location, or more than one.
    pub fn origin(&self) -> Result<Origin<'_>, Invalid> {
        let spec = &self.spec;
        if let Some(why) = &spec.unread {
            return Err(Invalid::Unread(truncate(why, 400)));
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
                address => Ok(normalize_address(address)),
            };
        }
        let name = spec.config_map_source.as_ref();
        match filled(name.map(|source| &source.config_map)) {
            Some(name) => Ok(Origin::ConfigMap { name }),
            None => Err(Invalid::Empty("spec.configMapSource.configMap")),
        }
    }

    /// Returns the current location: the server that OLM reports in the status, if OLM runs; else the address, image or
    /// ConfigMap of the spec. Without OLM in the cluster, a status that OLM wrote is stale.
    ///
    /// # Errors
    /// Returns an error if the spec has no location, or more than one.
    pub fn place(&self, has_olm: bool) -> Result<DeclaredLocation<'_>, Invalid> {
        let place = match self.origin()? {
            Origin::Image { reference, .. } => DeclaredLocation::Image(reference),
            Origin::Service { address } => DeclaredLocation::Served(address),
            Origin::ConfigMap { name } => DeclaredLocation::ConfigMap(name),
        };
        let status = self.status.as_ref();
        let state = status.and_then(|status| status.connection_state.as_ref());
        let address = state
            .filter(|state| has_olm && state.last_observed_state == "READY")
            .and_then(|state| filled(state.address.as_ref()));
        Ok(address.map_or(place, |address| DeclaredLocation::Served(address.into())))
    }
}

impl CatalogSourceSpec {
    /// Returns the members that are set. Only one is allowed.
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
        .filter_map(|(is_set, name)| is_set.then_some(name))
    }

    /// Returns OLM's own fields that are not empty.
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
        .filter_map(|(is_set, name)| is_set.then_some(name))
        .collect()
    }

    /// Evaluates OLM's own fields.
    fn legacy(&self, has_fields: bool) -> Result<Origin<'_>, Invalid> {
        match filled(self.source_type.as_ref()) {
            Some("grpc") => {
                let (image, address) = (filled(self.image.as_ref()), filled(self.address.as_ref()));
                match (image, address) {
                    (Some(reference), _) => Ok(Origin::Image {
                        reference,
                        pod: self.grpc_pod_config.as_ref(),
                    }),
                    (None, Some(address)) => Ok(normalize_address(address)),
                    (None, None) => Err(Invalid::NoPlace),
                }
            }
            Some(type_ @ ("configmap" | "internal")) => match filled(self.config_map.as_ref()) {
                Some(name) => Ok(Origin::ConfigMap { name }),
                None => Err(Invalid::NoConfigMap(type_.to_owned())),
            },
            Some(other) => Err(Invalid::Type(truncate(other, 80))),
            None if has_fields => Err(Invalid::NoType),
            None => Err(Invalid::NoSource),
        }
    }
}

fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

/// Returns an address as `host:port`. A host without a port, or with an empty one, gets the default port.
///
/// An empty port cannot mean anything else: OLM connects to port 0 then, and every connection fails.
fn normalize_address(address: &str) -> Origin<'_> {
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
