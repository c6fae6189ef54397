//! What an instance wants and others have.

use std::fmt::Write;

use anstyle::Style;
use anyhow::{Context, bail};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::ResourceExt as _;
use manifests::{
    api::{
        Class,
        bundle::{Bundle, Phase},
        holder::Holder,
        instance::BundleInstance,
        labels,
    },
    content::Limits,
    object::Identity,
    yaml,
};
use unpacker::Options;

use super::fields;
use crate::{
    args::AdoptArgs,
    cluster::Cluster,
    desired::{self, Choice, Wanted},
    diff::text::{Change, Origin},
    live::{self, Kind, Live},
    message::{clean, count},
    service::Service,
    status::{self, bundles_of},
};

/// An object that can be handed over.
pub(super) struct Candidate {
    pub(super) identity: Identity,
    pub(super) kind: Kind,
    pub(super) metadata: ObjectMeta,
    /// What managedFields become.
    pub(super) taken: Option<Vec<ManagedFieldsEntry>>,
    holder: Holder,
    /// Whose fields are taken over.
    managers: Vec<String>,
    /// Fields that go.
    going: Vec<String>,
    change: Option<Change>,
}

/// What was found.
pub(super) struct Found {
    pub(super) candidates: Vec<Candidate>,
    /// What cannot be handed over: which, why, and what to do.
    pub(super) refused: Vec<String>,
}

/// Looks at every object of the instance's bundle; `None` if the bundle is refused, and was said why.
pub(super) async fn all(
    cluster: &Cluster,
    args: &AdoptArgs,
    instance: &BundleInstance,
) -> anyhow::Result<Option<Found>> {
    let bundle = wanted(cluster, instance).await?;
    let name = bundle.name_any();
    let service = Service::new(cluster, &args.service).await?;
    let archive = service.download(&name, true).await?;
    let options = Options {
        // As the provisioner took it.
        limits: Limits {
            total: u64::MAX,
            file: u64::MAX,
            ..Limits::default()
        },
        ..Options::default()
    };
    let content = unpacker::stream(archive.as_ref(), &options)
        .with_context(|| format!("the content of Bundle {name} cannot be read"))?
        .content;
    let choice = Choice {
        name: &args.name,
        install_namespace: None,
        class: Some(match Class::parse(&bundle.spec.provisioner_class_name) {
            Some(Class::Registry) => convert::Class::Registry,
            _ => convert::Class::Plain,
        }),
        limits: yaml::Limits::default(),
    };
    let Some(desired) = desired::of(cluster, Some(instance), &choice, &content).await? else {
        return Ok(None);
    };
    let live = Live::new(cluster, &[]);
    let mut found = Found {
        candidates: Vec::new(),
        refused: Vec::new(),
    };
    for wanted in desired.wanted {
        let identity = wanted.object.identity();
        let Some(holder) = wanted.holder.clone() else {
            continue;
        };
        let is_gone = match &holder {
            Holder::Instance(other) => cluster.find_instance(other).await?.is_none(),
            _ => false,
        };
        let deleted = wanted
            .live
            .as_ref()
            .and_then(|it| it.pointer("/metadata/deletionTimestamp"));
        if deleted.is_some() && holder != Holder::Us {
            found.refused.push(format!(
                "{identity} is being deleted: once it is gone, the installation goes on by itself"
            ));
            continue;
        }
        match claim(&identity, &holder, is_gone) {
            Claim::None => {}
            Claim::Refused(why) => found.refused.push(format!("{identity} {why}")),
            Claim::Adoptable => {
                let candidate = candidate(&live, wanted, holder, &args.field_manager).await?;
                found.candidates.extend(candidate);
            }
        }
    }
    Ok(Some(found))
}

/// The Bundle of the template.
async fn wanted(cluster: &Cluster, instance: &BundleInstance) -> anyhow::Result<Bundle> {
    let template = &instance.spec.template.spec;
    let class = template.provisioner_class_name.as_ref();
    let class = class.unwrap_or(&instance.spec.provisioner_class_name);
    let bundles = bundles_of(cluster, instance).await?;
    let bundle = bundles.into_iter().find(|bundle| {
        bundle.spec.source == template.source && bundle.spec.provisioner_class_name == *class
    });
    let is_unpacked =
        |bundle: &Bundle| bundle.status.as_ref().and_then(|it| it.phase) == Some(Phase::Unpacked);
    match bundle {
        Some(bundle) if is_unpacked(&bundle) => Ok(bundle),
        _ => {
            let problem = status::problem(instance).map(|it| it.message);
            let problem = problem.unwrap_or_else(|| "wait for it".to_owned());
            bail!("the bundle of the template is not unpacked: {problem}")
        }
    }
}

async fn candidate(
    live: &Live<'_>,
    wanted: Wanted,
    holder: Holder,
    named: &[String],
) -> anyhow::Result<Option<Candidate>> {
    let identity = wanted.object.identity();
    let Some(before) = &wanted.live else {
        return Ok(None);
    };
    let metadata = live::metadata(before)?;
    let after = live.applied(&wanted.kind, &wanted.object).await?;
    let ours = match &after {
        Some(after) => {
            let entries = live::metadata(after)?.managed_fields;
            fields::of_provisioner(&entries.unwrap_or_default())
        }
        None => serde_json::Map::new(),
    };
    let entries = metadata.managed_fields.clone().unwrap_or_default();
    let takeover = fields::take(&entries, wanted.object.api_version(), &ours, named);
    let change = after.and_then(|after| Change::of(identity.clone(), Some(before), Some(&after)));
    Ok(Some(Candidate {
        identity,
        kind: wanted.kind,
        metadata,
        taken: takeover.entries,
        holder,
        managers: takeover.taken.into_iter().collect(),
        going: takeover.going,
        change,
    }))
}

/// Whether an object can be handed over, by the rules that the provisioner goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Claim {
    /// It need not be.
    None,
    /// Why not, and what to do.
    Refused(String),
    Adoptable,
}

fn claim(identity: &Identity, holder: &Holder, is_gone: bool) -> Claim {
    let is_default_account = identity.kind == "ServiceAccount"
        && identity.group.is_empty()
        && identity.name == "default";
    match holder {
        Holder::Us | Holder::Released => Claim::None,
        Holder::Nobody if is_default_account => Claim::None,
        Holder::Provisioner => Claim::Refused(format!(
            "belongs to {holder}: remove it from the bundle, or give it another name"
        )),
        Holder::Earlier => Claim::Refused(format!(
            "is left from {holder}: the garbage collector removes it, and the installation goes on by itself then"
        )),
        Holder::Instance(_) if !is_gone => Claim::Refused(format!(
            "belongs to {holder}: delete that BundleInstance, or remove the object from one of the two bundles"
        )),
        Holder::Controller(_) => Claim::Refused(format!(
            "is controlled by {holder}, by an ownerReference: delete that, or remove the object from the bundle"
        )),
        Holder::Instance(_) | Holder::Tool(_) | Holder::Nobody => Claim::Adoptable,
    }
}

/// What would be handed over, and what would change then.
pub(super) fn text(candidates: &[Candidate]) -> String {
    const HEAD: Style = Style::new().bold();
    let mut text = String::new();
    for candidate in candidates {
        let identity = clean(&candidate.identity.to_string());
        let holder = clean(&candidate.holder.to_string());
        let _ = writeln!(text, "{HEAD}{identity}{HEAD:#} belongs to {holder}");
        let annotations = candidate.metadata.annotations.as_ref();
        if annotations.is_some_and(|it| it.contains_key(labels::ADOPT)) {
            let _ = writeln!(text, "  it has been handed over before");
        }
        if !candidate.managers.is_empty() {
            let managers = clean(&candidate.managers.join(", "));
            let _ = writeln!(text, "  fields of {managers} become the bundle's");
        }
        if !candidate.going.is_empty() {
            let going = clean(&candidate.going.join(", "));
            let fields = count(candidate.going.len(), "field");
            let _ = writeln!(
                text,
                "  {fields} that the bundle does not have will go: {going}"
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

    #[test]
    fn what_the_provisioner_refuses_is_refused() {
        let identity = |kind: &str, name: &str| Identity {
            group: String::new(),
            kind: kind.to_owned(),
            namespace: "tides".to_owned(),
            name: name.to_owned(),
        };
        let map = identity("ConfigMap", "a");
        for (holder, is_gone, expected) in ::tests::rows![
            Holder::Us, false => Some(false);
            Holder::Released, false => Some(false);
            Holder::Nobody, false => Some(true);
            Holder::Tool("the Helm release a/b".to_owned()), false => Some(true);
            Holder::Instance("b".to_owned()), true => Some(true);
            Holder::Instance("b".to_owned()), false => None;
            Holder::Controller("Deployment b".to_owned()), false => None;
            Holder::Provisioner, false => None;
            Holder::Earlier, false => None;
        ] {
            let found = match claim(&map, &holder, is_gone) {
                Claim::None => Some(false),
                Claim::Adoptable => Some(true),
                Claim::Refused(_) => None,
            };
            assert_eq!(found, expected, "{holder:?}");
        }
        let account = identity("ServiceAccount", "default");
        assert_eq!(claim(&account, &Holder::Nobody, false), Claim::None);
    }
}
