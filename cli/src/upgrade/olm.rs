//! What an OLM has installed, and where its catalogs are.

use std::collections::BTreeSet;

use convert::{
    olm,
    removal::{Search, calls::Calls},
};
use kube::{Api, ResourceExt as _, api::ListParams, core::DynamicObject};
use manifests::{
    api::{
        bounds,
        catalog_source::{CatalogSource, Origin},
        operator_condition::OperatorCondition,
        platform_status::{Concern, Effect},
    },
    object::{Identity, at, shortened, text},
};
use serde_json::Value;

use super::{
    follow::Followed,
    judge::Operator,
    read::{Accounts, each},
    target::Releases,
};
use crate::{cluster::Cluster, live::Live};

pub(super) const KIND: &str = "ClusterServiceVersion";
/// Where OpenShift has its catalogs.
const MARKETPLACE: &str = "openshift-marketplace";
const GROUP: &str = "operators.coreos.com";
/// How many are in a page: each may have pictures and descriptions of a megabyte.
const PAGE: u32 = 20;
/// How many ServiceAccounts of one operator are looked for.
const MOST_ACCOUNTS: usize = 256;

/// The ClusterServiceVersions of a cluster; nothing where there is no OLM.
pub(super) async fn operators(
    cluster: &Cluster,
    live: &mut Live<'_>,
    span: (&Releases, &Releases),
    known: &Known<'_>,
) -> anyhow::Result<Option<Vec<Operator>>> {
    let kind = live.kind(&format!("{GROUP}/v1alpha1"), KIND).await?;
    let Some(kind) = kind else {
        return Ok(None);
    };
    let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &kind.resource);
    // Copies may be thousands.
    let params = ListParams::default()
        .limit(PAGE)
        .labels(&format!("!{}", olm::COPIED));
    let mut found = Vec::new();
    each(&api, params, |csv| {
        found.extend(operator(&csv, span, known));
    })
    .await
    .map_err(|error| cluster.trouble("failed to list ClusterServiceVersions", error))?;
    Ok(Some(found))
}

/// What is known besides.
pub(super) struct Known<'a> {
    pub(super) conditions: &'a [OperatorCondition],
    pub(super) calls: &'a Calls,
    /// What the provisioner says.
    pub(super) concerns: &'a [Concern],
    /// What is followed, if catalogs are asked.
    pub(super) followed: &'a Followed,
}

impl Known<'_> {
    /// What the provisioner says of what keeps the cluster as it is.
    pub(super) fn said(&self, label: &str) -> Option<String> {
        let label = shortened(label, bounds::WORD as usize / 4); // as it is written there
        let mut concerns = self.concerns.iter();
        let concern = concerns.find(|it| it.effect == Effect::Blocks && it.operator == label)?;
        Some(concern.message.clone())
    }
}

/// One of them; nothing for a copy of one in another namespace.
fn operator(
    csv: &DynamicObject,
    (from, to): (&Releases, &Releases),
    known: &Known<'_>,
) -> Option<Operator> {
    let (namespace, name) = (csv.namespace().unwrap_or_default(), csv.name_any());
    let annotation = |key: &str| csv.annotations().get(key).map(String::as_str);
    let is_copy = text(&csv.data, &["status", "reason"]) == Some("Copied")
        || annotation(olm::NAMESPACE).is_some_and(|of| of != namespace);
    if is_copy {
        return None;
    }
    let identity = || Identity {
        group: GROUP.to_owned(),
        kind: KIND.to_owned(),
        namespace: namespace.clone(),
        name: name.clone(),
    };
    let mut search = Search::new(from.kubernetes, to.kubernetes);
    let mut accounts = Accounts::new();
    for list in ["clusterPermissions", "permissions"] {
        let list = at(&csv.data, &["spec", "install", "spec", list]).and_then(Value::as_array);
        for permission in list.into_iter().flatten() {
            search.rules(permission.get("rules").unwrap_or(&Value::Null), identity);
            if let Some(account) = text(permission, &["serviceAccountName"])
                && accounts.len() < MOST_ACCOUNTS
            {
                accounts.insert(format!("{namespace}:{account}"));
            }
        }
    }
    let accounts = accounts.iter().map(String::as_str);
    let mut conditions = known.conditions.iter();
    let condition = conditions
        .find(|it| it.name_any() == name && it.namespace().as_deref() == Some(namespace.as_str()));
    let package = olm::package(annotation);
    Some(Operator {
        kind: KIND,
        channel: known.followed.of_csv(&namespace, &name, package.as_deref()),
        package,
        bundle: Some(name.clone()),
        version: text(&csv.data, &["spec", "version"]).map(str::to_owned),
        maximum: olm::maximum(annotation),
        refusal: condition.and_then(refusal),
        said: known.said(&format!("{namespace}/{name}")),
        removals: search.end(),
        calls: known.calls.of(accounts, from.kubernetes, to.kubernetes),
        namespace,
        name,
        ..Operator::default()
    })
}

/// Why an operator asks not to be upgraded, in one text.
pub(super) fn refusal(condition: &OperatorCondition) -> Option<String> {
    let refusal = condition.refusal()?;
    Some(match (refusal.reason.trim(), refusal.message.trim()) {
        (reason, "") => reason.to_owned(),
        ("", message) => message.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    })
}

/// Where some catalogs are that this cluster has, as --catalog takes them. Nobody depends on it. Those of tenants are
/// nobody's to trust: only the namespaces count that the provisioner takes catalogs from by itself.
pub(super) async fn catalogs(cluster: &Cluster, most: usize) -> Vec<String> {
    let mut sources = Vec::new();
    for namespace in BTreeSet::from([cluster.system_namespace.as_str(), MARKETPLACE]) {
        let api: Api<CatalogSource> = Api::namespaced(cluster.client.clone(), namespace);
        if let Ok(found) = api.list(&ListParams::default().limit(100)).await {
            sources.extend(found.items);
        }
    }
    let named = sources.into_iter().filter_map(|source| {
        let Ok(Origin::Image {
            reference: image, ..
        }) = source.origin()
        else {
            return None;
        };
        let namespace = source.namespace().unwrap_or_default();
        Some(format!(
            "{image} (CatalogSource {namespace}/{})",
            source.name_any()
        ))
    });
    named.take(most).collect()
}
