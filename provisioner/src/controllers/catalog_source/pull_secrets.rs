//! Credentials for pulling catalog images: the secrets of the CatalogSource first, then those of the provisioner and the
//! cluster.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use manifests::api::catalog_source::CatalogSource;
use unpacker::{Access, registry::Credentials};

use super::CatalogKey;
use crate::controllers::{bundle, context::Context};

/// Error that keeps a catalog's pull secrets from being used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(
        "Secret {secret} not found; create it, or correct spec.secrets of CatalogSource {catalog}"
    )]
    Missing { secret: String, catalog: String },
    #[error("failed to get Secret {secret}")]
    Api {
        secret: String,
        #[source]
        source: kube::Error,
    },
    #[error(transparent)]
    Secret(#[from] bundle::AccessError),
}

/// Loads the credentials and settings for pulling a catalog's image.
pub(super) async fn load(
    ctx: &Context,
    key: &CatalogKey,
    source: &CatalogSource,
) -> Result<Access, Error> {
    let mut access = ctx.pull_config.merged_access(&ctx.settings.access).await;
    let api: Api<Secret> = Api::namespaced(ctx.client.clone(), &key.namespace);
    let mut registries = Vec::new();
    // OLM ignores empty names, too.
    for name in source.spec.secrets.iter().filter(|name| !name.is_empty()) {
        let full_name = || format!("{}/{name}", key.namespace);
        let secret = api.get_opt(name).await.map_err(|source| Error::Api {
            secret: full_name(),
            source,
        })?;
        let secret = secret.ok_or_else(|| Error::Missing {
            secret: full_name(),
            catalog: key.to_string(),
        })?;
        registries.push(bundle::pull_secret(&secret)?);
    }
    registries.push(access.registries);
    access.registries = registries.into_iter().collect::<Credentials>();
    Ok(access)
}
