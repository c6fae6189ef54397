//! Installing with the rights of a ServiceAccount, by a provisioner that has only those the install file gives it, without
//! the binding that lets it install anything: whatever it does here, it does as that account.

use cluster::{Cluster, Options};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding},
};
use kube::api::{DeleteParams, PostParams};
use manifests::{api::instance::ServiceAccountRef, yaml};
use provisioner::account::Accounts;
use tokio::sync::OnceCell;

mod mighty;
mod other;
mod policies;

use super::*;
use crate::{
    api::{kubectl, manifests as file},
    support::{Provisioner, eventually},
};

/// An admin's cluster after the install file and `kubectl delete clusterrolebinding provisioner-install-anything`.
async fn modest() -> &'static World {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    static WORLD: OnceCell<World> = OnceCell::const_new();
    let start = || async {
        let start = || async { Cluster::start_with(&Options::default()).await };
        let cluster = CLUSTER
            .get_or_try_init(start)
            .await
            .expect("a control plane");
        let install = [
            "apply",
            "--server-side",
            "--filename",
            &file("install/rukpak.yaml"),
        ];
        kubectl(cluster, &install, "").await.unwrap();
        let modesty = [
            "delete",
            "clusterrolebinding",
            "provisioner-install-anything",
        ];
        kubectl(cluster, &modesty, "").await.unwrap();
        for plural in ["bundles", "bundleinstances"] {
            let name = format!("{plural}.core.rukpak.io");
            cluster.wait_established(&name).await.unwrap();
        }
        mighty::be_open_shift(cluster, "4.13.2").await;
        let options = support::Options {
            kubeconfig: Some(kubeconfig(cluster).await),
            ..support::Options::default()
        };
        World::of(cluster, Provisioner::start(cluster, options).await)
    };
    WORLD.get_or_init(start).await
}

/// What the pod of the install file would reach the apiserver with.
async fn kubeconfig(cluster: &Cluster) -> String {
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client().unwrap(), support::SYSTEM);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let token = accounts
        .create_token_request("provisioner", &PostParams::default(), &request)
        .await
        .unwrap();
    let text = std::fs::read(cluster.kubeconfig_path()).unwrap();
    let mut config = yaml::documents(&text).next().unwrap().unwrap();
    config["users"][0]["user"] = json!({"token": token.status.unwrap().token.unwrap()});
    config.to_string()
}

/// An account of a namespace without any rights.
async fn account(world: &World, namespace: &str) -> ServiceAccountRef {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "installer", "namespace": namespace},
    });
    world.apply(&account).await;
    nobody(namespace)
}

/// The same account, which nobody has made.
fn nobody(namespace: &str) -> ServiceAccountRef {
    ServiceAccountRef {
        name: "installer".to_owned(),
        namespace: namespace.to_owned(),
    }
}

/// Lets the provisioner act as the accounts of a namespace.
async fn trust(world: &World, namespace: &str) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "bundle-instance-impersonator", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bundle-instance-impersonator"},
        "subjects": [{"kind": "ServiceAccount", "name": "provisioner", "namespace": support::SYSTEM}],
    });
    world.apply(&binding).await;
}

/// Creates an instance that is installed as an account.
async fn install(world: &World, name: &str, account: &ServiceAccountRef, objects: &[Value]) {
    let source = publish(world, &format!("{name}:v1"), objects).await;
    let mut instance = support::instance(name, "plain", source);
    instance.spec.service_account = Some(account.clone());
    world.create(&instance).await;
}

/// Waits until a condition says something.
async fn says(world: &World, name: &str, type_: &str, words: &str) -> BundleInstance {
    let what = format!("{type_} {words:?}");
    support::wait_for(world.api(), name, &what, |it: &BundleInstance| {
        let found = condition(&it.status.as_ref()?.conditions, type_)?;
        found.message.contains(words).then_some(())
    })
    .await
}

/// Waits until an instance tells what its account lacks, and does with it what it says: `kubectl create -f -`.
async fn grant(world: &World, name: &str) -> String {
    let instance = says(world, name, "Installed", "kubectl create -f - and this").await;
    assert_eq!(line(&instance, "Installed"), "False InstallFailed");
    assert_eq!(line(&instance, "Progressing"), "False Blocked");
    let (_, granted) = message(&instance, "Installed")
        .split_once("\n---\n")
        .unwrap();
    let create = ["create", "--filename", "-"];
    kubectl(world.cluster, &create, granted).await.unwrap();
    granted.to_owned()
}

/// Takes away what was granted in a namespace, and waits until that counts.
async fn revoke(world: &World, account: &ServiceAccountRef) {
    let api = Api::<RoleBinding>::namespaced(world.client(), &account.namespace);
    for binding in api.list(&ListParams::default()).await.unwrap() {
        if binding.name_any().starts_with("install-") {
            api.delete(&binding.name_any(), &DeleteParams::default())
                .await
                .unwrap();
        }
    }
    let accounts = Accounts::new(world.cluster.config().clone()).unwrap();
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
async fn an_operator_lives_with_exactly_the_rights_that_its_account_was_said_to_lack() {
    let world = modest().await;
    let (name, space) = (
        unique("tenant"),
        world.cluster.temp_namespace("tenant").await.unwrap(),
    );
    let account = account(world, space.name()).await;
    trust(world, space.name()).await;
    let content = support::operator(&name, "1.0.0", &[]);
    let source = image(&world.push(&format!("{name}:v1"), &content).await);
    let mut instance = support::instance(&name, "registry", source);
    instance.spec.service_account = Some(account.clone());
    instance.spec.install_namespace = Some(space.name().to_owned());
    world.create(&instance).await;
    let told = says(world, &name, "Installed", "lacks rights").await;
    assert!(
        message(&told, "Installed").starts_with(&format!(
            "ServiceAccount {space}/installer lacks rights that this bundle takes"
        )),
        "{told:?}"
    );
    let api = deployments(world, space.name());
    let begun = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(begun.items, []);

    // Told once: what was granted is all that it takes, to watch included.
    let granted = grant(world, &name).await;
    let instance = world.wait_instance(&name, "Installed", "True").await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    let healthy = world.cluster.stand_in_node();
    healthy.await.unwrap();
    world.wait_instance(&name, "Healthy", "True").await;
    for part in [
        "kind: ClusterRole\n",
        "kind: Role\n",
        "customresourcedefinitions",
        "deployments",
    ] {
        assert!(granted.contains(part), "{part} is not in {granted}");
    }

    // In a namespace and outside of one, repairs take those rights, too.
    let operator = format!("{name}-operator");
    let before = deployments(world, space.name()).get(&operator).await;
    deployments(world, space.name())
        .delete(&operator, &DeleteParams::default())
        .await
        .unwrap();
    eventually("the deployment is back", async || {
        let now = deployments(world, space.name()).get(&operator).await;
        let now = now.map_err(|error| error.to_string())?;
        (now.uid() != before.as_ref().unwrap().uid())
            .then_some(())
            .ok_or_else(|| "the old one is there".to_owned())
    })
    .await;
    let selector = format!("{}={name}", labels::OWNER_NAME);
    let ours = ListParams::default().labels(&selector);
    let roles = world.api::<ClusterRole>().list(&ours).await.unwrap().items;
    assert!(!roles.is_empty());
    let role = roles[0].name_any();
    meddle(&world.api::<ClusterRole>(), &role, json!({"rules": []})).await;
    support::wait_for(world.api(), &role, "repaired", |it: &ClusterRole| {
        (it.rules == roles[0].rules).then_some(())
    })
    .await;

    delete(world, &name).await;
    support::gone(deployments(world, space.name()), &operator).await;
    support::gone(world.api::<ClusterRole>(), &role).await;
    let bindings = world.api::<ClusterRoleBinding>().list(&ours).await.unwrap();
    assert_eq!(bindings.items, []);
}

#[tokio::test]
async fn rights_that_are_taken_away_are_told_and_harm_nobody_else() {
    let world = modest().await;
    let mut tenants = Vec::new();
    for prefix in ["revoked", "bystander"] {
        let (name, space) = (
            unique(prefix),
            world.cluster.temp_namespace(prefix).await.unwrap(),
        );
        let account = account(world, space.name()).await;
        trust(world, space.name()).await;
        install(
            world,
            &name,
            &account,
            &[map(space.name(), "a", &[("v", "1")])],
        )
        .await;
        let granted = grant(world, &name).await;
        world.wait_instance(&name, "Healthy", "True").await;
        tenants.push((name, space, account, granted));
    }
    let (name, space, account, granted) = &tenants[0];
    let (bystander, other, ..) = &tenants[1];

    revoke(world, account).await;
    for namespace in [space.name(), other.name()] {
        let patch = json!({"data": {"v": "2"}});
        meddle(&maps(world, namespace), "a", patch).await;
    }
    let told = says(world, name, "Installed", "cannot patch").await;
    assert_eq!(line(&told, "Installed"), "True ReconcileFailed");
    let said = message(&told, "Installed");
    for part in [
        "is installed, but not all of it",
        &format!("ConfigMap {space}/a"),
        "grant this permission to the account",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    has_value(world, other.name(), "a", "v", "1").await;
    assert_eq!(
        line(&read(world, bystander).await, "Installed"),
        "True InstallationSucceeded"
    );
    has_value(world, space.name(), "a", "v", "2").await;

    // The roles are still there, so that only their bindings are made.
    let again = ["apply", "--filename", "-"];
    kubectl(world.cluster, &again, granted).await.unwrap();
    has_value(world, space.name(), "a", "v", "1").await;
    wait_reason(world, name, "Installed", "InstallationSucceeded").await;

    // Nor can it be removed without them, and nothing is left behind by that.
    revoke(world, account).await;
    let api: Api<BundleInstance> = world.api();
    api.delete(name, &DeleteParams::default()).await.unwrap();
    let told = says(world, name, "Progressing", &format!("ConfigMap {space}/a")).await;
    assert_eq!(line(&told, "Progressing"), "True Retrying");
    assert!(message(&told, "Progressing").contains("grant this permission"));
    maps(world, space.name()).get("a").await.unwrap();
    kubectl(world.cluster, &again, granted).await.unwrap();
    support::gone(api, name).await;
    support::gone(maps(world, space.name()), "a").await;
    other::another_account_is_checked_and_used(world, bystander, &tenants[1].2).await;
    delete(world, bystander).await;
}

/// Waits until an instance without an account reports the permissions that the provisioner lacks.
async fn own_permissions_are_reported(world: &World, name: &str) {
    let refused = says(world, name, "Installed", "lacks rights").await;
    let problem = message(&refused, "Installed");
    for part in [
        "bind ClusterRole provisioner-install-anything",
        "name a spec.serviceAccount",
    ] {
        assert!(problem.contains(part), "{part} is not in: {problem}");
    }
}

/// Removes the binding that lets the provisioner impersonate an account, and waits until that is reported.
async fn revoked_trust_is_reported(world: &World, name: &str, space: &str, binding: &str) {
    let arguments = ["delete", "rolebinding", binding, "--namespace", space];
    kubectl(world.cluster, &arguments, "").await.unwrap();
    eventually("the missing binding is reported", async || {
        let altered = json!({"data": {"v": unique("v")}});
        meddle(&maps(world, space), "a", altered).await;
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
    let name = unique("account");
    let space = world.cluster.temp_namespace("account").await.unwrap();
    let objects = [map(space.name(), "a", &[("v", "1")])];
    let source = publish(world, &format!("{name}:v1"), &objects).await;
    world.instance(&name, "plain", source).await;
    own_permissions_are_reported(world, &name).await;

    // The account does not exist.
    trust(world, space.name()).await;
    let named = nobody(space.name());
    change(world, &name, json!({"spec": {"serviceAccount": named}})).await;
    let refused = says(world, &name, "Installed", "does not exist").await;
    assert_eq!(
        message(&refused, "Installed"),
        format!(
            "ServiceAccount {space}/installer does not exist: create it, or correct spec.serviceAccount"
        )
    );

    // The provisioner is not allowed to impersonate the account.
    let binding = "bundle-instance-impersonator";
    let arguments = [
        "delete",
        "rolebinding",
        binding,
        "--namespace",
        space.name(),
    ];
    kubectl(world.cluster, &arguments, "").await.unwrap();
    account(world, space.name()).await;
    let refused = says(world, &name, "Installed", "may not act as").await;
    let problem = message(&refused, "Installed");
    for part in [
        format!("the provisioner may not act as ServiceAccount {space}/installer"),
        "cannot impersonate".to_owned(),
    ] {
        assert!(problem.contains(&part), "{part} is not in: {problem}");
    }
    // The command in the message is complete.
    let (_, command) = problem.split_once("with: kubectl ").unwrap();
    let command: Vec<&str> = command.split_whitespace().collect();
    kubectl(world.cluster, &command, "").await.unwrap();
    grant(world, &name).await;
    world.wait_instance(&name, "Healthy", "True").await;

    revoked_trust_is_reported(world, &name, space.name(), command[2]).await;
    kubectl(world.cluster, &command, "").await.unwrap();
    has_value(world, space.name(), "a", "v", "1").await;
    delete(world, &name).await;
    support::gone(maps(world, space.name()), "a").await;
}
