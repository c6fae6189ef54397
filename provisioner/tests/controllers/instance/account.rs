//! Installations with the permissions of a ServiceAccount. The provisioner has only the permissions of the install file,
//! without the binding that allows all installations: it impersonates the account for every write.

use cluster::{Cluster, Options};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use manifests::api::bundle_instance::ServiceAccountRef;
use provisioner::cluster::impersonation::ImpersonatedClients;
use tokio::sync::OnceCell;

mod changed;
mod cluster_admin;
mod policies;

use super::*;
use crate::{
    api,
    support::{Provisioner, bind, eventually, service_account},
};

/// Returns a cluster after the install file and `kubectl delete clusterrolebinding provisioner-install-anything`.
async fn modest() -> &'static World {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static WORLD: OnceCell<World> = OnceCell::const_new();
    let start = || async {
        let start = || async { Cluster::start_with(&Options::default()).await };
        let cluster = CLUSTER
            .get_or_try_init(start)
            .await
            .expect("a control plane");
        let file = api::manifests("install/rukpak.yaml");
        let install = format!("apply --server-side --filename {file}");
        kubectl(cluster, &install, "").await;
        let modesty = "delete clusterrolebinding provisioner-install-anything";
        kubectl(cluster, modesty, "").await;
        for plural in ["bundles", "bundleinstances"] {
            let name = format!("{plural}.core.rukpak.io");
            cluster.wait_established(&name).await.unwrap();
        }
        cluster_admin::be_open_shift(cluster, "4.13.2").await;
        let options = support::Options {
            kubeconfig: Some(support::own_kubeconfig(cluster).await),
            ..support::Options::default()
        };
        World::with_provisioner(cluster, Provisioner::start(cluster, options).await)
    };
    WORLD.get_or_init(start).await
}

/// Runs kubectl with the arguments of a line and an input.
async fn kubectl(cluster: &Cluster, line: &str, input: &str) {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    api::kubectl(cluster, &arguments, input).await.unwrap();
}

/// Allows the provisioner to impersonate the accounts of a namespace.
async fn trust(world: &World, namespace: &str) {
    let provisioner = ServiceAccountRef {
        name: "provisioner".to_owned(),
        namespace: support::SYSTEM.to_owned(),
    };
    let role = "bundle-instance-impersonator";
    bind(world.cluster, Some(namespace), role, role, &provisioner).await;
}

/// Creates an account without permissions that the provisioner may impersonate.
async fn installer(world: &World, namespace: &str) -> ServiceAccountRef {
    trust(world, namespace).await;
    service_account(world.cluster, namespace, "installer").await
}

/// Creates an instance that is installed with an account.
async fn install(world: &World, name: &str, account: &ServiceAccountRef, objects: &[Value]) {
    let source = publish(world, &format!("{name}:v1"), objects).await;
    let mut instance = support::instance(name, "plain", source);
    instance.spec.service_account = Some(account.clone());
    world.create(&instance).await;
}

/// Creates an instance of an operator, in the namespace of the account that installs it.
async fn install_operator(world: &World, name: &str, account: ServiceAccountRef) {
    let content = support::operator(name, "1.0.0", &[]);
    let source = image(&world.push(&format!("{name}:v1"), &content).await);
    let mut instance = support::instance(name, "registry", source);
    instance.spec.install_namespace = Some(account.namespace.clone());
    instance.spec.service_account = Some(account);
    world.create(&instance).await;
}

/// Waits until an instance reports the missing permissions of its account, and grants them with the reported command,
/// `kubectl create -f -`.
async fn grant(world: &World, name: &str) -> String {
    let instance = says(world, name, "Installed", &["apply the manifest below"]).await;
    assert_eq!(line(&instance, "Installed"), "False InstallFailed");
    assert_eq!(line(&instance, "Progressing"), "False Blocked");
    let (_, granted) = message(&instance, "Installed")
        .split_once("\n---\n")
        .unwrap();
    kubectl(world.cluster, "create --filename -", granted).await;
    granted.to_owned()
}

/// Revokes the permissions that were granted in a namespace, and waits until the API server denies them.
async fn revoke(world: &World, account: &ServiceAccountRef) {
    let api = Api::<RoleBinding>::namespaced(world.client(), &account.namespace);
    for binding in api.list(&ListParams::default()).await.unwrap() {
        if binding.name_any().starts_with("install-") {
            support::delete(&api, &binding.name_any()).await;
        }
    }
    let accounts = ImpersonatedClients::new(world.cluster.config().clone()).unwrap();
    let client = accounts.client(Some(account)).unwrap();
    let maps = Api::<ConfigMap>::namespaced(client, &account.namespace);
    eventually("the account has no rights any more", async || {
        match maps.get("a").await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

// parity: rukpak-46, complaint-13
#[tokio::test]
async fn operator_is_installed_with_the_reported_permissions() {
    let world = modest().await;
    let (name, space) = fresh(world, "tenant").await;
    install_operator(world, &name, installer(world, space.name()).await).await;
    let live = says(world, &name, "Installed", &["lacks permissions"]).await;
    let lacks =
        format!("ServiceAccount {space}/installer lacks permissions required by this bundle");
    assert!(message(&live, "Installed").starts_with(&lacks), "{live:?}");
    let operators = deployments(world, space.name());
    let begun = operators.list(&ListParams::default()).await.unwrap();
    assert_eq!(begun.items, []);

    // One report is enough: it includes the permissions to watch.
    let granted = grant(world, &name).await;
    let instance = world.wait_instance(&name, "Installed", "True").await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    world.cluster.stand_in_node().await.unwrap();
    world.wait_instance(&name, "Healthy", "True").await;
    let kinds = ["kind: ClusterRole\n", "kind: Role\n"];
    for part in kinds
        .into_iter()
        .chain(["customresourcedefinitions", "deployments"])
    {
        assert_has(&granted, part);
    }

    // Repairs need these permissions too, in a namespace and cluster-wide.
    let operator = format!("{name}-operator");
    let before = operators.get(&operator).await.unwrap().uid();
    support::delete(&operators, &operator).await;
    support::wait_for(
        operators.clone(),
        &operator,
        "back",
        |deployment: &Deployment| (deployment.uid() != before).then_some(()),
    )
    .await;
    let selector = format!("{}={name}", labels::OWNER_NAME);
    let owned = ListParams::default().labels(&selector);
    let roles = world.api::<ClusterRole>().list(&owned).await.unwrap().items;
    assert!(!roles.is_empty());
    let role = roles[0].name_any();
    patch_as_other(&world.api::<ClusterRole>(), &role, json!({"rules": []})).await;
    support::wait_for(world.api(), &role, "repaired", |role: &ClusterRole| {
        (role.rules == roles[0].rules).then_some(())
    })
    .await;

    delete(world, &name).await;
    support::wait_deleted(operators, &operator).await;
    support::wait_deleted(world.api::<ClusterRole>(), &role).await;
    let bindings = world
        .api::<ClusterRoleBinding>()
        .list(&owned)
        .await
        .unwrap();
    assert_eq!(bindings.items, []);
}

#[tokio::test]
async fn revoked_permissions_are_reported_and_affect_no_others() {
    let world = modest().await;
    let mut tenants = Vec::new();
    for prefix in ["revoked", "bystander"] {
        let (name, space) = fresh(world, prefix).await;
        let account = installer(world, space.name()).await;
        let objects = [map(space.name(), "a", &[("v", "1")])];
        install(world, &name, &account, &objects).await;
        let granted = grant(world, &name).await;
        world.wait_instance(&name, "Healthy", "True").await;
        tenants.push((name, space, account, granted));
    }
    let (name, space, account, granted) = &tenants[0];
    let (bystander, other, ..) = &tenants[1];

    revoke(world, account).await;
    for namespace in [space.name(), other.name()] {
        let patch = json!({"data": {"v": "2"}});
        patch_as_other(&maps(world, namespace), "a", patch).await;
    }
    let instance = says(world, name, "Installed", &["cannot patch"]).await;
    assert_eq!(line(&instance, "Installed"), "True ReconcileFailed");
    let parts = [
        "is installed, but some of its objects are not in the desired state",
        &format!("ConfigMap {space}/a"),
        "grant this permission to the account",
    ];
    assert_message(&instance, "Installed", &parts);
    has_value(world, other.name(), "a", "v", "1").await;
    let bystanding = read(world, bystander).await;
    assert_eq!(line(&bystanding, "Installed"), "True InstallationSucceeded");
    has_value(world, space.name(), "a", "v", "2").await;

    // The roles still exist: only their bindings are created.
    kubectl(world.cluster, "apply --filename -", granted).await;
    has_value(world, space.name(), "a", "v", "1").await;
    wait_reason(world, name, "Installed", "InstallationSucceeded").await;

    // The uninstall needs the permissions as well, and leaves no objects behind.
    revoke(world, account).await;
    let api: Api<BundleInstance> = world.api();
    support::delete(&api, name).await;
    let object = format!("ConfigMap {space}/a");
    let instance = says(world, name, "Progressing", &[&object]).await;
    assert_eq!(line(&instance, "Progressing"), "True Retrying");
    assert_message(&instance, "Progressing", &["grant this permission"]);
    maps(world, space.name()).get("a").await.unwrap();
    kubectl(world.cluster, "apply --filename -", granted).await;
    support::wait_deleted(api, name).await;
    support::wait_deleted(maps(world, space.name()), "a").await;
    changed::another_account_is_checked_and_used(world, bystander, &tenants[1].2).await;
    delete(world, bystander).await;
}

/// Waits until an instance without an account reports the permissions that the provisioner lacks.
async fn own_permissions_are_reported(world: &World, name: &str) {
    let parts = [
        "lacks permissions",
        "bind ClusterRole provisioner-install-anything",
        "set a spec.serviceAccount",
    ];
    says(world, name, "Installed", &parts).await;
}

/// Removes the binding that lets the provisioner impersonate an account, and waits until that is reported.
async fn revoked_trust_is_reported(world: &World, name: &str, space: &str, binding: &str) {
    let line_of_command = format!("delete rolebinding {binding} --namespace {space}");
    kubectl(world.cluster, &line_of_command, "").await;
    eventually("the missing binding is reported", async || {
        let altered = json!({"data": {"v": unique("v")}});
        patch_as_other(&maps(world, space), "a", altered).await;
        let instance = read(world, name).await;
        let problem = message(&instance, "Installed");
        (line(&instance, "Installed") == "True ReconcileFailed"
            && problem.contains("bind ClusterRole bundle-instance-impersonator"))
        .then_some(())
        .ok_or_else(|| problem.to_owned())
    })
    .await;
}

// parity: complaint-13
#[tokio::test]
async fn account_problems_are_reported_with_their_remedies() {
    let world = modest().await;
    let (name, space) = fresh(world, "account").await;
    let objects = [map(space.name(), "a", &[("v", "1")])];
    declare(world, &name, &objects).await;
    own_permissions_are_reported(world, &name).await;

    // The account does not exist.
    trust(world, space.name()).await;
    let named = json!({"name": "installer", "namespace": space.name()});
    change(world, &name, json!({"spec": {"serviceAccount": named}})).await;
    let refused = says(world, &name, "Installed", &["does not exist"]).await;
    assert_eq!(
        message(&refused, "Installed"),
        format!(
            "ServiceAccount {space}/installer does not exist: create it, or correct spec.serviceAccount"
        )
    );

    // The provisioner is not allowed to impersonate the account.
    let deletion = format!("delete rolebinding bundle-instance-impersonator --namespace {space}");
    kubectl(world.cluster, &deletion, "").await;
    service_account(world.cluster, space.name(), "installer").await;
    let denied =
        format!("the provisioner is not allowed to impersonate ServiceAccount {space}/installer");
    let parts = [denied.as_str(), "cannot impersonate"];
    let refused = says(world, &name, "Installed", &parts).await;
    let problem = message(&refused, "Installed");
    // The command in the message is complete.
    let (_, command) = problem
        .split_once("run as a cluster admin: kubectl ")
        .unwrap();
    kubectl(world.cluster, command, "").await;
    grant(world, &name).await;
    world.wait_instance(&name, "Healthy", "True").await;

    let binding = command.split_whitespace().nth(2).unwrap();
    revoked_trust_is_reported(world, &name, space.name(), binding).await;
    kubectl(world.cluster, command, "").await;
    has_value(world, space.name(), "a", "v", "1").await;
    delete(world, &name).await;
    support::wait_deleted(maps(world, space.name()), "a").await;
}
