//! Decides which Bundles an instance may be installed from.
//!
//! Every client with permissions for Bundles can create one with any name, labels and ownerReferences, so none of these
//! identifies a Bundle. The UID does: the API server assigns it, and the provisioner gets it in the response to its own
//! create request. It records the UID in the status before it applies objects from that Bundle. An installed Bundle must
//! also have the content digest that was applied. Pure; no I/O.

use std::sync::Arc;

use kube::ResourceExt as _;
use manifests::api::{
    Class,
    bundle::{Bundle, Phase},
    bundle_instance::{BundleInstance, BundleInstanceStatus, CreatedBundle, InstalledBundle},
    labels,
};

use super::template;

/// Live state of the Bundle that is recorded as installed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Installed<'a> {
    /// The recorded Bundle with the recorded content, which is unpacked.
    Trusted(&'a Bundle),
    /// The recorded Bundle does not exist, or is not unpacked.
    Missing,
    /// Another client created the Bundle or changed its status; the message has the name of the Bundle and the remedy.
    Replaced(String),
}

impl<'a> Installed<'a> {
    /// Returns the Bundle if it can be trusted.
    pub(crate) fn trusted(&self) -> Option<&'a Bundle> {
        match self {
            Self::Trusted(bundle) => Some(bundle),
            Self::Missing | Self::Replaced(_) => None,
        }
    }

    /// Returns the message about a replaced Bundle.
    pub(crate) fn replaced(&self) -> Option<&str> {
        match self {
            Self::Replaced(message) => Some(message),
            Self::Trusted(_) | Self::Missing => None,
        }
    }
}

/// Compares the Bundle that has the name of the installed one with the record.
pub(crate) fn installed<'a>(
    status: &BundleInstanceStatus,
    instance: &BundleInstance,
    found: Option<&'a Bundle>,
) -> Installed<'a> {
    let Some(found) = found else {
        return Installed::Missing;
    };
    let uid = found.metadata.uid.as_deref().unwrap_or_default();
    let Some(record) = &status.installed else {
        // An older provisioner recorded only the digest, and `adopt` did not accept this Bundle.
        let is_other =
            digest(found).is_some_and(|digest| status.content_digest.as_deref() != Some(digest));
        return if is_other && !is_created(status, uid) {
            Installed::Replaced(replaced(
                found,
                "its content is not the content that was installed",
            ))
        } else {
            Installed::Missing
        };
    };
    let is_same_uid = record.uid == uid;
    match digest(found) {
        Some(digest) if is_same_uid && digest != record.content_digest => Installed::Replaced(
            replaced(found, "the content digest in its status was changed"),
        ),
        Some(_) if is_same_uid && is_unpacked(found) && template::belongs_to(found, instance) => {
            Installed::Trusted(found)
        }
        _ if is_same_uid || is_created(status, uid) => Installed::Missing,
        // A copy with the same content is not used, but not reported as an attack either.
        Some(digest) if digest == record.content_digest => Installed::Missing,
        _ => {
            let why = format!(
                "its uid is {uid}, and the provisioner created {}",
                record.uid
            );
            Installed::Replaced(replaced(found, &why))
        }
    }
}

/// Returns the Bundle that the provisioner created from the template with this hash. If several exist, the newest is used:
/// the earlier ones were given up.
pub(crate) fn of_template<'a>(
    status: &BundleInstanceStatus,
    instance: &BundleInstance,
    hash: &str,
    bundles: &'a [Arc<Bundle>],
) -> Option<&'a Arc<Bundle>> {
    let created = status.bundles.iter().rev();
    let mut created = created.filter(|created| created.template_hash == hash);
    let spec = template::spec(instance);
    created.find_map(|created| {
        bundles.iter().find(|bundle| {
            bundle.metadata.uid.as_ref() == Some(&created.uid)
                && bundle.spec == spec
                && template::belongs_to(bundle, instance)
                && !is_altered(status, bundle)
        })
    })
}

/// Returns the status with a record of the installed Bundle if an older provisioner has recorded only its name. The Bundle
/// of that name is accepted if it has the installed content. This is trust on first use, so it happens once. Returns
/// `None` without a Bundle to record.
pub(crate) fn adopt(
    status: &BundleInstanceStatus,
    instance: &BundleInstance,
    found: Option<&Bundle>,
    bundles: &[Arc<Bundle>],
) -> Option<BundleInstanceStatus> {
    let found = found.filter(|_| status.installed.is_none())?;
    let record = InstalledBundle {
        name: status.installed_bundle_name.clone()?,
        uid: found.uid()?,
        content_digest: status.content_digest.clone()?,
    };
    // The other class renders other objects from the same content. Only registry+v1 content has a ClusterServiceVersion.
    let class = Class::parse(&found.spec.provisioner_class_name);
    let was_registry = status.facts.cluster_service_version.is_some();
    let is_adoptable = found.metadata.name.as_ref() == Some(&record.name)
        && template::belongs_to(found, instance)
        && (class == Some(Class::Registry)) == was_registry
        && record.is(found);
    is_adoptable.then(|| {
        let label = found.labels().get(labels::TEMPLATE_HASH);
        let created = label.map(|hash| CreatedBundle {
            name: record.name.clone(),
            uid: record.uid.clone(),
            template_hash: hash.clone(),
        });
        let created = created.filter(|created| !is_created(status, &created.uid));
        let adopted = BundleInstanceStatus {
            installed: Some(record),
            ..status.clone()
        };
        BundleInstanceStatus {
            bundles: match created {
                Some(created) => self::record(&adopted, bundles, created),
                None => adopted.bundles.clone(),
            },
            ..adopted
        }
    })
}

/// Returns the records after a Bundle was created. Records of Bundles that no longer exist are dropped unless these are
/// installed.
pub(crate) fn record(
    status: &BundleInstanceStatus,
    bundles: &[Arc<Bundle>],
    created: CreatedBundle,
) -> Vec<CreatedBundle> {
    let retained = status.bundles.iter().filter(|old| {
        let uid = Some(&old.uid);
        recorded(status).any(|record| Some(&record.uid) == uid)
            || bundles
                .iter()
                .any(|bundle| bundle.metadata.uid.as_ref() == uid)
    });
    let mut all: Vec<CreatedBundle> = retained.cloned().chain([created]).collect();
    let surplus = all.len().saturating_sub(MAX_CREATED);
    all.drain(..surplus);
    all
}

/// Maximum number of records; the schema limits the list.
const MAX_CREATED: usize = manifests::api::limits::CREATED_BUNDLES as usize;

/// Returns the records of the Bundles that a repair or a rollback needs.
pub(crate) fn recorded(status: &BundleInstanceStatus) -> impl Iterator<Item = &InstalledBundle> {
    status.installed.iter().chain(&status.previous)
}

/// Reports whether the provisioner created the Bundle with this UID.
pub(crate) fn is_created(status: &BundleInstanceStatus, uid: &str) -> bool {
    status.bundles.iter().any(|created| created.uid == uid)
}

/// Reports whether the content of a Bundle is unpacked.
pub(crate) fn is_unpacked(bundle: &Bundle) -> bool {
    bundle.status.as_ref().and_then(|status| status.phase) == Some(Phase::Unpacked)
}

/// Reports whether a Bundle is recorded with another content digest than its status has.
fn is_altered(status: &BundleInstanceStatus, bundle: &Bundle) -> bool {
    let uid = bundle.metadata.uid.as_ref();
    recorded(status)
        .filter(|record| Some(&record.uid) == uid)
        .any(|record| digest(bundle).is_some_and(|digest| digest != record.content_digest))
}

fn digest(bundle: &Bundle) -> Option<&str> {
    bundle.status.as_ref()?.content_digest.as_deref()
}

fn replaced(bundle: &Bundle, why: &str) -> String {
    let name = bundle.name_any();
    format!(
        "Bundle {name} was replaced by another client: {why}; nothing is applied or repaired from it, and the Bundle of \
         spec.template is installed once it is unpacked; delete Bundle {name}, and check who is allowed to create, delete \
         and patch bundles.core.rukpak.io; if the Bundle of spec.template cannot be unpacked, set \
         spec.template.spec.source to status.resolvedSource"
    )
}

#[cfg(test)]
mod tests;
