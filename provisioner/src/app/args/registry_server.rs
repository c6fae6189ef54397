//! Flags of the registry server, which serves catalogs.

use std::{collections::BTreeSet, env, net::IpAddr};

use clap::Args;

use super::values;
use crate::runtime::settings::{self, Namespaces, Ports};

/// Flags of the registry server.
#[derive(Debug, Args)]
pub(super) struct RegistryServerArgs {
    /// Namespaces whose catalogs are served in a cluster without OLM, "*" for all, "none" for none; by default those of
    /// --catalog-namespaces
    #[arg(
        long,
        value_name = "NAMESPACES",
        value_delimiter = ',',
        value_parser = namespace,
        action = clap::ArgAction::Set,
        help_heading = "Catalogs"
    )]
    pub(super) served_namespaces: Option<Vec<String>>,

    /// Serve each catalog from its own pod, as OLM does, instead of only those that configure their pod
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        value_name = "BOOL",
        default_value_t = false,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        help_heading = "Catalogs"
    )]
    catalog_pods: bool,

    /// Range of ports for catalogs, one port each; by default any free ports
    #[arg(long, value_name = "FIRST-LAST", help_heading = "Catalogs")]
    catalog_ports: Option<Ports>,

    /// Maximum number of served catalogs per namespace, except in --catalog-namespaces
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..),
        default_value_t = 100,
        help_heading = "Catalogs"
    )]
    catalogs_per_namespace: u16,

    /// Maximum total size of the files that the catalogs of one namespace are served from, except in --catalog-namespaces
    #[arg(
        long,
        value_name = "SIZE",
        value_parser = |text: &str| values::size(text, 1 << 20),
        default_value = "1Gi",
        help_heading = "Catalogs"
    )]
    catalog_size_per_namespace: u64,

    /// Address of this pod in the EndpointSlices of catalogs; by default POD_IP. Without an address, catalogs are not
    /// served
    #[arg(long, value_name = "IP", value_parser = address, help_heading = "Catalogs")]
    catalog_address: Option<IpAddr>,
}

// === impl RegistryServerArgs ===

impl RegistryServerArgs {
    /// Returns the settings of the registry server, where `selectable` lists the namespaces of --catalog-namespaces.
    pub(super) fn settings(self, selectable: &[String]) -> Option<settings::Serving> {
        let own = || address(&env::var("POD_IP").ok()?).ok();
        let namespaces = match self.served_namespaces {
            None => Namespaces::Some(selectable.iter().cloned().collect()),
            Some(some) if some.iter().any(|namespace| namespace == "*") => Namespaces::All,
            Some(none) if none == [values::NONE] => return None,
            Some(some) => Namespaces::Some(some.into_iter().collect::<BTreeSet<_>>()),
        };
        Some(settings::Serving {
            address: self.catalog_address.or_else(own)?,
            ports: self.catalog_ports.unwrap_or(Ports::Any),
            namespaces,
            pods: self.catalog_pods,
            share: settings::NamespaceQuota {
                catalogs: usize::from(self.catalogs_per_namespace),
                bytes: self.catalog_size_per_namespace,
            },
        })
    }
}

fn namespace(text: &str) -> Result<String, &'static str> {
    match text {
        "*" => Ok(text.to_owned()),
        _ => values::label(text),
    }
}

/// Parses an address that is valid in an EndpointSlice.
fn address(text: &str) -> Result<IpAddr, &'static str> {
    match text.parse::<IpAddr>() {
        Ok(address)
            if !address.is_loopback() && !address.is_unspecified() && !address.is_multicast() =>
        {
            Ok(address)
        }
        _ => Err("use the IP address of this pod, such as 10.0.0.1"),
    }
}
