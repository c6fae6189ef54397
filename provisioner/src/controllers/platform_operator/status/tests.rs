use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use manifests::api::{
    Class,
    platform_operator::{ApprovedMinors, NewRights, NextBundle},
};
use serde_json::{Value, json};

use super::*;
use crate::controllers::{
    catalog_source::CatalogKey,
    cluster_operator::upgradeable::{ClusterKind, assess},
    platform_operator::fixtures::{
        chosen, condition as instance_condition, instance, operator, status as installed,
    },
};

const NOW: &str = "2026-02-02T00:00:00Z";
const APPLIED: &str = "Successfully applied the tide BundleInstance resource";

fn have(version: &str) -> OperatorPlan {
    plan(InstanceAction::Apply(Box::new(chosen(version, None))))
}

fn refuse(reason: &'static str) -> OperatorPlan {
    let message = "why not".into();
    plan(InstanceAction::Refuse { reason, message })
}

fn plan(act: InstanceAction) -> OperatorPlan {
    OperatorPlan {
        act,
        keep: None,
        next: None,
        new_rights: None,
        warnings: Vec::new(),
    }
}

fn planned(plan: &OperatorPlan) -> Observation<'_> {
    Observation {
        plan,
        instance: None,
        failure: None,
        catalogs: Some(&[]),
        verdict: None,
    }
}

fn status(found: &Observation<'_>) -> PlatformOperatorStatus {
    build(&operator(&json!({})), found, NOW.parse().unwrap())
}

/// Returns the status of a new operator for a plan, the status of its BundleInstance, and an apply error.
fn new_status(
    plan: &OperatorPlan,
    below: Option<&Value>,
    failure: Option<&str>,
) -> PlatformOperatorStatus {
    let instance = below.map(|status| instance(&chosen("1.0.0", None), status));
    status(&with!(planned(plan) => instance: instance.as_ref(), failure: failure))
}

fn find<'a>(status: &'a PlatformOperatorStatus, type_: &str) -> &'a Condition {
    manifests::api::condition::find(&status.conditions, type_).unwrap()
}

fn line(condition: &Condition) -> String {
    let (reason, message) = (&condition.reason, &condition.message);
    format!("{} {reason}: {message}", condition.status)
}

#[test]
fn installed_condition_ignores_failing_later_steps() {
    let installed_status = installed("1.0.0", true);
    let failing = json!({"conditions": [
        instance_condition("HasValidBundle", "True", "UnpackSuccessful"), instance_condition("Installed", "False", "InstallFailed"),
    ]});
    let warned = with!(have("1.0.0") => warnings: vec!["it is old".into(), "it is odd".into()]);
    let (image, class) = ("image".to_owned(), Class::Registry);
    let look = plan(InstanceAction::CheckPermissions { image, class });
    for (plan, below, failure, expected) in ::tests::rows![
        have("1.0.0"), None, None => "False UnpackPending: Waiting for the bundle to be unpacked".to_owned();
        have("1.0.0"), Some(&installed_status), None => format!("True InstallSuccessful: {APPLIED}");
        // Warnings do not affect the condition.
        warned.clone(), Some(&installed_status), None => format!("True InstallSuccessful: {APPLIED}; it is old; it is odd");
        warned, Some(&failing), None => "False InstallFailed: InstallFailed!; it is old; it is odd".into();
        // The instance cannot be applied.
        have("1.0.0"), None, Some("forbidden") => "False InstallFailed: forbidden".into();
        have("1.0.0"), Some(&failing), Some("forbidden") => "False InstallFailed: forbidden".into();
        have("1.0.0"), Some(&installed_status), Some("forbidden") => format!("True InstallSuccessful: {APPLIED}; forbidden");
        // No bundle can be chosen.
        refuse("SourceFailed"), None, None => "False SourceFailed: why not".into();
        refuse("SourceFailed"), Some(&failing), None => "False SourceFailed: why not".into();
        refuse("SourceFailed"), Some(&installed_status), None => format!("True InstallSuccessful: {APPLIED}; why not");
        // The permissions could not be checked.
        look, Some(&installed_status), Some("the registry is away") => format!("True InstallSuccessful: {APPLIED}; the registry is away");
        // The instance is recreated.
        plan(InstanceAction::NoChange), None, None => "False UnpackPending: Waiting for the bundle to be unpacked".into();
        plan(InstanceAction::NoChange), Some(&installed_status), None => format!("True InstallSuccessful: {APPLIED}");
    ] {
        let status = new_status(&plan, below, failure);
        let found = find(&status, "Installed");
        assert_eq!(line(found), expected, "{plan:?} {below:?} {failure:?}");
        assert_eq!(found.observed_generation, Some(3));
    }
}

// parity: openshift-4
#[test]
fn catalog_condition_has_three_states() {
    let state = |name: &str, is_read, problem: Option<&str>| catalog_source::CatalogState {
        catalog: CatalogKey::new("c", name),
        is_read,
        trouble: problem.map(str::to_owned),
    };
    let well = state("well", true, None);
    let new = state("new", false, None);
    let away = state("away", true, Some("no route to host"));
    let never = state("never", false, Some("no such image"));
    let plan = have("1.0.0");
    let of = |catalogs| status(&with!(planned(&plan) => catalogs: catalogs));
    assert_each!(|catalogs, expected| line(find(&of(catalogs), "CatalogAvailable")) => expected;
        None => "Unknown CatalogsPending: catalogs have not been listed yet";
        Some(&[][..]) => "False NoCatalogs: no catalog found; create a CatalogSource in a namespace that the \
                          provisioner reads catalogs from, or correct spec.catalog";
        Some(&[&well][..]) => "True CatalogsAvailable: all catalogs are available";
        Some(&[&well, &new][..]) => "Unknown CatalogsPending: c/new has not been read yet";
        Some(&[&well, &away, &new][..]) => "False CatalogUnavailable: c/away: no route to host";
        Some(&[&away, &never][..]) => "False CatalogUnavailable: c/away: no route to host; c/never: no such image";
    );
}

#[test]
fn upgradeable_condition_follows_the_gate() {
    let open = with!(assess(&ClusterKind::Kubernetes, [], &[]) => message: "message".into());
    let closed = with!(open.clone() => is_upgradeable: false, reason: "Closed");
    let plan = have("1.0.0");
    let of = |verdict| status(&with!(planned(&plan) => verdict: verdict));
    assert_each!(|verdict, expected| line(find(&of(verdict), "Upgradeable")) => expected;
        None => "Unknown NotInstalled: no bundle is installed yet";
        Some(&open) => "True AsExpected: message";
        Some(&closed) => "False Closed: message";
    );
}

#[test]
fn known_facts_survive_failures() {
    let best = with!(chosen("1.0.0", None) => bundle.why: vec!["the best".into()]);
    let keep = Some("4.12 1.0".parse::<ApprovedMinors>().unwrap());
    let first = with!(plan(InstanceAction::Apply(Box::new(best))) => keep: keep);
    let installed_status = installed("1.0.0", true);
    let before = new_status(&first, Some(&installed_status), None);
    assert_rows! {
        // Under both names that CRDs use for the field.
        before.active_bundle_instance.as_ref().unwrap().name => "tide";
        before.active_bundle_deployment.as_ref().unwrap().name => "tide";
        before.cluster_minor.as_deref() => Some("4.12");
        before.package_minor.as_deref() => Some("1.0");
        before.observed_generation => Some(3);
    }

    let mut operator = operator(&json!({}));
    operator.status = Some(before.clone());
    let later = |plan: &OperatorPlan, below: Option<&Value>| {
        let instance = below.map(|status| instance(&chosen("1.0.0", None), status));
        let found = with!(planned(plan) => instance: instance.as_ref());
        build(&operator, &found, "2027-01-01T00:00:00Z".parse().unwrap())
    };
    let failed = later(&refuse("SourceFailed"), None);
    let at = |type_| find(&failed, type_).last_transition_time.0.to_string();
    let other = later(&have("1.0.1"), Some(&installed_status));
    let other = other.chosen_bundle.unwrap();
    let newer = with!(chosen("1.0.0", None) => bundle.why: vec!["newer".into()]);
    let newer = later(&plan(InstanceAction::Apply(Box::new(newer))), None);
    assert_rows! {
        // An unchanged observation writes nothing; an unchanged choice keeps its reasons.
        later(&have("1.0.0"), Some(&installed_status)) => before;
        // A failure keeps facts that are still true.
        failed.chosen_bundle => before.chosen_bundle;
        failed.active_bundle_instance => before.active_bundle_instance;
        failed.cluster_minor => before.cluster_minor;
        at("Installed") => "2027-01-01T00:00:00Z";
        at("CatalogAvailable") => NOW;
        newer.chosen_bundle.unwrap().why => ["newer"];
        // Another bundle has other reasons.
        (other.version.as_str(), other.why.len()) => ("1.0.1", 0);
    }
    // The next bundle is that of the current plan.
    let gains = (Some(NextBundle::default()), Some(NewRights::default()));
    let waiting = with!(have("1.0.0") => next: gains.0.clone(), new_rights: gains.1.clone());
    let waiting = later(&waiting, Some(&installed_status));
    operator.status = Some(waiting.clone());
    assert_eq!((waiting.next_available, waiting.new_rights), gains);
    let over = build(&operator, &planned(&have("1.0.0")), NOW.parse().unwrap());
    assert_eq!((over.next_available, over.new_rights), (None, None));
}

#[test]
fn untrusted_texts_are_truncated_to_fit_the_status() {
    let long = "ö".repeat(100_000);
    let text = || long.clone();
    let hostile = with!(chosen("1.0.0", None) => bundle.name: text(), bundle.version: text(), bundle.channel: text(),
        bundle.catalog: text(), bundle.image: text());
    let plan = with!(plan(InstanceAction::Apply(Box::new(hostile))) => warnings: vec![text()]);
    let status = new_status(&plan, Some(&installed("1.0.0", true)), Some(&long));
    let bundle = status.chosen_bundle.as_ref().unwrap();
    let message = &find(&status, "Installed").message;
    for (length, limit) in ::tests::rows![
        bundle.name.len() => limits::WORD;
        bundle.version.len() => limits::WORD;
        bundle.channel.len() => limits::WORD;
        bundle.catalog.len() => limits::WORD;
        bundle.image.len() => limits::REFERENCE;
        message.chars().count() => limits::MESSAGE;
    ] {
        assert!(length <= limit as usize, "{length} {limit}");
    }
    // Texts within the limits are unchanged.
    let image = format!("{}@sha256:{}", "r".repeat(900), "0".repeat(64));
    let fits = with!(chosen("1.0.0", None) => bundle.image: image.clone());
    let fits = self::plan(InstanceAction::Apply(Box::new(fits)));
    assert_rows!(new_status(&fits, None, None).chosen_bundle.unwrap().image => image);
}
