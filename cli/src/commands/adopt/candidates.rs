//! Objects of other owners that an instance needs and may adopt.

use std::fmt::Write;

use anstyle::Style;
use anyhow::{Context, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::ResourceExt as _;
use manifests::{
    api::{
        Class,
        bundle::{Bundle, Phase},
        bundle_instance::BundleInstance,
        labels,
        owner::ObjectOwner,
    },
    content::Limits,
    object::Identity,
    yaml,
};
use unpacker::Options;

use super::managed_fields;
use crate::args::AdoptArgs;
use crate::cluster::Cluster;
use crate::cluster::content_service::ContentService;
use crate::cluster::desired::{self, DesiredObject, InstanceDefaults};
use crate::cluster::live::{self, ApiKind, LiveObjects};
use crate::commands::diff::report::{Change, Origin};
use crate::commands::status::{self, bundles_of};
use crate::output::message::{count, sanitize};

/// An object that can be adopted.
pub(super) struct Candidate {
    pub(super) identity: Identity,
    pub(super) kind: ApiKind,
    pub(super) metadata: ObjectMeta,
    /// New `managedFields`; `None` if no field is transferred.
    pub(super) transferred: Option<Vec<ManagedFieldsEntry>>,
    owner: ObjectOwner,
    /// Managers whose fields are transferred.
    managers: Vec<String>,
    /// Fields that the next apply removes.
    dropped: Vec<String>,
    change: Option<Change>,
}

/// Objects to adopt, and those that cannot be adopted.
pub(super) struct AdoptionPlan {
    pub(super) candidates: Vec<Candidate>,
    /// Messages about objects that cannot be adopted, with the reason and the remedy.
    pub(super) rejected: Vec<String>,
}

/// Checks every object of the instance's bundle; `None` if the bundle is rejected, after its problems were printed.
pub(super) async fn all(
    cluster: &Cluster,
    args: &AdoptArgs,
    instance: &BundleInstance,
) -> anyhow::Result<Option<AdoptionPlan>> {
    let bundle = template_bundle(cluster, instance).await?;
    let name = bundle.name_any();
    let service = ContentService::new(cluster, &args.service).await?;
    let archive = service.download(&name, true).await?;
    let options = Options {
        // The provisioner has already enforced its limits.
        limits: Limits {
            total: u64::MAX,
            file: u64::MAX,
            ..Limits::default()
        },
        ..Options::default()
    };
    let content = unpacker::stream(archive.as_ref(), &options)
        .with_context(|| format!("failed to read the content of Bundle {name}"))?
        .content;
    let defaults = InstanceDefaults {
        name: &args.name,
        install_namespace: None,
        class: Some(match Class::parse(&bundle.spec.provisioner_class_name) {
            Some(Class::Registry) => convert::Class::Registry,
            _ => convert::Class::Plain,
        }),
        limits: yaml::Limits::default(),
    };
    let Some(desired) = desired::from_bundle(cluster, Some(instance), &defaults, &content).await?
    else {
        return Ok(None);
    };
    let live = LiveObjects::new(cluster, &[]);
    let mut plan = AdoptionPlan {
        candidates: Vec::new(),
        rejected: Vec::new(),
    };
    for desired_object in desired.objects {
        let identity = desired_object.object.identity();
        let Some(holder) = desired_object.owner.clone() else {
            continue;
        };
        let is_deleted = match &holder {
            ObjectOwner::Instance(other) => cluster.get_instance_opt(other).await?.is_none(),
            _ => false,
        };
        let deleted = desired_object
            .live
            .as_ref()
            .and_then(|live| live.pointer("/metadata/deletionTimestamp"));
        if deleted.is_some() && holder != ObjectOwner::ThisInstance {
            plan.rejected.push(format!(
                "{identity} is being deleted: the installation continues automatically after the deletion"
            ));
            continue;
        }
        match claim(&identity, &holder, is_deleted) {
            Adoptability::None => {}
            Adoptability::Rejected(reason) => plan.rejected.push(format!("{identity} {reason}")),
            Adoptability::Adoptable => {
                let candidate =
                    candidate(&live, desired_object, holder, &args.field_manager).await?;
                plan.candidates.extend(candidate);
            }
        }
    }
    Ok(Some(plan))
}

/// Returns the unpacked Bundle of the instance's template.
async fn template_bundle(cluster: &Cluster, instance: &BundleInstance) -> anyhow::Result<Bundle> {
    let template = &instance.spec.template.spec;
    let class = template.provisioner_class_name.as_ref();
    let class = class.unwrap_or(&instance.spec.provisioner_class_name);
    let bundles = bundles_of(cluster, instance).await?;
    let bundle = bundles.into_iter().find(|bundle| {
        bundle.spec.source == template.source && bundle.spec.provisioner_class_name == *class
    });
    let is_unpacked = |bundle: &Bundle| {
        bundle.status.as_ref().and_then(|status| status.phase) == Some(Phase::Unpacked)
    };
    match bundle {
        Some(bundle) if is_unpacked(&bundle) => Ok(bundle),
        _ => {
            let problem = status::problem(instance).map(|problem| problem.message);
            let problem =
                problem.unwrap_or_else(|| "retry after the Bundle is unpacked".to_owned());
            bail!("the bundle of spec.template is not unpacked: {problem}")
        }
    }
}

async fn candidate(
    live: &LiveObjects<'_>,
    desired: DesiredObject,
    holder: ObjectOwner,
    extra_managers: &[String],
) -> anyhow::Result<Option<Candidate>> {
    let identity = desired.object.identity();
    let Some(before) = &desired.live else {
        return Ok(None);
    };
    let metadata = live::metadata(before)?;
    let after = live.applied(&desired.kind, &desired.object).await?;
    let applied_fields = match &after {
        Some(after) => {
            let entries = live::metadata(after)?.managed_fields;
            managed_fields::of_provisioner(&entries.unwrap_or_default())
        }
        None => serde_json::Map::new(),
    };
    let entries = metadata.managed_fields.clone().unwrap_or_default();
    let takeover = managed_fields::take(
        &entries,
        desired.object.api_version(),
        &applied_fields,
        extra_managers,
    );
    let change =
        after.and_then(|after| Change::between(identity.clone(), Some(before), Some(&after)));
    Ok(Some(Candidate {
        identity,
        kind: desired.kind,
        metadata,
        transferred: takeover.entries,
        owner: holder,
        managers: takeover.transferred.into_iter().collect(),
        dropped: takeover.dropped,
        change,
    }))
}

/// Whether an object can be adopted, by the rules of the provisioner.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Adoptability {
    /// Adoption is not necessary.
    None,
    /// Adoption is not possible, for this reason and with this remedy.
    Rejected(String),
    Adoptable,
}

fn claim(identity: &Identity, holder: &ObjectOwner, is_deleted: bool) -> Adoptability {
    let is_default_account = identity.kind == "ServiceAccount"
        && identity.group.is_empty()
        && identity.name == "default";
    match holder {
        ObjectOwner::ThisInstance | ObjectOwner::Released => Adoptability::None,
        ObjectOwner::None if is_default_account => Adoptability::None,
        ObjectOwner::Provisioner => Adoptability::Rejected(format!(
            "belongs to {holder}: remove it from the bundle, or rename it"
        )),
        ObjectOwner::FormerInstance => Adoptability::Rejected(format!(
            "still exists from {holder}: the garbage collector deletes it, and the installation then continues automatically"
        )),
        ObjectOwner::Instance(_) if !is_deleted => Adoptability::Rejected(format!(
            "belongs to {holder}: delete that BundleInstance, or remove the object from one of the two bundles"
        )),
        ObjectOwner::Controller(_) => Adoptability::Rejected(format!(
            "is controlled by {holder} (ownerReference): delete the controller, or remove the object from the bundle"
        )),
        ObjectOwner::Instance(_) | ObjectOwner::OtherTool(_) | ObjectOwner::None => {
            Adoptability::Adoptable
        }
    }
}

/// Formats the objects to adopt, with the changes of the adoption.
pub(super) fn text(candidates: &[Candidate]) -> String {
    const HEAD: Style = Style::new().bold();
    let mut text = String::new();
    for candidate in candidates {
        let identity = sanitize(&candidate.identity.to_string());
        let holder = sanitize(&candidate.owner.to_string());
        let _ = writeln!(text, "{HEAD}{identity}{HEAD:#} belongs to {holder}");
        let annotations = candidate.metadata.annotations.as_ref();
        if annotations.is_some_and(|annotations| annotations.contains_key(labels::ADOPT)) {
            let _ = writeln!(text, "  already annotated for adoption");
        }
        if !candidate.managers.is_empty() {
            let managers = sanitize(&candidate.managers.join(", "));
            let _ = writeln!(text, "  fields of {managers} are transferred to the bundle");
        }
        if !candidate.dropped.is_empty() {
            let dropped = sanitize(&candidate.dropped.join(", "));
            let fields = count(candidate.dropped.len(), "field");
            let _ = writeln!(
                text,
                "  {fields} that the bundle does not set will be removed: {dropped}"
            );
        }
        if let Some(change) = &candidate.change {
            change.unified(Origin::Bundle, &mut text);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::identity;

    #[test]
    fn objects_that_the_provisioner_rejects_are_rejected() {
        let map = identity("", "ConfigMap", "a");
        for (holder, is_deleted, expected) in ::tests::rows![
            ObjectOwner::ThisInstance, false => Some(false);
            ObjectOwner::Released, false => Some(false);
            ObjectOwner::None, false => Some(true);
            ObjectOwner::OtherTool("the Helm release a/b".to_owned()), false => Some(true);
            ObjectOwner::Instance("b".to_owned()), true => Some(true);
            ObjectOwner::Instance("b".to_owned()), false => None;
            ObjectOwner::Controller("Deployment b".to_owned()), false => None;
            ObjectOwner::Provisioner, false => None;
            ObjectOwner::FormerInstance, false => None;
        ] {
            let found = match claim(&map, &holder, is_deleted) {
                Adoptability::None => Some(false),
                Adoptability::Adoptable => Some(true),
                Adoptability::Rejected(_) => None,
            };
            assert_eq!(found, expected, "{holder:?}");
        }
        ::tests::assert_rows!(claim(&identity("", "ServiceAccount", "default"), &ObjectOwner::None, false) => Adoptability::None);
    }
}
