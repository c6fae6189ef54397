//! Content from ConfigMaps of the system namespace, read afresh each time.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use manifests::api::bundle::ConfigMapSource;
use unpacker::configmaps;

use super::fetch;

/// The reason why a ConfigMap cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none of that name.
    #[error(
        "get configmap {namespace}/{name}: ConfigMap {name:?} not found; create it, or correct its name in the Bundle's source"
    )]
    NotFound {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
    },
    /// The API server does not give it.
    #[error("failed to get configmap {namespace}/{name}")]
    Api {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
        /// What it said.
        #[source]
        source: fetch::ApiError,
    },
}

/// Reads all of them, in order.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    listed: &[ConfigMapSource],
) -> Result<Vec<configmaps::ConfigMap>, Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut read = Vec::with_capacity(listed.len());
    for one in listed {
        let name = one.config_map.name.clone();
        let namespace = namespace.to_owned();
        let found = match fetch::get(&api, &name).await {
            Ok(Some(found)) => found,
            Ok(None) => return Err(Error::NotFound { namespace, name }),
            Err(source) => {
                return Err(Error::Api {
                    namespace,
                    name,
                    source,
                });
            }
        };
        let binary = found.binary_data.unwrap_or_default().into_iter();
        read.push(configmaps::ConfigMap {
            name,
            data: found.data.unwrap_or_default(),
            binary_data: binary.map(|(key, bytes)| (key, bytes.0)).collect(),
            path: one.path.clone(),
        });
    }
    Ok(read)
}
