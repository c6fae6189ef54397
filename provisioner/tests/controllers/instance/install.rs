//! Installations, the Bundles that an instance creates, and the obstacles that an installation waits for.

use super::*;

/// The longest name that the API server accepts for an instance.
const MAX_NAME: usize = 45;

// parity: i1, rukpak-28, rukpak-26, i5, i13, g3
#[tokio::test]
async fn i1_i5_g3_plain_bundles_are_installed_and_followed() {
    let world = running().await;
    let prefix = format!("{}-", unique("i1"));
    let name = format!("{prefix:x<MAX_NAME$}");
    let space = world.cluster.temp_namespace("i1").await.unwrap();
    // Names of roles may contain characters that a URL has to encode.
    let role = format!("{} all? #powerful", unique("strange"));
    let greeting = |data: &[(&str, &str)]| map(space.name(), "greeting", data);
    let braces = "hello {{ .Values.absent }}";
    let old = [
        greeting(&[("text", braces), ("more", "removed later")]),
        map(space.name(), "leaves", &[]),
        cluster_role(&role),
    ];
    let instance = install(world, &name, &old).await;
    assert_eq!(line(&instance, "Installed"), "True InstallationSucceeded");
    assert_message(&instance, "Installed", &["instantiated bundle"]);
    assert_eq!(line(&instance, "HasValidBundle"), "True UnpackSuccessful");
    assert_eq!(line(&instance, "Progressing"), "False UpToDate");
    let status = instance.status.as_ref().unwrap();
    assert_eq!(status.observed_generation, instance.metadata.generation);
    assert_eq!(status.inventory.as_ref().unwrap().count, 3);
    let [bundle]: [Bundle; 1] = bundles(world, &name).await.try_into().unwrap();
    assert_eq!(status.installed_bundle_name, Some(bundle.name_any()));
    let length = bundle.name_any().len();
    assert!(length <= template::MAX_NAME_LEN, "{length}");
    // Braces are not evaluated.
    has_value(world, space.name(), "greeting", "text", braces).await;
    let roles: Api<ClusterRole> = world.api();
    let has_role = async || {
        let all = support::list(&roles).await;
        all.iter().any(|found| found.name_any() == role)
    };
    assert!(has_role().await);

    // I5: a changed template leads to a new Bundle, and the old one is removed.
    let labeled = json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    change(world, &name, labeled).await;
    wait_deleted::<Bundle>(world.api(), &bundle.name_any()).await;
    let [first]: [Bundle; 1] = bundles(world, &name).await.try_into().unwrap();
    assert_eq!(first.labels()["a"], "b");
    tests::assert_rows!(installed(&read(world, &name).await) => Some(&*first.name_any()));

    // G3: a deleted Bundle is created again.
    support::delete::<Bundle>(&world.api(), &first.name_any()).await;
    let is_unpacked = |bundle: &Bundle| {
        let status = bundle.status.as_ref();
        bundle.uid() != first.uid() && status.is_some_and(|status| status.content_url.is_some())
    };
    let has_unpacked = |bundles: &Vec<Bundle>| bundles.iter().any(is_unpacked);
    bundles_become(world, &name, "another Bundle is unpacked", has_unpacked).await;
    tests::assert_rows!(line(&read(world, &name).await, "Installed") => "True InstallationSucceeded");

    // An upgrade changes, adds and removes objects, and keeps the fields of other clients.
    let api = maps(world, space.name());
    patch_as_other(&api, "greeting", json!({"data": {"theirs": "kept"}})).await;
    let uid = api.get("greeting").await.unwrap().uid();
    let comes = map(space.name(), "comes", &[]);
    upgrade(world, &name, "v2", &[greeting(&[("text", "bye")]), comes]).await;
    wait_deleted(api.clone(), "leaves").await;
    let greeting = api.get("greeting").await.unwrap();
    assert_eq!(greeting.uid(), uid);
    tests::assert_rows!(json!(greeting.data) => json!({"text": "bye", "theirs": "kept"}));
    api.get("comes").await.unwrap();
    support::until("the role is deleted", has_role, |has_role| !*has_role).await;

    world.uninstall(&name).await;
    wait_deleted(api, "greeting").await;
}

// parity: i6, i15, i7, complaint-11
#[tokio::test]
async fn i6_i7_i8_missing_apis_are_listed_until_they_are_served() {
    let world = running().await;
    let (user, provider) = (unique("i8-user"), unique("i8-provider"));
    let group = format!("{provider}.example.com");
    let metadata = json!({"name": "a", "namespace": "default"});
    let of = |kind: &str, version: &str| json!({"apiVersion": format!("{group}/{version}"), "kind": kind, "metadata": metadata});
    let objects = [of("Widget", "v1alpha1"), of("Gadget", "v1")];
    declare(world, &user, &objects).await;
    let missing = [("Widget", "v1alpha1"), ("Gadget", "v1")].map(|(kind, version)| {
        format!(
            "required resource not found: no matches for kind \"{kind}\" in version \"{group}/{version}\", needed by {kind} \
             default/a: install its CRD or API server; the installation then continues automatically"
        )
    });
    let parts = missing.each_ref().map(String::as_str);
    tests::assert_rows!(line(&refused(world, &user, &parts).await, "Healthy") => "False InstallationStatusFalse");

    let widgets = tests::with!(support::crd(&group, "Widget") => |crd| crd["spec"]["versions"][0]["name"] = "v1alpha1".into());
    declare(world, &provider, &[widgets, support::crd(&group, "Gadget")]).await;
    world.wait_instance(&provider, "Installed", "True").await;
    world.wait_instance(&user, "Installed", "True").await;
    world.uninstall(&user).await;
    world.uninstall(&provider).await;
}

#[tokio::test]
async fn optional_objects_are_deferred_while_their_crd_is_missing() {
    let (world, name, space) = start("optional").await;
    // No other test uses this kind.
    let (group, kind) = ("console.openshift.io", "ConsoleExternalLogLink");
    let link = tests::with!(widget(group, space.name(), "logs", 1) => |widget| widget["kind"] = kind.into());
    let waiting = install(world, &name, &[link, map(space.name(), "a", &[])]).await;
    let waits = vec![format!("{kind} {group}/v1 {space}/logs")];
    assert_eq!(waiting.status.as_ref().unwrap().waiting, waits);
    assert_eq!(line(&waiting, "Installed"), "True InstallationSucceeded");
    assert_message(&waiting, "Installed", &["1 objects are deferred"]);

    let crd = support::crd(group, kind);
    let full = crd["metadata"]["name"].as_str().unwrap();
    let crds: Api<CustomResourceDefinition> = world.api();
    let links = || custom_resources(world, space.name(), [group, "v1", kind]);
    let waits_for = async |description: &str, expected: &Vec<String>| {
        becomes(world, &name, description, |status| {
            let is_healthy = support::has(&status.conditions, "Healthy", "True");
            (is_healthy && status.waiting == *expected).then_some(())
        })
        .await;
    };
    for _ in 0..2 {
        world.apply(&crd).await;
        eventually("applied when its API is served", async || {
            links().get("logs").await.map_err(|error| error.to_string())
        })
        .await;
        waits_for("nothing waits", &vec![]).await;
        support::delete(&crds, full).await;
        waits_for("waiting again", &waits).await;
        wait_deleted(crds.clone(), full).await;
    }
    tests::assert_rows!(line(&read(world, &name).await, "Installed") => "True InstallationSucceeded");
    world.uninstall(&name).await;
}

fn held(namespace: &str, name: &str) -> Value {
    let finalizers = json!(["example.com/rival"]);
    tests::with!(map(namespace, name, &[("v", "old")]) => |held| held["metadata"]["finalizers"] = finalizers)
}

#[tokio::test]
async fn terminating_namespaces_and_objects_are_waited_for() {
    let (world, name, space) = start("terminating").await;
    let [ending, missing] = ["ending", "missing"].map(|part| format!("{name}-{part}"));
    let namespaces: Api<Namespace> = world.api();
    for terminating in [&name, &ending] {
        world.apply(&support::namespace_object(terminating)).await;
        world.apply(&held(terminating, "held")).await;
        support::delete(&namespaces, terminating).await;
    }
    let api = maps(world, space.name());
    world.apply(&held(space.name(), "a")).await;
    support::delete(&api, "a").await;

    let mut objects = vec![support::namespace_object(&name), a(space.name(), "new")];
    objects.extend([&name, &ending, &missing].map(|namespace| map(namespace, "a", &[])));
    declare(world, &name, &objects).await;
    let continues = "the installation then continues automatically";
    let parts = [
        &format!("namespace {name:?} is being deleted"),
        "the installation continues automatically after the deletion",
        &format!("ConfigMap {space}/a exists and is being deleted"),
    ];
    let refused = refused(world, &name, &parts).await;
    assert_eq!(line(&refused, "Progressing"), "True Retrying");
    let problems: Vec<&str> = message(&refused, "Installed").lines().collect();
    assert_eq!(problems.len(), 4, "{problems:?}");
    for problem in [
        format!(
            "namespace {ending:?} is being deleted, and ConfigMap {ending}/a would be created in it: create it again after \
             the deletion; {continues}"
        ),
        format!(
            "namespace {missing:?} does not exist and is not part of the bundle, but ConfigMap {missing}/a would be created \
             in it: create it; {continues}"
        ),
    ] {
        assert!(problems.contains(&&*problem), "{problem}: {problems:?}");
    }

    for namespace in [&name, &ending] {
        finalize(&maps(world, namespace), "held").await;
    }
    finalize(&api, "a").await;
    wait_deleted(namespaces.clone(), &ending).await;
    for namespace in [&ending, &missing] {
        world.apply(&support::namespace_object(namespace)).await;
    }
    world.wait_instance(&name, "Healthy", "True").await;
    assert_eq!(api.get("a").await.unwrap().data.unwrap()["v"], "new");
    let maps = maps(world, &name);
    assert!(maps.get_opt("a").await.unwrap().is_some());
    assert_eq!(maps.get_opt("held").await.unwrap(), None);
    world.uninstall(&name).await;
    for namespace in [&name, &ending, &missing] {
        support::delete(&namespaces, namespace).await;
    }
}

// parity: b1
#[tokio::test]
async fn unknown_class_is_reported_for_instance_and_template() {
    let (world, name, space) = start("class").await;
    let unknown = "core-rukpak-io-helm";
    let objects = [map(space.name(), "a", &[])];
    let class = |spec: &mut BundleInstanceSpec| spec.provisioner_class_name = unknown.to_owned();
    declare_with(world, &name, &objects, class).await;
    let parts = [unknown, "spec.provisionerClassName", "core-rukpak-io-plain"];
    let kind = "HasValidBundle UnknownProvisionerClass";
    let live = wait_message(world, &name, kind, &parts).await;
    assert_eq!(line(&live, "Installed"), "False NotInstalled");
    assert_eq!(bundles(world, &name).await, []);
    // No finalizer blocks the deletion.
    assert_eq!(live.finalizers(), &[] as &[String]);

    let classes = |own: &str, of_template: &str| {
        let template = json!({"spec": {"provisionerClassName": of_template}});
        json!({"spec": {"provisionerClassName": own, "template": template}})
    };
    let other = classes("core-rukpak-io-plain", unknown);
    change(world, &name, other).await;
    let live = wait_message(world, &name, "HasValidBundle UnpackFailed", &[unknown]).await;
    assert_eq!(line(&live, "Installed"), "False NotInstalled");

    // Both spellings of a class are one class, and the converter of document 004 is the registry class.
    let both = classes("core.rukpak.io/converter", "core.rukpak.io/plain");
    change(world, &name, both).await;
    world.wait_instance(&name, "Healthy", "True").await;
    world.uninstall(&name).await;
}
