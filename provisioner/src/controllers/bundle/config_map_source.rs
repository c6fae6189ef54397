//! Content from ConfigMaps of the system namespace, read at every reconcile.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use manifests::api::bundle::ConfigMapSource;
use unpacker::config_maps;

use super::fetch;

/// Reason why a ConfigMap cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ConfigMap does not exist.
    #[error(
        "get configmap {namespace}/{name}: ConfigMap {name:?} not found; create it, or correct its name in the Bundle's source"
    )]
    NotFound {
        /// Namespace of the ConfigMap.
        namespace: String,
        /// Name of the ConfigMap.
        name: String,
    },
    /// The request to the API server failed.
    #[error("failed to get configmap {namespace}/{name}")]
    Api {
        /// Namespace of the ConfigMap.
        namespace: String,
        /// Name of the ConfigMap.
        name: String,
        /// Failure of the request.
        #[source]
        source: fetch::ApiError,
    },
}

/// Reads the ConfigMaps of a source, in order.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    listed: &[ConfigMapSource],
) -> Result<Vec<config_maps::ConfigMap>, Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let mut maps = Vec::with_capacity(listed.len());
    for source in listed {
        let name = source.config_map.name.clone();
        let namespace = namespace.to_owned();
        let map = match fetch::get(&api, &name).await {
            Ok(Some(map)) => map,
            Ok(None) => return Err(Error::NotFound { namespace, name }),
            Err(source) => {
                return Err(Error::Api {
                    namespace,
                    name,
                    source,
                });
            }
        };
        let binary = map.binary_data.unwrap_or_default().into_iter();
        maps.push(config_maps::ConfigMap {
            name,
            data: map.data.unwrap_or_default(),
            binary_data: binary.map(|(key, bytes)| (key, bytes.0)).collect(),
            path: source.path.clone(),
        });
    }
    Ok(maps)
}
