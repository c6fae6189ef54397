use std::collections::BTreeMap;

use catalog::{
    choose::{Answer, Offer},
    model::{Bundle, Channel, Entry, Package},
};
use convert::removal::{
    Search,
    calls::{Calls, RequestCount},
};
use manifests::{
    api::labels,
    object::Identity,
    openshift::{MaxOpenShiftVersion, Release, Spelling},
    version::KubeVersion,
};
use serde_json::json;

use super::{
    look,
    state::{Seen, Span, State, Step},
    *,
};

fn instance(name: &str, uid: &str, applied: &str) -> Arc<BundleInstance> {
    let value = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
        "metadata": {"name": name, "uid": uid},
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": {"source": {"type": "image", "image": {"ref": "a"}}}},
        },
        "status": {
            "installedBundleName": "a-1", "appliedDigest": applied, "inventory": {"count": 2, "kinds": []},
            "package": "tide", "clusterServiceVersion": "tide.v1.0.0", "version": "1.0.0",
        },
    });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn span(minor: u64) -> Span {
    Span {
        from: KubeVersion::new(1, minor),
        to: KubeVersion::new(1, minor + 1),
    }
}

/// As if it had so many budgets in an API that goes with 1.25.
fn budgets(number: usize) -> Seen {
    let mut search = Search::new(span(24).from, span(24).to);
    for n in 0..number {
        let identity = Identity {
            group: "policy".into(),
            kind: "PodDisruptionBudget".into(),
            namespace: "tide".into(),
            name: format!("budget-{n:04}"),
        };
        search.listed("policy/v1beta1", || identity, "PodDisruptionBudget");
    }
    Seen {
        removals: search.end(),
        accounts: vec!["tide:operator".into()],
    }
}

fn looked_at(state: &mut State) -> Option<String> {
    match state.next()? {
        Step::Look(name, _) => Some(name),
        Step::Later => None,
    }
}

#[test]
fn an_instance_is_looked_at_once_for_what_is_applied_and_the_cluster() {
    let mut state = State::default();
    let tide = instance("tide", "1", "sha256:a");
    // Nothing is known, which is not the same as nothing being used.
    assert_eq!(state.of(&tide), (None, false));
    // The version is not known yet.
    assert_eq!(looked_at(&mut state), None);
    assert!(!state.runs(span(24).from));
    assert!(!state.of(&tide).1);
    assert_eq!(looked_at(&mut state).as_deref(), Some("tide"));
    assert_eq!(looked_at(&mut state), None);
    assert!(state.learn(&tide, span(24), budgets(1)));
    let (told, is_known) = state.of(&tide);
    assert!(is_known);
    let told = told.unwrap();
    assert_eq!(told.len(), 1);
    let budget = "PodDisruptionBudget tide/budget-0000 is in policy/v1beta1, which Kubernetes 1.25";
    assert!(told[0].starts_with(budget), "{told:?}");
    assert_eq!(state.count(), 1);

    // Other content: the last word stays until there is another one.
    let other = instance("tide", "1", "sha256:b");
    let (stays, is_known) = state.of(&other);
    assert_eq!((stays.unwrap().len(), is_known), (1, false));
    assert_eq!(looked_at(&mut state).as_deref(), Some("tide"));
    assert!(state.learn(&other, span(24), budgets(0)));
    assert!(!state.learn(&other, span(24), budgets(0)));
    assert_eq!(state.count(), 0);

    // Another cluster.
    assert!(!state.runs(span(24).from));
    assert!(state.runs(span(25).from));
    assert!(!state.of(&other).1);

    // Another one of the same name; and one that has nothing yet.
    assert!(state.learn(&other, span(25), budgets(1)));
    assert_eq!(state.of(&instance("tide", "2", "sha256:b")).0, None);
    let mut waiting = BundleInstance::clone(&tide);
    waiting.status.as_mut().unwrap().installed_bundle_name = None;
    let (told, is_known) = state.of(&Arc::new(waiting));
    assert!(told.unwrap().is_empty() && is_known);
}

#[test]
fn what_fails_is_tried_after_the_others_and_what_is_gone_is_forgotten() {
    let mut state = State::default();
    state.runs(span(24).from);
    let all: Vec<_> = ["a", "b", "c"].map(|name| instance(name, name, "x")).into();
    for it in all.iter().chain(&all) {
        state.of(it);
    }
    assert_eq!(looked_at(&mut state).as_deref(), Some("a"));
    state.ask("a".to_owned());
    assert_eq!(looked_at(&mut state).as_deref(), Some("b"));
    state.learn(&all[1], span(24), budgets(1));
    state.retain(|name| name == "a");
    assert_eq!(state.count(), 0);
    assert_eq!(looked_at(&mut state).as_deref(), Some("a"));
    assert_eq!(looked_at(&mut state), None);
}

fn counted(account: &str, until: &str) -> Calls {
    let user = json!({"username": format!("system:serviceaccount:{account}"), "requestCount": 7});
    let status = json!({"removedInRelease": until, "last24h": [{"byNode": [{"byUser": [user]}]}]});
    let count: RequestCount = serde_json::from_value(status).unwrap();
    let mut calls = Calls::default();
    calls.add("cronjobs.v1beta1.batch", &count);
    calls
}

#[test]
fn what_accounts_called_is_told_as_soon_as_it_is_counted() {
    let mut state = State::default();
    state.runs(span(24).from);
    let tide = instance("tide", "1", "x");
    state.learn(&tide, span(24), budgets(0));
    assert!(!state.counted(counted("other:operator", "1.25")));
    assert!(!state.counted(counted("tide:operator", "1.26")));
    assert!(state.counted(counted("tide:operator", "1.25")));
    let told = state.of(&tide).0.unwrap();
    assert_eq!(
        told.as_ref(),
        [
            "ServiceAccount tide/operator called cronjobs.v1beta1.batch 7 times within a day, which Kubernetes 1.25 does not serve"
        ]
    );
    assert!(!state.counted(counted("tide:operator", "1.25")));
    assert!(state.counted(Calls::default()));
    assert!(state.of(&tide).0.unwrap().is_empty());
}

#[test]
fn what_is_told_is_bounded() {
    let mut state = State::default();
    state.runs(span(24).from);
    let tide = instance("tide", "1", "x");
    state.learn(&tide, span(24), budgets(2000));
    let told = state.of(&tide).0.unwrap();
    assert_eq!(told.len(), 66);
    assert_eq!(
        told[64],
        "448 more uses of APIs that go with Kubernetes 1.25"
    );
    assert!(told[65].starts_with("it may use more"));
    let identity = |kind: &str, name: String| Identity {
        group: String::new(),
        kind: kind.into(),
        namespace: "tide".into(),
        name,
    };
    let kinds = [("ServiceAccount", "a"), ("Secret", "s")];
    let many =
        (0..1000).flat_map(|n| kinds.map(|(kind, name)| identity(kind, format!("{name}{n}"))));
    let many: Vec<Identity> = many.collect();
    let accounts = look::accounts(many.iter());
    assert_eq!((accounts.len(), accounts[0].as_str()), (256, "tide:a0"));
}

fn offer(answer: Answer<'_>) -> Offer<'_> {
    Offer {
        catalog: "ours/mine",
        priority: 0,
        answer,
    }
}

#[test]
fn the_version_that_unblocks_is_one_that_can_be_installed_today() {
    let bundle = |(version, maximum): (&str, &str)| {
        let maximum = MaxOpenShiftVersion::new(maximum, Spelling::CatalogProperties);
        let bundle = Bundle {
            image: "quay.io/tide@sha256:a".into(),
            max_openshift: Some(maximum),
            ..Bundle::new(format!("tide.v{version}"), version.parse().unwrap())
        };
        (bundle.name.clone(), bundle)
    };
    let entries = ["1.0.0", "1.1.0", "1.2.0"];
    let maxima = ["4.20", "4.21", "4.20"];
    let entry = |(at, version): (usize, &&str)| Entry {
        name: format!("tide.v{version}"),
        replaces: at.checked_sub(1).map(|at| format!("tide.v{}", entries[at])),
        ..Entry::default()
    };
    let channel = Channel {
        name: "stable".into(),
        entries: entries.iter().enumerate().map(entry).collect(),
        ..Channel::default()
    };
    let package = Package {
        name: "tide".into(),
        default_channel: "stable".into(),
        channels: BTreeMap::from([("stable".to_owned(), channel)]),
        bundles: entries.into_iter().zip(maxima).map(bundle).collect(),
        deprecation: None,
    };
    let found = |instance: &BundleInstance, answer: Answer<'_>, release: u64| {
        let running = (Release::new(4, release), None);
        way_on(instance, None, &[offer(answer)], running)
    };
    let whole = Answer::Package(&package);
    let upgrade = Remedy::Upgrade("1.1.0".to_owned());
    let tide = instance("tide", "1", "x");
    assert_eq!(found(&tide, whole, 20), upgrade);
    assert_eq!(found(&tide, whole, 21), Remedy::None);
    assert_eq!(found(&tide, Answer::Absent, 20), Remedy::None);
    let unread = Remedy::Unread("catalog ours/mine cannot be read now".to_owned());
    assert_eq!(found(&tide, Answer::Pending, 20), unread);
    assert_eq!(found(&tide, Answer::Unknown("away"), 20), unread);
    let mut nameless = BundleInstance::clone(&tide);
    let facts = &mut nameless.status.as_mut().unwrap().facts;
    (facts.package, facts.cluster_service_version) = (None, None);
    assert_eq!(found(&nameless, whole, 20), Remedy::None);

    // Plain manifests do not tell their name; what they were chosen for does.
    let digest = format!("sha256:{}", "a".repeat(64));
    let memo = json!({
        "package": "tide", "name": "tide.v1.0.0", "version": "1.0.0", "channel": "stable", "catalog": "ours/mine",
        "image": format!("quay.io/tide@{digest}"), "mediaType": "plain+v0",
    });
    let memo = (labels::CHOSEN_BUNDLE.to_owned(), memo.to_string());
    nameless.metadata.annotations = Some([memo].into());
    let source = json!({"type": "image", "image": {"ref": format!("quay.io/tide@{digest}")}});
    nameless.status.as_mut().unwrap().resolved_source = serde_json::from_value(source).unwrap();
    assert_eq!(found(&nameless, whole, 20), upgrade);
    assert_eq!(found(&nameless, Answer::Unknown("away"), 20), unread);
    // It is from this catalog, so that another one is not followed.
    let others = [
        offer(Answer::Pending),
        Offer {
            catalog: "ours/other",
            ..offer(whole)
        },
    ];
    let running = (Release::new(4, 20), None);
    assert_eq!(way_on(&nameless, None, &others, running), unread);
}

#[test]
fn a_catalog_that_was_not_listed_yet_may_have_one() {
    let catalogs = Catalogs::default();
    let running = (Release::new(4, 20), None);
    let found = remedy(&instance("tide", "1", "x"), None, &catalogs, running);
    assert_eq!(
        found,
        Remedy::Unread("which catalogs there are is not known yet".to_owned())
    );
}
