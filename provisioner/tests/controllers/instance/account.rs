//! Installations with the permissions of a ServiceAccount. The provisioner has only the permissions of the install file,
//! without the binding that allows all installations: it impersonates the account for every write.

use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use manifests::api::bundle_instance::ServiceAccountRef;
use provisioner::cluster::impersonation::from_reference;
use tokio::sync::OnceCell;

use super::*;
use crate::api;
use crate::support::{bind, service_account};

/// Returns a cluster after the install file and `kubectl delete clusterrolebinding provisioner-install-anything`.
async fn modest() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    let start = || async {
        let cluster = Cluster::start_with(&cluster::Options::default()).await;
        let cluster: &'static Cluster = Box::leak(Box::new(cluster.unwrap()));
        let file = api::manifests("install/rukpak.yaml");
        let install = format!("apply --server-side --filename {file}");
        kubectl(cluster, &install, "").await;
        let modesty = "delete clusterrolebinding provisioner-install-anything";
        kubectl(cluster, modesty, "").await;
        for plural in ["bundles", "bundleinstances"] {
            let name = format!("{plural}.core.rukpak.io");
            cluster.wait_established(&name).await.unwrap();
        }
        let kubeconfig = Some(support::own_kubeconfig(cluster).await);
        let options = tests::with!(Options, kubeconfig);
        World::with_provisioner(cluster, Provisioner::start(cluster, options).await)
    };
    WORLD.get_or_init(start).await
}

async fn kubectl(cluster: &Cluster, line: &str, input: &str) {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    api::kubectl(cluster, &arguments, input).await.unwrap();
}

/// Allows the provisioner to impersonate the accounts of a namespace.
async fn trust(world: &World, namespace: &str) {
    let provisioner = support::account(support::SYSTEM, "provisioner");
    let name = "bundle-instance-impersonator";
    let (space, role) = (Some(namespace), ("ClusterRole", name));
    support::bind_role(world.cluster, &provisioner, space, role, name).await;
}

/// Creates an account without permissions that the provisioner may impersonate.
async fn installer(world: &World, namespace: &str) -> ServiceAccountRef {
    trust(world, namespace).await;
    service_account(world.cluster, namespace, "installer").await
}

async fn install(world: &World, name: &str, account: &ServiceAccountRef, objects: &[Value]) {
    let account = Some(account.clone());
    declare_with(world, name, objects, |spec| spec.service_account = account).await;
}

/// Waits until an instance reports the missing permissions of its account, and grants them with the reported command,
/// `kubectl create -f -`.
async fn grant(world: &World, name: &str) -> String {
    let instance = refused(world, name, &["apply the manifest below"]).await;
    assert_eq!(line(&instance, "Progressing"), "False Blocked");
    let text = message(&instance, "Installed");
    let (_, granted) = text.split_once("\n---\n").unwrap();
    kubectl(world.cluster, "create --filename -", granted).await;
    granted.to_owned()
}

/// Installs a ConfigMap with an account, and grants the reported permissions.
async fn tenant(world: &World, prefix: &str) -> (String, TempNamespace, ServiceAccountRef, String) {
    let (name, space) = fresh(world, prefix).await;
    let account = installer(world, space.name()).await;
    install(world, &name, &account, &[a(space.name(), "1")]).await;
    let granted = grant(world, &name).await;
    world.wait_instance(&name, "Healthy", "True").await;
    (name, space, account, granted)
}

/// Revokes the permissions that were granted in a namespace, and waits until the API server denies them.
async fn revoke(world: &World, account: &ServiceAccountRef) {
    let api = Api::<RoleBinding>::namespaced(world.client(), &account.namespace);
    for binding in support::list(&api).await {
        if binding.name_any().starts_with("install-") {
            support::delete(&api, &binding.name_any()).await;
        }
    }
    let denied = (false, "get", "configmaps", &*account.namespace);
    let user = from_reference(account).service_account_user();
    support::wait_permission(world.cluster, &user, denied).await;
}

// parity: rukpak-46, complaint-13
#[tokio::test]
async fn operator_is_installed_with_the_reported_permissions() {
    let world = modest().await;
    let (name, space) = fresh(world, "tenant").await;
    let content = support::operator(&name, "1.0.0", &[]);
    let source = image(&world.push(&format!("{name}:v1"), &content).await);
    let mut instance = support::instance(&name, "registry", source);
    instance.spec.install_namespace = Some(space.name().to_owned());
    instance.spec.service_account = Some(installer(world, space.name()).await);
    world.create(&instance).await;
    let live = wait_message(world, &name, "Installed", &["lacks permissions"]).await;
    let lacks =
        format!("ServiceAccount {space}/installer lacks permissions required by this bundle");
    assert!(message(&live, "Installed").starts_with(&lacks), "{live:?}");
    let operators = deployments(world, space.name());
    assert_eq!(support::list(&operators).await, []);

    // One report is enough: it includes the permissions to watch.
    let granted = grant(world, &name).await;
    let instance = world.wait_instance(&name, "Installed", "True").await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    world.cluster.stand_in_node().await.unwrap();
    world.wait_instance(&name, "Healthy", "True").await;
    has_parts(&granted, &["kind: ClusterRole\n", "kind: Role\n"]);
    has_parts(&granted, &["customresourcedefinitions", "deployments"]);

    // Repairs need these permissions too, in a namespace and cluster-wide.
    let operator = format!("{name}-operator");
    let before = operators.get(&operator).await.unwrap().uid();
    support::delete(&operators, &operator).await;
    support::wait_recreated(operators.clone(), &operator, before).await;
    let (owned, roles) = (owned_by(&name), world.api::<ClusterRole>());
    let role = roles.list(&owned).await.unwrap().items.remove(0);
    patch_as_other(&roles, &role.name_any(), json!({"rules": []})).await;
    let is_repaired = |found: &ClusterRole| (found.rules == role.rules).then_some(());
    wait_for(roles.clone(), &role.name_any(), "repaired", is_repaired).await;

    world.uninstall(&name).await;
    wait_deleted(operators, &operator).await;
    wait_deleted(roles, &role.name_any()).await;
    tests::assert_rows!(world.api::<ClusterRoleBinding>().list(&owned).await.unwrap().items => []);
}

#[tokio::test]
async fn revoked_permissions_are_reported_and_affect_no_others() {
    let world = modest().await;
    let (name, space, account, granted) = &tenant(world, "revoked").await;
    let (bystander, other, other_account, _) = &tenant(world, "bystander").await;

    revoke(world, account).await;
    for namespace in [space.name(), other.name()] {
        let patch = json!({"data": {"v": "2"}});
        patch_as_other(&maps(world, namespace), "a", patch).await;
    }
    let parts = [
        "cannot patch",
        "is installed, but some of its objects are not in the desired state",
        &format!("ConfigMap {space}/a"),
        "grant this permission to the account",
    ];
    tests::assert_rows!(line(&wait_message(world, name, "Installed", &parts).await, "Installed") => "True ReconcileFailed");
    has_value(world, other.name(), "a", "v", "1").await;
    tests::assert_rows!(line(&read(world, bystander).await, "Installed") => "True InstallationSucceeded");
    has_value(world, space.name(), "a", "v", "2").await;

    // The roles still exist: only their bindings are created.
    kubectl(world.cluster, "apply --filename -", granted).await;
    has_value(world, space.name(), "a", "v", "1").await;
    wait_reason(world, name, "Installed", "InstallationSucceeded").await;

    // The uninstall needs the permissions as well, and leaves no objects behind.
    revoke(world, account).await;
    let api: Api<BundleInstance> = world.api();
    support::delete(&api, name).await;
    let parts = ["grant this permission", &format!("ConfigMap {space}/a")];
    tests::assert_rows!(line(&wait_message(world, name, "Progressing", &parts).await, "Progressing") => "True Retrying");
    maps(world, space.name()).get("a").await.unwrap();
    kubectl(world.cluster, "apply --filename -", granted).await;
    wait_deleted(api, name).await;
    wait_deleted(maps(world, space.name()), "a").await;

    // The permissions of another account in the spec are checked at once.
    let namespace = other.name();
    let second = service_account(world.cluster, namespace, "second").await;
    let patch = json!({"spec": {"serviceAccount": second}});
    change(world, bystander, patch).await;
    let lacking = wait_message(world, bystander, "Installed", &["apply the manifest below"]).await;
    assert_eq!(line(&lacking, "Installed"), "True ReconcileFailed");
    // The recorded revision is repaired with the first account, because the others have no permission.
    let api = maps(world, namespace);
    patch_as_other(&api, "a", json!({"data": {"v": "2"}})).await;
    has_value(world, namespace, "a", "v", "1").await;
    // Later repairs use the second account.
    let (cluster, space) = (world.cluster, Some(namespace));
    bind(cluster, space, "second", "cluster-admin", &second).await;
    wait_reason(world, bystander, "Installed", "InstallationSucceeded").await;
    revoke(world, other_account).await;
    patch_as_other(&api, "a", json!({"data": {"v": "2"}})).await;
    has_value(world, namespace, "a", "v", "1").await;
    world.uninstall(bystander).await;
}

// parity: complaint-13
#[tokio::test]
async fn account_problems_are_reported_with_their_remedies() {
    let world = modest().await;
    let (name, space) = fresh(world, "account").await;
    declare(world, &name, &[a(space.name(), "1")]).await;
    let parts = [
        "lacks permissions",
        "bind ClusterRole provisioner-install-anything",
        "set a spec.serviceAccount",
    ];
    wait_message(world, &name, "Installed", &parts).await;

    // The account does not exist.
    trust(world, space.name()).await;
    let named = json!({"name": "installer", "namespace": space.name()});
    change(world, &name, json!({"spec": {"serviceAccount": named}})).await;
    let missing = format!("ServiceAccount {space}/installer does not exist: ");
    let refused = wait_message(world, &name, "Installed", &[&missing]).await;
    tests::assert_rows!(message(&refused, "Installed") => missing + "create it, or correct spec.serviceAccount");

    // The provisioner is not allowed to impersonate the account.
    let deletion = format!("delete rolebinding bundle-instance-impersonator --namespace {space}");
    kubectl(world.cluster, &deletion, "").await;
    service_account(world.cluster, space.name(), "installer").await;
    let denied =
        format!("the provisioner is not allowed to impersonate ServiceAccount {space}/installer");
    let parts = [denied.as_str(), "cannot impersonate"];
    let refused = wait_message(world, &name, "Installed", &parts).await;
    let problem = message(&refused, "Installed");
    // The command in the message is complete.
    let introduction = "run as a cluster admin: kubectl ";
    let (_, command) = problem.split_once(introduction).unwrap();
    kubectl(world.cluster, command, "").await;
    grant(world, &name).await;
    world.wait_instance(&name, "Healthy", "True").await;

    // Without its binding, the provisioner reports that it is not allowed to impersonate the account.
    let binding = command.split_whitespace().nth(2).unwrap();
    let deletion = format!("delete rolebinding {binding} --namespace {space}");
    kubectl(world.cluster, &deletion, "").await;
    let altered = async || {
        let altered = json!({"data": {"v": unique("v")}});
        patch_as_other(&maps(world, space.name()), "a", altered).await;
        let instance = read(world, &name).await;
        let line = line(&instance, "Installed");
        format!("{line} {}", message(&instance, "Installed"))
    };
    let pattern = "True ReconcileFailed *bind ClusterRole bundle-instance-impersonator*";
    let is_reported = |text: &String| tests::table::matches(pattern, text);
    support::until("the missing binding is reported", altered, is_reported).await;
    kubectl(world.cluster, command, "").await;
    has_value(world, space.name(), "a", "v", "1").await;
    world.uninstall(&name).await;
    wait_deleted(maps(world, space.name()), "a").await;
}

#[tokio::test]
async fn the_install_file_belongs_to_no_bundle() {
    let world = modest().await;
    let (name, space) = fresh(world, "mighty").await;
    let account = installer(world, space.name()).await;
    bind(world.cluster, None, &name, "cluster-admin", &account).await;
    let group = "rbac.authorization.k8s.io";
    let policy = "bundleinstance-service-account";
    let mut crd = support::crd("core.rukpak.io", "Bundle");
    crd["spec"]["scope"] = "Cluster".into();
    crd["spec"]["versions"][0]["name"] = "v1alpha1".into();
    let objects = [
        crd,
        map(space.name(), "a", &[]),
        cluster_role("provisioner"),
        json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "provisioner"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "provisioner"}, "subjects": []}),
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": policy}, "spec": {"policyName": policy, "validationActions": ["Audit"]}}),
        deployment(support::SYSTEM, "core", 0, "v1", "ready"),
    ];
    let roles = world.api::<ClusterRole>();
    let crds: Api<CustomResourceDefinition> = world.api();
    let state = async || {
        let role = roles.get("provisioner").await.unwrap();
        let crd = crds.get("bundles.core.rukpak.io").await.unwrap();
        (role.uid(), role.rules, crd.metadata.generation)
    };
    let before = state().await;
    install(world, &name, &account, &objects).await;
    let parts = [
        "ClusterRole provisioner already exists and is owned by",
        "ClusterRoleBinding provisioner already exists and is owned by",
        "ValidatingAdmissionPolicyBinding bundleinstance-service-account already exists and is owned by",
        "Deployment rukpak-system/core would be created in the provisioner's namespace",
        "CustomResourceDefinition bundles.core.rukpak.io belongs to the provisioner",
    ];
    let refused = refused(world, &name, &parts).await;
    let message = message(&refused, "Installed");
    assert!(!message.contains(labels::ADOPT), "{message}");
    world.uninstall(&name).await;
    no_bundles(world, &name).await;
    assert_eq!(state().await, before);
    assert_eq!(maps(world, space.name()).get_opt("a").await.unwrap(), None);
}

/// The admission policies of the install file affect neither the provisioner nor the garbage collector.
#[tokio::test]
async fn policies_permit_upgrades_and_garbage_collection() {
    let world = modest().await;
    for cascade in ["orphan", "background", "foreground"] {
        let (name, space, ..) = tenant(world, "upkeep").await;
        upgrade(world, &name, "v2", &[a(space.name(), "2")]).await;
        has_value(world, space.name(), "a", "v", "2").await;
        world.wait_instance(&name, "Healthy", "True").await;
        let deletion = format!("delete bundleinstance {name} --cascade={cascade}");
        kubectl(world.cluster, &deletion, "").await;
        wait_deleted::<BundleInstance>(world.api(), &name).await;
        no_bundles(world, &name).await;
        let left = maps(world, space.name()).get_opt("a").await.unwrap();
        assert_eq!(left.is_some(), cascade == "orphan", "{cascade}: {left:?}");
    }
}
