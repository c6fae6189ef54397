//! Discovery requests to the API server.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::{Client, core::ApiResource};
use manifests::{names, object};

use super::{ApiKind, GroupVersion};

/// Timeout of a request, including the retries of the client.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the kinds of a group version by name; `None` if the group version is not served.
pub(super) async fn kinds(
    client: &Client,
    version: &GroupVersion,
) -> Result<Option<HashMap<String, Arc<ApiKind>>>, kube::Error> {
    let GroupVersion { group, version } = version;
    // The names come from a bundle and become segments of a URL.
    if !(group.is_empty() || names::dns_subdomain(group).is_ok())
        || names::dns_subdomain(version).is_err()
    {
        return Ok(None);
    }
    let api_version = object::api_version(group, version);
    let answer = with_timeout(async {
        if group.is_empty() {
            client.list_core_api_resources(version).await
        } else {
            client.list_api_group_resources(&api_version).await
        }
    });
    match answer.await {
        Ok(list) => Ok(Some(read(list, group, version, &api_version))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 503 && !group.is_empty() => {
            // The server of the aggregated API is unavailable; the list of groups fails if the API server is, too.
            groups(client).await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns all group versions. The core group is not in the response and always exists.
pub(super) async fn groups(client: &Client) -> Result<BTreeSet<GroupVersion>, kube::Error> {
    let list = with_timeout(client.list_api_groups()).await?;
    let groups = list.groups.into_iter().flat_map(|group| {
        let name = group.name;
        group.versions.into_iter().map(move |served| GroupVersion {
            group: name.clone(),
            version: served.version,
        })
    });
    let core = GroupVersion {
        group: String::new(),
        version: "v1".to_owned(),
    };
    Ok(groups.chain([core]).collect())
}

fn read(
    list: APIResourceList,
    group: &str,
    version: &str,
    api_version: &str,
) -> HashMap<String, Arc<ApiKind>> {
    let mut kinds = HashMap::new();
    for served in list.resources {
        // `deployments/scale`: a subresource, whose kind may be that of another group.
        if served.name.contains('/') {
            continue;
        }
        let kind = ApiKind {
            resource: ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version: api_version.to_owned(),
                kind: served.kind.clone(),
                plural: served.name,
            },
            namespaced: served.namespaced,
        };
        kinds.entry(served.kind).or_insert_with(|| Arc::new(kind));
    }
    kinds
}

async fn with_timeout<T>(
    answer: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    match tokio::time::timeout(TIMEOUT, answer).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
    }
}
