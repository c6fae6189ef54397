//! What an instance has in APIs that go.

use convert::removal::{Search, is_role};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::{
    Api, Client, ResourceExt as _,
    core::{ApiResource, DynamicObject},
};
use manifests::{
    api::instance::BundleInstance,
    names,
    object::{Identity, Object, api_version},
};
use tracing::debug;

use super::state::{Seen, Span};
use crate::{context::Context, instance::inventory_of};
use apply::inventory::Inventory;

/// How many roles of one instance are read: real bundles have a handful.
const MOST_ROLES: usize = 256;
/// How many at once.
const CONCURRENCY: usize = 4;
/// How many ServiceAccounts of one instance are looked for.
const MOST_ACCOUNTS: usize = 256;

/// Looks at an instance, if it is there.
///
/// # Errors
/// When the API server does not answer. That something must not be read is no error: it will not be the next time either.
pub(super) async fn at(
    ctx: &Context,
    name: &str,
    span: Span,
) -> Result<Option<(BundleInstance, Seen)>, kube::Error> {
    let api = Api::<BundleInstance>::all(ctx.client.clone());
    let Some(instance) = api.get_opt(name).await? else {
        return Ok(None);
    };
    let seen = what(ctx, &instance, span).await?;
    Ok(Some((instance, seen)))
}

async fn what(ctx: &Context, instance: &BundleInstance, span: Span) -> Result<Seen, kube::Error> {
    let mut search = Search::new(span.from, span.to);
    let inventory = match inventory_of(ctx, instance).await {
        Ok((inventory, is_complete)) => {
            if !is_complete {
                search.miss();
            }
            inventory
        }
        Err(error) if is_refusal(&error) => {
            search.miss();
            Inventory::new()
        }
        Err(error) => return Err(error),
    };
    let mut seen = Seen {
        accounts: accounts(inventory.keys()),
        ..Seen::default()
    };
    let mut roles = Vec::new();
    for (identity, entry) in &inventory {
        let api_version = api_version(&identity.group, &entry.version);
        search.listed(&api_version, || identity.clone(), &identity.kind);
        if is_role(&identity.group, &identity.kind) {
            roles.push(identity.clone());
        }
    }
    if search.is_idle() {
        return Ok(seen);
    }
    if roles.len() > MOST_ROLES {
        roles.truncate(MOST_ROLES);
        search.miss();
    }
    let client = ctx
        .accounts
        .client(instance.spec.service_account.as_ref())?;
    let mut read = stream::iter(roles)
        .map(|identity| read(client.clone(), identity))
        .buffered(CONCURRENCY);
    while let Some(role) = read.next().await {
        match role {
            // It may have a great many rules.
            Ok(Some(role)) => {
                let looked = tokio::task::spawn_blocking(move || {
                    search.object(&role);
                    search
                });
                search = looked
                    .await
                    .map_err(|error| kube::Error::Service(error.into()))?;
            }
            Ok(None) => {}
            Err(error) if is_refusal(&error) => {
                debug!(%error, instance = instance.name_any(), "a role must not be read");
                search.miss();
            }
            Err(error) => return Err(error),
        }
    }
    seen.removals = search.end();
    Ok(seen)
}

/// The ServiceAccounts among objects, as `namespace:name`.
pub(super) fn accounts<'a>(objects: impl Iterator<Item = &'a Identity>) -> Vec<String> {
    objects
        .filter(|it| it.group.is_empty() && it.kind == "ServiceAccount")
        .take(MOST_ACCOUNTS)
        .map(|it| format!("{}:{}", it.namespace, it.name))
        .collect()
}

/// A role; nothing if it is gone.
async fn read(client: Client, identity: Identity) -> Result<Option<Object>, kube::Error> {
    let api: Api<DynamicObject> = if identity.kind == "ClusterRole" {
        Api::all_with(client, &ApiResource::erase::<ClusterRole>(&()))
    } else {
        let resource = ApiResource::erase::<Role>(&());
        Api::namespaced_with(client, &identity.namespace, &resource)
    };
    let Some(found) = api.get_opt(&names::encoded(&identity.name)).await? else {
        return Ok(None);
    };
    let mut found = serde_json::to_value(found).map_err(kube::Error::SerdeError)?;
    if let Some(object) = found.as_object_mut() {
        object.insert("apiVersion".into(), "rbac.authorization.k8s.io/v1".into());
        object.insert("kind".into(), identity.kind.into());
    }
    Ok(Object::try_from(found).ok())
}

/// Reports whether the answer will be the same next time.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if (400..500).contains(&status.code) && !matches!(status.code, 401 | 408 | 410 | 429))
}
