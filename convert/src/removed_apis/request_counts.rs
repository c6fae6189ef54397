//! ServiceAccounts that called removed APIs, from the requests that OpenShift counts (`APIRequestCount`,
//! `apiserver.openshift.io/v1`).
//!
//! Each object is about one resource in one version, with a name such as
//! `flowschemas.v1beta3.flowcontrol.apiserver.k8s.io`. It covers the last 24 hours. For each hour and node, it lists the
//! ten (at most a hundred) users with the most requests. A listed call was made; a missing one may also have been made.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use manifests::{object::truncate, version::KubeVersion};
use serde::{Deserialize, Serialize};

/// Prefix of the user names of all ServiceAccounts.
const ACCOUNT: &str = "system:serviceaccount:";
/// Maximum number of stored pairs of ServiceAccount and API. A cluster has some hundreds of ServiceAccounts, and few
/// removed APIs.
const MAX_CALLS: usize = 20_000;
/// Maximum length of a stored name, in characters: names that the API server admits are shorter.
const MAX_NAME_LEN: usize = 400;

/// Status of an `APIRequestCount`, reduced to the fields that are read here.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestCount {
    /// The first minor version of Kubernetes that does not serve the API: `1.32`. Empty if no removal is announced.
    pub removed_in_release: Option<String>,
    /// Counts by hour, including the current one.
    pub last24h: Option<Vec<Hour>>,
}

/// Counts of one hour.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hour {
    /// Counts by control plane node.
    pub by_node: Option<Vec<Node>>,
}

/// Counts of one node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Counts by user and user agent.
    pub by_user: Option<Vec<User>>,
}

/// Counts of one user.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    /// The user name: `system:serviceaccount:etcd:etcd-operator`.
    pub username: String,
    /// The number of requests.
    pub request_count: i64,
}

/// Calls of an API by a ServiceAccount within a day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiCall {
    /// Resource, version and group: `flowschemas.v1beta3.flowcontrol.apiserver.k8s.io`.
    pub api: String,
    /// The first minor version of Kubernetes 1 that does not serve the API.
    pub until: u64,
    /// The ServiceAccount: `namespace:name`.
    pub account: String,
    /// The number of calls.
    pub count: u64,
}

impl fmt::Display for ApiCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            api,
            until,
            account,
            count,
        } = self;
        let account = account.replacen(':', "/", 1);
        let times = if *count == 1 { "time" } else { "times" };
        write!(
            f,
            "ServiceAccount {account} called {api} {count} {times} within a day; Kubernetes 1.{until} does not serve this API"
        )
    }
}

/// All calls of removed APIs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiCalls {
    /// Calls by ServiceAccount, as `namespace:name`.
    by_account: BTreeMap<String, Vec<ApiCall>>,
    total: usize,
    is_incomplete: bool,
}

impl ApiCalls {
    /// Reports whether no calls were counted.
    pub fn is_empty(&self) -> bool {
        self.by_account.is_empty()
    }

    /// Adds the counts of an API, if its removal is announced; `name` is that of the object.
    pub fn add(&mut self, name: &str, count: &RequestCount) {
        let release = count.removed_in_release.as_deref();
        let Some(release) = release.and_then(|text| text.parse::<KubeVersion>().ok()) else {
            return;
        };
        if release.major != 1 {
            return;
        }
        let mut by_account: BTreeMap<&str, u64> = BTreeMap::new();
        let nodes = count.last24h.iter().flatten();
        let nodes = nodes.flat_map(|hour| hour.by_node.iter().flatten());
        for user in nodes.flat_map(|node| node.by_user.iter().flatten()) {
            if let Some(account) = user.username.strip_prefix(ACCOUNT) {
                let times = u64::try_from(user.request_count).unwrap_or_default();
                let sum = by_account.entry(account).or_default();
                *sum = sum.saturating_add(times);
            }
        }
        let api = truncate(name, MAX_NAME_LEN);
        for (account, count) in by_account {
            if self.total >= MAX_CALLS {
                self.is_incomplete = true;
                return;
            }
            self.total += 1;
            let account = truncate(account, MAX_NAME_LEN);
            self.by_account
                .entry(account.clone())
                .or_default()
                .push(ApiCall {
                    api: api.clone(),
                    until: release.minor,
                    account,
                    count,
                });
        }
    }

    /// Returns the calls by ServiceAccounts (`namespace:name`) of APIs that one version serves and a later one does not.
    pub fn removed_api_calls<'a>(
        &self,
        accounts: impl IntoIterator<Item = &'a str>,
        from: KubeVersion,
        to: KubeVersion,
    ) -> BTreeSet<ApiCall> {
        let calls = accounts
            .into_iter()
            .filter_map(|account| self.by_account.get(account));
        calls
            .flatten()
            .filter(|call| from.minor < call.until && call.until <= to.minor)
            .cloned()
            .collect()
    }

    /// Reports whether calls exceeded the limit.
    pub fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn kube(minor: u64) -> KubeVersion {
        KubeVersion::new(1, minor)
    }

    fn count(removed: &str, users: &[(&str, i64)]) -> RequestCount {
        let user = |&(name, count): &(&str, i64)| json!({"username": name, "requestCount": count, "byVerb": null});
        let node = json!({"nodeName": "a", "requestCount": 1, "byUser": users.iter().map(user).collect::<Vec<Value>>()});
        let hour = json!({"byNode": [node], "requestCount": 1});
        let status = json!({
            "removedInRelease": removed, "requestCount": 5, "conditions": [],
            "currentHour": hour, "last24h": [hour, {"requestCount": 0}, hour],
        });
        serde_json::from_value(status).unwrap()
    }

    // parity: max-21
    #[test]
    fn accounts_are_listed_with_their_calls_to_removed_apis() {
        let mut calls = ApiCalls::default();
        let etcd = "system:serviceaccount:etcd:operator";
        let flow_schemas = "flowschemas.v1beta3.flowcontrol.apiserver.k8s.io";
        let (admin, other) = ("system:admin", "system:serviceaccount:a:b");
        let users = [(etcd, 3), (admin, 9), (other, 1)];
        calls.add(flow_schemas, &count("1.32", &users));
        calls.add("cronjobs.v1beta1.batch", &count("1.25", &[(etcd, 1)]));
        calls.add("pods.v1", &count("", &[(etcd, 100)]));
        for (account, from, to, expected) in ::tests::rows![
            "etcd:operator", 31, 32 => vec![(flow_schemas, 6)];
            "etcd:operator", 24, 32 => vec![("cronjobs.v1beta1.batch", 2), (flow_schemas, 6)];
            "etcd:operator", 32, 33 => vec![];
            "a:b", 31, 32 => vec![(flow_schemas, 2)];
            "etcd", 31, 32 => vec![];
            "", 0, 99 => vec![];
        ] {
            let found = calls.removed_api_calls([account], kube(from), kube(to));
            let found = found.iter().map(|call| (call.api.as_str(), call.count));
            assert_eq!(found.collect::<Vec<_>>(), expected, "{account} {from} {to}");
        }
        let found = calls.removed_api_calls(["etcd:operator"], kube(24), kube(25));
        assert_rows!(found.first().unwrap().to_string() => "ServiceAccount etcd/operator called cronjobs.v1beta1.batch 2 times \
            within a day; Kubernetes 1.25 does not serve this API");
    }

    #[test]
    fn invalid_counts_are_ignored_and_calls_are_bounded() {
        let mut calls = ApiCalls::default();
        let name = "system:serviceaccount:a:b";
        for removed in ["soon", "1", "2.0", "1.x", "-1.30"] {
            calls.add("x.v1", &count(removed, &[(name, 1)]));
        }
        let users = [(name, i64::MIN), ("system:serviceaccount:", 1)];
        calls.add("x.v1", &count("1.30", &users));
        assert_rows!(calls.removed_api_calls(["a:b"], kube(29), kube(30)).first().unwrap().count => 0);
        for status in r#"{}|{"last24h": null}|{"last24h": [{"byNode": null}, {}]}"#.split('|') {
            calls.add("x.v1", &serde_json::from_str(status).unwrap());
        }
        for number in 0..300 {
            let users: Vec<String> = (0..100).map(|user| format!("{name}{user}")).collect();
            let users: Vec<(&str, i64)> = users.iter().map(|user| (user.as_str(), 1)).collect();
            let api = format!("{number}{}", "x".repeat(5000));
            calls.add(&api, &count("1.30", &users));
        }
        assert!(calls.is_incomplete());
        let found = calls.removed_api_calls(["a:b7"], kube(29), kube(30));
        assert!(found.iter().map(|call| call.api.chars().count()).max() <= Some(MAX_NAME_LEN + 1));
        assert!(found.len() < 300);
    }
}
