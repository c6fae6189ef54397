//! API types: the custom resources of `core.rukpak.io/v1alpha1` ([`bundle::Bundle`], [`bundle_instance::BundleInstance`],
//! [`platform_status::PlatformStatus`]) with their conditions, labels and names, and the CRDs and install files generated
//! from them. Also [`platform_operator::PlatformOperator`] and [`catalog_source::CatalogSource`], whose APIs belong to other
//! projects, with CRDs for clusters that lack them, and the parts of OpenShift's and OLM's resources that are read or
//! written here ([`config`], [`operator_condition`]).
//!
//! ```text
//!  bundle, bundle_instance (Rust types) ── schema (limits, CEL) ──> crds/*.yaml ─┐
//!                                          install (permissions, pods) ──────────┴> install/rukpak.yaml
//! ```

pub mod bundle;
pub mod bundle_identity;
pub mod bundle_instance;
pub mod catalog_source;
pub mod condition;
pub mod config;
pub mod crds;
pub mod install;
pub mod inventory_format;
pub mod labels;
pub mod limits;
pub mod olm;
pub mod operator_condition;
pub mod owner;
pub mod owner_metadata;
pub mod platform_operator;
pub mod platform_status;
pub mod pulling;
pub mod rbac;
pub mod revision;
mod schema;

/// The API group of the provisioner's resources.
pub const GROUP: &str = "core.rukpak.io";

/// Field manager of the applied objects of bundles.
pub const MANAGER: &str = "rukpak";

/// Provisioner class of this project, in one of its spellings: `core-rukpak-io-registry`, `core.rukpak.io/registry` (rukpak
/// before 0.9), and the alias `core.rukpak.io/converter` (platform operators, document 004).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Class of `plain+v0` content.
    Plain,
    /// Class of `registry+v1` content.
    Registry,
}

impl Class {
    /// Returns the class of a `provisionerClassName`, or `None` for classes of other provisioners.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "core.rukpak.io/plain" | "core-rukpak-io-plain" => Some(Self::Plain),
            "core.rukpak.io/registry" | "core-rukpak-io-registry" | "core.rukpak.io/converter" => {
                Some(Self::Registry)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Class;

    // parity: platform-15
    #[test]
    fn class_names_have_two_spellings_and_one_alias() {
        assert_each!(|names, class| names.iter().find(|name| Class::parse(name) != class) => None;
            &["core-rukpak-io-plain", "core.rukpak.io/plain"][..] => Some(Class::Plain);
            &["core-rukpak-io-registry", "core.rukpak.io/registry", "core.rukpak.io/converter"] => Some(Class::Registry);
            &["core-rukpak-io-converter", "core.rukpak.io/Converter", "core.rukpak.io/converter ", "converter", ""] => None;
        );
    }
}
