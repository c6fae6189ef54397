//! Credentials for pulling catalog images: the secrets of the CatalogSource first, then those of the provisioner and the
//! cluster.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use manifests::api::catalog_source::CatalogSource;
use unpacker::{Access, registry::Credentials};

use super::CatalogKey;
use crate::controllers::{bundle, context::Context};

/// Maximum size of all pull secrets of one CatalogSource, in bytes. In memory, credentials take many times their size.
const MAX_SIZE: usize = 256 << 10;

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
    #[error(
        "the pull secrets of CatalogSource {catalog} have more than {MAX_SIZE} bytes in total; remove unused entries, or \
         some of spec.secrets"
    )]
    TooLarge { catalog: String },
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
    let mut size = 0;
    for name in names(source) {
        let full_name = || format!("{}/{name}", key.namespace);
        let secret = api.get_opt(name).await.map_err(|source| Error::Api {
            secret: full_name(),
            source,
        })?;
        let secret = secret.ok_or_else(|| Error::Missing {
            secret: full_name(),
            catalog: key.to_string(),
        })?;
        let values = secret.data.iter().flat_map(|data| data.values());
        size += values.map(|value| value.0.len()).sum::<usize>();
        if size > MAX_SIZE {
            let catalog = key.to_string();
            return Err(Error::TooLarge { catalog });
        }
        registries.push(bundle::pull_secret(&secret)?);
    }
    registries.push(access.registries);
    access.registries = registries.into_iter().collect::<Credentials>();
    Ok(access)
}

/// Returns the names of the pull secrets in their order, each once. OLM ignores empty names, too.
fn names(source: &CatalogSource) -> Vec<&str> {
    let mut unique = BTreeSet::new();
    let names = source.spec.secrets.iter().map(String::as_str);
    names
        .filter(|name| !name.is_empty() && unique.insert(*name))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_secret_is_loaded_once() {
        let secrets = json!(["", "b", "a", "b", "b"]);
        let source: CatalogSource =
            object!({"metadata": {"name": "a"}, "spec": {"secrets": secrets}});
        assert_eq!(names(&source), ["b", "a"]);
    }
}
