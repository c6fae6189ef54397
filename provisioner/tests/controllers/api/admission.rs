//! Permission to name a service account requires impersonating it, and the Bundles of an instance belong to the
//! provisioner: every attempt that a policy denies, next to the requests that it must allow to the same users and to
//! controllers.

mod accounts;
mod bundles;

use kube::{
    Config,
    api::{DeleteParams, ListParams},
};

use super::*;
use crate::support::{self, eventually};

/// Users of the garbage collector, with one ServiceAccount per controller and with a shared identity.
const COLLECTORS: [&str; 2] = [
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
];
const INSTANCE: &str = "BundleInstance";
const BUNDLE: &str = "Bundle";
const OPERATOR: &str = "PlatformOperator";

/// A request, sent as a dry run.
enum Attempt<'a> {
    Create(&'a Value),
    Patch(&'a str, &'a str, Value),
    Delete(&'a str, &'a str),
    /// All objects with the label `table` of this value.
    DeleteAll(&'a str, &'a str),
}

impl Attempt<'_> {
    async fn send(&self, client: &Client) -> Result<(), String> {
        let patched = tests::with!(PatchParams, dry_run: true);
        let delete = tests::with!(DeleteParams, dry_run: true);
        let of = |kind: &str| api(client.clone(), kind);
        let sent = match self {
            Self::Create(object) => return create(client, object, true).await.map(drop),
            Self::Patch(kind, name, patch) => {
                let patch = Patch::Merge(patch);
                of(kind).patch(name, &patched, &patch).await.map(drop)
            }
            Self::Delete(kind, name) => of(kind).delete(name, &delete).await.map(drop),
            Self::DeleteAll(kind, label) => {
                let listed = ListParams::default().labels(&format!("table={label}"));
                of(kind).delete_collection(&delete, &listed).await.map(drop)
            }
        };
        answer(sent)
    }
}

/// Sends the attempts of a table: each is allowed, or its message has these parts.
async fn check(table: &[(&str, &Client, Attempt<'_>, &[&str])]) {
    for (case, client, attempt, expected) in table {
        match attempt.send(client).await {
            Ok(()) => assert!(expected.is_empty(), "allowed: {case}"),
            Err(message) => {
                assert!(!expected.is_empty(), "{case}: {message}");
                for part in *expected {
                    assert_has(format_args!("{case}: {message}"), part);
                }
            }
        }
    }
}

fn client_of(cluster: &Cluster, user: &str, groups: &[&str]) -> Client {
    let mut config: Config = cluster.config().clone();
    config.auth_info.impersonate = Some(user.to_owned());
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    config.auth_info.impersonate_groups = Some(groups);
    Client::try_from(config).unwrap()
}

/// A user with the permissions of cluster admins: only its name distinguishes it from them.
fn upkeep(cluster: &Cluster, user: &str) -> Client {
    client_of(cluster, user, &["system:masters"])
}

/// Gives a user a ClusterRole, in the whole cluster or in the namespace `default`.
async fn bind(user: &str, role: &str, kind: &str) {
    let namespace = (kind == "RoleBinding").then_some("default");
    let (subject, name) = (support::user(user), format!("{user}-{role}"));
    let (cluster, role) = (installed().await, ("ClusterRole", role));
    support::bind_role(cluster, &subject, namespace, role, &name).await;
}

/// Returns a client of a user who has these permissions on BundleInstances in the whole cluster, and no others.
async fn instance_admin(name: &str) -> Client {
    bind(name, "bundleinstances-admin", "ClusterRoleBinding").await;
    client_of(installed().await, name, &[])
}

async fn allowed(client: &Client, object: &Value) {
    let create = async || create(client, object, true).await;
    eventually("the user may create the object", create).await;
}

/// Waits until a policy denies an attempt: policies and new permissions take effect a moment after they were stored.
async fn denied(client: &Client, attempt: &Attempt<'_>, policy: &str) {
    eventually(&format!("{policy} is in force"), async || {
        match attempt.send(client).await {
            Err(message) if message.contains(policy) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
