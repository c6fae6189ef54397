use apply::{
    inventory::Entry,
    plan::Wave,
    ssa::{FailureKind, Obstacle},
};
use manifests::api::bundle_instance::Upgrade;
use serde_json::{Value, json};

use super::*;

fn spec(recreate: Option<Recreate>) -> BundleInstanceSpec {
    let upgrade = recreate.map(|recreate| Upgrade { recreate });
    with!(crate::fixtures::spec(&json!({})) => upgrade: upgrade)
}

fn step(name: &str, annotation: Option<&Value>) -> ApplyStep {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}});
    if let Some(annotation) = annotation {
        object["metadata"]["annotations"] = json!({labels::RECREATE: annotation});
    }
    crate::fixtures::step(object, Wave::Configuration)
}

fn immutable(name: &str, job: Option<JobState>, obstacle: Option<Obstacle>) -> Immutable {
    Immutable {
        identity: step(name, None).object.identity(),
        fields: vec!["data".to_owned()],
        job,
        obstacle,
    }
}

fn failure(name: &str, cause: FailureKind) -> ssa::ApplyFailure {
    ssa::ApplyFailure {
        identity: step(name, None).object.identity(),
        message: format!("{name} {cause:?}"),
        cause,
    }
}

/// Returns an inventory of objects that are being recreated, except for one.
fn marked(names: &[&str], not: &str) -> Inventory {
    let all = names.iter().map(|&name| {
        let entry = with!(Entry::default() => recreating: name != not);
        (step(name, None).object.identity(), entry)
    });
    all.collect()
}

#[test]
fn annotations_precede_the_spec_and_finished_jobs_both() {
    use JobState::{Finished, Unfinished};
    use Recreate::{Never, WhenImmutable};
    let [never, when, other] = ["Never", "WhenImmutable", "never"].map(Value::from);
    let number = json!(1);
    let of_spec = "set spec.upgrade.recreate: WhenImmutable, or delete the object";
    let of_annotation =
        "delete the object, or change its annotation core.rukpak.io/recreate: Never in the bundle";
    let of_invalid = "delete the object, or change its annotation core.rukpak.io/recreate in the bundle from \"never\" \
                      to Never or WhenImmutable";
    let of_number = "delete the object, or change its annotation core.rukpak.io/recreate in the bundle from \"1\" to \
                     Never or WhenImmutable";
    // The spec, the annotation, the state of a Job; the permission, or the remedy of the refusal.
    for (recreate, annotation, job, expected) in ::tests::rows![
        None, None, None => Err(of_spec);
        Some(Never), None, None => Err(of_spec);
        Some(WhenImmutable), None, None => Ok(Permission::Delete);
        None, Some(&when), None => Ok(Permission::Delete);
        Some(Never), Some(&when), None => Ok(Permission::Delete);
        Some(WhenImmutable), Some(&never), None => Err(of_annotation);
        Some(WhenImmutable), Some(&other), None => Err(of_invalid);
        Some(WhenImmutable), Some(&number), None => Err(of_number);
        None, Some(&other), None => Err(of_invalid);
        None, None, Some(Finished) => Ok(Permission::DeleteFinished);
        Some(WhenImmutable), Some(&never), Some(Finished) => Ok(Permission::DeleteFinished);
        Some(WhenImmutable), Some(&other), Some(Finished) => Ok(Permission::DeleteFinished);
        Some(WhenImmutable), None, Some(Finished) => Ok(Permission::Delete);
        Some(WhenImmutable), None, Some(Unfinished) => Ok(Permission::Delete);
        Some(Never), None, Some(Unfinished) => Err(of_spec);
    ] {
        let step = step("a", annotation);
        let preview = with!(Preview::default() => immutable: vec![immutable("a", job, None)]);
        let found = decision(&spec(recreate), &Inventory::new(), &[&step], preview);
        let row = format!("{recreate:?} {annotation:?} {job:?}: {found:?}");
        let is_unfinished = job == Some(Unfinished);
        let wait = ["", "wait until the Job is finished, "][usize::from(is_unfinished)];
        let problem = format!("ConfigMap n/a: immutable fields changed: data; {wait}");
        let refused = expected.err().map(|remedy| format!("{problem}{remedy}"));
        let permission = expected.ok().into_iter();
        let permission = permission.map(|permission| (step.object.identity(), permission));
        let messages = found.refused.iter().map(|one| one.message.clone());
        assert_rows! {
            messages.collect::<Vec<_>>() => Vec::from_iter(refused), "{row}";
            found.permissions => permission.collect(), "{row}";
            found.has_unfinished_job => is_unfinished && expected.is_err(), "{row}";
        }
    }
}

#[test]
fn obstacles_precede_every_permission() {
    for job in [None, Some(JobState::Finished), Some(JobState::Unfinished)] {
        let step = step("a", Some(&json!("WhenImmutable")));
        let preview = with!(Preview::default() => immutable: vec![immutable("a", job, Some(Obstacle::Foreign))]);
        let spec = spec(Some(Recreate::WhenImmutable));
        let found = decision(&spec, &Inventory::new(), &[&step], preview);
        assert_eq!(found.permissions, [].into(), "{job:?}");
        assert!(!found.has_unfinished_job, "{job:?}");
        let [refused] = &found.refused[..] else {
            panic!("{found:?}");
        };
        assert_rows!(refused.message.contains("does not carry the labels") => true, "{refused:?}");
    }
}

#[test]
fn terminating_objects_are_awaited_if_they_are_marked() {
    let names = ["marked", "other", "broken"];
    let steps = names.map(|name| step(name, None));
    let inventory = marked(&names, "other");
    let deleting = |name| failure(name, FailureKind::Deleting);
    let broken = || failure("broken", FailureKind::Invalid);
    let failed = vec![deleting("marked"), deleting("other"), broken()];
    let preview = with!(Preview, failed);
    let found = decision(&spec(None), &inventory, &steps.each_ref(), preview);
    assert_rows! {
        found.permissions => [(steps[0].object.identity(), Permission::Await)].into();
        found.refused => [broken(), deleting("other")];
    }
}

#[test]
fn marks_last_until_the_object_is_applied() {
    let identity = |name| step(name, None).object.identity();
    let mut inventory = marked(&["left", "settled", "deleted", "new"], "new");
    let changed = ["deleted", "new", "plain"].map(|name| step(name, None));
    let permissions = ["new", "unlisted"].map(|name| (identity(name), Permission::Delete));
    mark(&mut inventory, &changed, &permissions.into());
    let marked = inventory.iter().filter(|(_, entry)| entry.recreating);
    assert_rows!(marked.map(|(identity, _)| identity.name.as_str()).collect::<Vec<_>>() => ["deleted", "new", "unlisted"]);
}

#[test]
fn invalid_annotations_are_warned_about() {
    let steps = [Some("Always"), Some("Never"), None];
    let steps = steps.map(|value| step("a", value.map(Value::from).as_ref()));
    assert_rows! {
        warnings(&spec(None), &steps) => [
            "ConfigMap n/a: annotation core.rukpak.io/recreate has the invalid value \"Always\", which is treated as \
             Never; use Never or WhenImmutable"
        ];
    }
}

#[test]
fn deletions_of_refused_and_terminating_objects_are_awaited() {
    use FailureKind::{Deleting, Denied, Invalid, Transient};
    let failures = [Invalid, Deleting, Denied, Transient].map(|kind| failure("a", kind));
    assert_rows! {
        failures.iter().map(|failure| !awaited(std::slice::from_ref(failure)).is_empty()).collect::<Vec<_>>()
            => [true, true, false, false];
    }
}
