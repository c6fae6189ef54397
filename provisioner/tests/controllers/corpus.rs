//! Real bundles, through BundleInstances, on plain Kubernetes: installed one by one or rejected with every reason, and
//! removed without a trace when they are deleted. On a separate cluster, because all its objects are compared.

mod snapshot;

use std::{collections::BTreeSet, time::Instant};

use manifests::{
    api::{
        bundle_instance::BundleInstance,
        platform_status::{NAME, PlatformStatus},
    },
    content::Content,
    object::Object,
};
use tests::{Case, Corpus, corpus};

use self::snapshot::Everything;
use crate::faults::support::Stage;
use crate::support::{Options, World, condition, eventually, has, image, message, wait_for};

/// Sets up a cluster, a registry, and a provisioner, for the corpus alone.
async fn stage() -> Stage {
    let stage = crate::faults::support::stage(Options::default()).await;
    // The provisioner reports the status of the cluster, regardless of installed bundles.
    wait_for::<PlatformStatus>(stage.world.api(), NAME, "there", |_| Some(())).await;
    stage
}

async fn declare(world: &World, name: &str, content: &Content) {
    let source = image(&world.push(name, content).await);
    world.instance(name, "registry", source).await;
}

async fn decided(world: &World, name: &str) -> BundleInstance {
    let is_decided = |instance: &BundleInstance| {
        let conditions = &instance.status.as_ref()?.conditions;
        let unpack = condition(conditions, "HasValidBundle")?;
        let is_decided = has(conditions, "Installed", "True")
            || unpack.reason == "UnpackFailed"
            || condition(conditions, "Installed")?.reason == "InstallFailed"
                && has(conditions, "Progressing", "False");
        is_decided.then_some(())
    };
    wait_for(world.api(), name, "installed or rejected", is_decided).await
}

fn content(corpus: &Corpus, case: Case<'_>) -> Content {
    let opened = unpacker::open(&corpus.bundle(case), &unpacker::Options::default());
    opened.unwrap().content
}

/// Returns a name for a BundleInstance: directory names can have capitals, dots or too many characters.
fn name(case: Case<'_>, number: usize) -> String {
    let plain = case.bundle.to_lowercase().replace(['.', '_', '+'], "-");
    let cut: String = plain.chars().take(36).collect();
    format!("{}-{number}", cut.trim_end_matches('-'))
}

// parity: r1
#[tokio::test(flavor = "multi_thread")]
async fn real_bundles_are_installed_and_removed_without_a_trace() {
    let Some(corpus) = corpus() else { return };
    let stage = stage().await;
    let (world, client) = (&stage.world, stage.world.client());
    let mut before = Everything::now(&client).await.unwrap();
    assert!(before.0.len() > 100, "{before:?}");

    let cases = corpus.cases().filter(|case| case.outcome == "converted");
    let (mut installed, mut rejected) = (0, Vec::new());
    let mut absent = BTreeSet::new();
    for (number, case) in cases.enumerate() {
        let (name, content) = (name(case, number), content(&corpus, case));
        let objects = convert::plain(&content, &convert::Options::default());
        let objects = objects.objects.unwrap();
        let start = Instant::now();
        declare(world, &name, &content).await;
        let instance = decided(world, &name).await;
        let took = start.elapsed();
        let status = instance.status.as_ref().unwrap();
        if has(&status.conditions, "Installed", "True") {
            installed += 1;
            let present = Everything::now(&client).await.unwrap();
            for object in objects.iter().filter(|&object| !present.has(object)) {
                let line = waiting(object);
                assert!(status.waiting.contains(&line), "{name}: no {line}");
                absent.insert(format!("{} {}", object.kind(), object.api_version()));
            }
        } else {
            rejected.push(format!("{}: {:#?}", case.bundle, status.conditions));
        }
        world.uninstall(&name).await;
        // A Namespace may contain other objects by then. Namespaces are kept, and all other objects are deleted.
        for namespace in objects.iter().filter(|object| object.kind() == "Namespace") {
            before.expect(namespace);
        }
        eventually(&format!("{name} left no trace"), async || {
            before.difference(&Everything::now(&client).await?)
        })
        .await;
        let (bundle, count, total) = (case.bundle, objects.len(), start.elapsed());
        eprintln!("{bundle}: {count} objects in {took:.1?}, deleted after {total:.1?}");
    }
    // The conversion corrects every problem that the API server finds in real bundles: none is rejected.
    assert!(rejected.is_empty(), "{}", rejected.join("\n\n"));
    assert!(installed > 0, "outcomes.tsv lists no bundle to install");
    eprintln!("{installed} bundles installed; not served by a plain cluster: {absent:?}");
}

/// Returns the text that the status has for a deferred object.
fn waiting(object: &Object) -> String {
    let namespace = object.namespace();
    let slash = if namespace.is_empty() { "" } else { "/" };
    let (kind, version, name) = (object.kind(), object.api_version(), object.name());
    format!("{kind} {version} {namespace}{slash}{name}")
}

// parity: check-24, i10
#[tokio::test(flavor = "multi_thread")]
async fn real_bundles_are_rejected_with_all_their_reasons() {
    let Some(corpus) = corpus() else { return };
    let stage = stage().await;
    let (world, client) = (&stage.world, stage.world.client());
    let before = Everything::now(&client).await.unwrap();
    let mut cases: Vec<Case<'_>> = corpus.cases().collect();
    cases.retain(|case| case.outcome != "converted");
    assert!(!cases.is_empty());
    // The bundles do not block each other, so all are declared at once.
    for (number, &case) in cases.iter().enumerate() {
        declare(world, &name(case, number), &content(&corpus, case)).await;
    }
    for (number, &case) in cases.iter().enumerate() {
        let name = name(case, number);
        let instance = decided(world, &name).await;
        let conditions = &instance.status.as_ref().unwrap().conditions;
        assert!(has(conditions, "HasValidBundle", "False"), "{instance:#?}");
        assert!(has(conditions, "Installed", "False"), "{instance:#?}");
        let message = message(&instance, "HasValidBundle");
        for reason in reasons(&corpus, case) {
            assert!(message.contains(&reason), "{name}: {reason}: {message}");
        }
    }
    for (number, &case) in cases.iter().enumerate() {
        world.uninstall(&name(case, number)).await;
    }
    eventually("the rejected bundles left no trace", async || {
        before.difference(&Everything::now(&client).await?)
    })
    .await;
}

/// Returns the texts that the condition must contain: those of the corpus and all of the conversion.
fn reasons(corpus: &Corpus, case: Case<'_>) -> Vec<String> {
    let text = match case.outcome {
        "rejected: install mode" => "the bundle does not support the AllNamespaces install mode",
        "rejected: webhooks" => "webhookDefinitions are not supported",
        "rejected: API services" => "apiServiceDefinitions are not supported",
        other => panic!("{}: {other} is not known", case.bundle),
    };
    let content = content(corpus, case);
    let mut report = convert::plain(&content, &convert::Options::default()).report;
    report.locate(&content);
    let refusals = report.refusals().map(ToString::to_string);
    refusals.chain([text.to_owned()]).collect()
}
