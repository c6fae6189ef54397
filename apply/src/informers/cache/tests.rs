use std::slice;

use kube::core::ApiResource;

use super::*;
use crate::discovery::ApiKind;

const CONFIG_MAP: (&str, &str, &str) = ("", "ConfigMap", "configmaps");
const DEPLOYMENT: (&str, &str, &str) = ("apps", "Deployment", "deployments");
const TILL: (&str, &str, &str) = ("example.com", "Till", "tills");
const CRD: (&str, &str, &str) = (
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

fn identity((group, kind, _): (&str, &str, &str), namespace: &str, name: &str) -> Identity {
    crate::tests::identity(group, kind, namespace, name)
}

fn kind((group, kind, plural): (&str, &str, &str), namespaced: bool) -> Arc<ApiKind> {
    let resource = ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: [group, "v1"].join("/").trim_start_matches('/').to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Arc::new(ApiKind {
        resource,
        namespaced,
    })
}

fn desired(objects: &[((&str, &str, &str), &str)]) -> WatchedObjects {
    let object = |&(api, name): &(_, &str)| (identity(api, "shop", name), kind(api, true));
    objects.iter().map(object).collect()
}

fn observed(owner: &str, name: &str, version: u64, fields: &str) -> ReducedObject {
    let entry = Entry {
        hash: None,
        owner: owner.into(),
        uid: entry::hash(&format!("uid of {name}")),
        version,
        fields: Some(fields.parse().unwrap()),
        deleting: false,
        health: None,
        writer: None,
        note: None,
    };
    (Key::new("shop", name), entry)
}

fn applied(name: &str, version: u64, fields: &str) -> BTreeMap<Identity, AppliedObject> {
    let applied = AppliedObject {
        hash: None,
        uid: format!("uid of {name}"),
        resource_version: version.to_string(),
        fields: Some(fields.parse().unwrap()),
        forced_fields: Vec::new(),
        scaler_fields: Vec::new(),
    };
    BTreeMap::from([(identity(CONFIG_MAP, "shop", name), applied)])
}

/// A change of an observed object.
type Alter = fn(&mut Entry);

const A: &str = "00000000000a";
const B: &str = "00000000000b";

/// Returns instances `till` and `shelf` with their ConfigMaps, all listed and as applied.
fn two_instances() -> Two {
    let mut cache = InformerCache::default();
    let objects = desired(&[(CONFIG_MAP, "till-a"), (CONFIG_MAP, "till-b")]);
    let change = cache.set_watched("till", None, &objects);
    let [scope] = <[_; 1]>::try_from(change.started).unwrap();
    let change = cache.set_watched("shelf", None, &desired(&[(CONFIG_MAP, "shelf-a")]));
    let expected = Change::default();
    assert_eq!(change, expected, "the watch of the first serves the second");
    let listing = vec![
        observed("till", "till-a", 1, A),
        observed("till", "till-b", 2, A),
        observed("shelf", "shelf-a", 3, A),
        observed("stranger", "x", 4, A),
    ];
    assert_eq!(cache.listed(&scope, listing), wakes(&["shelf", "till"]));
    Two { cache, scope }
}

struct Two {
    cache: InformerCache,
    scope: Arc<Scope>,
}

impl Two {
    fn observed(&mut self, owner: &str, name: &str, version: u64, fields: &str) -> WakeSet {
        let observed = observed(owner, name, version, fields);
        self.cache.seen(&self.scope, observed)
    }

    fn deleted(&mut self, owner: &str, name: &str, version: u64, fields: &str) -> WakeSet {
        let observed = observed(owner, name, version, fields);
        self.cache.remove(&self.scope, observed)
    }

    fn applied(
        &mut self,
        owner: &str,
        name: &str,
        version: u64,
        fields: &str,
    ) -> Option<WriteNote> {
        self.cache
            .record_applied(owner, &applied(name, version, fields))
    }

    fn listed(&mut self, listing: Vec<ReducedObject>) -> WakeSet {
        self.cache.listed(&self.scope, listing)
    }

    fn failed(&mut self, reason: &str, data: Staleness) -> WakeSet {
        self.cache.failed(&self.scope, reason.to_owned(), data)
    }
}

fn wakes(instances: &[&str]) -> WakeSet {
    instances.iter().map(|&instance| instance.into()).collect()
}

fn names(view: &InstanceView) -> Vec<&str> {
    view.objects
        .keys()
        .map(|identity| identity.name.as_str())
        .collect()
}

// parity: rukpak-33
#[test]
fn each_kind_is_watched_once_while_it_is_desired() {
    let mut cache = InformerCache::default();
    let both = desired(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a")]);
    let change = cache.set_watched("till", None, &both);
    assert_eq!(change.started.len(), 2);
    assert_eq!(cache.set_watched("till", None, &both), Change::default());
    assert_eq!(cache.set_watched("shelf", None, &both), Change::default());

    let found = cache.set_watched("till", None, &desired(&[(CONFIG_MAP, "b")]));
    assert_eq!(found, Change::default());
    let change = cache.set_watched("shelf", None, &desired(&[(CONFIG_MAP, "b")]));
    let stopped = change.stopped.iter().map(|scope| &*scope.resource.kind);
    assert_eq!(stopped.collect::<Vec<_>>(), ["Deployment"]);
    assert_eq!(cache.forget("till"), []);
    assert_eq!(cache.forget("shelf").len(), 1);
    assert_eq!(cache.forget("shelf"), []);
    assert!(cache.tables.is_empty() && cache.instances.is_empty());
}

#[test]
fn each_account_has_one_watch_per_namespace() {
    let account = Account {
        name: "installer".to_owned(),
        namespace: "shop".to_owned(),
    };
    let mut objects = desired(&[(CONFIG_MAP, "a")]);
    objects.insert(identity(CONFIG_MAP, "store", "a"), kind(CONFIG_MAP, true));
    objects.insert(identity(CRD, "", "a"), kind(CRD, false));
    let mut cache = InformerCache::default();
    assert_eq!(cache.set_watched("till", None, &objects).started.len(), 2);
    let change = cache.set_watched("till", Some(&account), &objects);
    let mut texts: Vec<_> = change.started.iter().map(ToString::to_string).collect();
    texts.sort();
    let expected = [
        "configmaps of namespace shop",
        "configmaps of namespace store",
        "customresourcedefinitions.apiextensions.k8s.io",
    ];
    assert_eq!(texts, expected);
    let expected = "core.rukpak.io/owner-kind=BundleInstance,core.rukpak.io/owner-name=till";
    assert_eq!(change.started[0].selector(), expected);
    assert_eq!(change.stopped.len(), 2);
    let expected = "core.rukpak.io/owner-kind=BundleInstance";
    assert_eq!(change.stopped[0].selector(), expected);
}

#[test]
fn full_objects_are_read_only_for_kinds_with_health_rules() {
    let depth = |objects: &WatchedObjects, kind| {
        let scopes = scope::scopes("till", None, objects);
        let mut found = scopes
            .iter()
            .filter(|(scope, _)| scope.resource.kind == kind);
        found.next().unwrap().0.depth
    };
    let mut objects = desired(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a"), (TILL, "a")]);
    assert_eq!(depth(&objects, "ConfigMap"), Depth::Metadata);
    assert_eq!(depth(&objects, "Deployment"), Depth::HealthView);
    assert_eq!(depth(&objects, "Till"), Depth::Metadata);
    let crd = identity(CRD, "", "tills.example.com");
    objects.insert(crd, kind(CRD, false));
    assert_eq!(depth(&objects, "Till"), Depth::HealthView);
}

#[test]
fn instance_wakes_when_its_last_watch_has_listed() {
    let mut cache = InformerCache::default();
    let objects = desired(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a")]);
    let change = cache.set_watched("till", None, &objects);
    let view = cache.view("till");
    assert!(!view.synced);
    assert_eq!(view.unknown.len(), 2);
    assert_eq!(cache.listed(&change.started[0], Vec::new()), wakes(&[]));
    assert_eq!(cache.view("till").unknown.len(), 1);
    let expected = wakes(&["till"]);
    assert_eq!(cache.listed(&change.started[1], Vec::new()), expected);
    let view = cache.view("till");
    assert!(view.synced && view.unknown.is_empty() && view.objects.is_empty());
    assert_eq!(view.absent.len(), 2);
    cache.set_watched("empty", None, &WatchedObjects::new());
    assert!(cache.view("empty").synced);
    assert_eq!(cache.view("nobody"), InstanceView::default());
}

#[test]
fn only_relevant_changes_wake_only_their_instance() {
    let mut two = two_instances();
    let base = || observed("till", "till-a", 10, A);
    let cases: [(&str, Alter, bool); 8] = ::tests::rows![
        "nothing", |_| {} => false;
        "resourceVersion", |entry| entry.version = 11 => false;
        "writer", |entry| entry.writer = Some("kubectl".into()) => false;
        "fields", |entry| entry.fields = Some(B.parse().unwrap()) => true;
        "no fields", |entry| entry.fields = None => true;
        "uid", |entry| entry.uid = entry::hash("other") => true;
        "deleting", |entry| entry.deleting = true => true;
        "health", |entry| entry.health = Some(Box::new(Health::Failed("broken".to_owned()))) => true;
    ];
    for (name, change, wakes_up) in cases {
        two.cache.seen(&two.scope, base());
        let mut changed = base();
        change(&mut changed.1);
        let expected: &[_] = if wakes_up { &["till"] } else { &[] };
        let found = two.cache.seen(&two.scope, changed);
        assert_eq!(found, wakes(expected), "{name}");
    }
    assert_eq!(two.observed("stranger", "y", 20, A), wakes(&[]));
    // Another client sets the label of the instance on its own object.
    assert_eq!(two.observed("till", "y", 20, A), wakes(&[]));
    assert_eq!(names(&two.cache.view("till")), ["till-a", "till-b"]);
}

#[test]
fn deleted_or_relabeled_objects_wake_their_instance() {
    let mut two = two_instances();
    assert_eq!(two.deleted("till", "till-a", 10, A), wakes(&["till"]));
    assert_eq!(names(&two.cache.view("till")), ["till-b"]);
    assert_eq!(two.deleted("till", "till-a", 10, A), wakes(&[]));
    assert_eq!(two.observed("shelf", "till-b", 11, A), wakes(&["till"]));
    assert_eq!(names(&two.cache.view("till")), [] as [&str; 0]);
    assert_eq!(names(&two.cache.view("shelf")), ["shelf-a"]);
    assert_eq!(two.observed("till", "till-b", 12, A), wakes(&["till"]));
}

#[test]
fn relist_wakes_only_instances_with_changes() {
    let mut two = two_instances();
    let same = || {
        vec![
            observed("till", "till-a", 1, A),
            observed("till", "till-b", 2, A),
            observed("shelf", "shelf-a", 30, A),
        ]
    };
    two.cache.start_list(&two.scope);
    assert_eq!(two.listed(same()), wakes(&[]));
    let mut other = same();
    other[0].1.fields = None;
    assert_eq!(two.listed(other), wakes(&["till"]));
    assert_eq!(two.listed(same().split_off(2)), wakes(&["till"]));
    assert_eq!(names(&two.cache.view("till")), [] as [&str; 0]);
}

#[test]
fn own_writes_are_visible_before_the_watch_event() {
    let mut two = two_instances();
    let note = two.applied("till", "till-a", 10, B).unwrap();
    let cached = |cache: &InformerCache| {
        cache.view("till").objects[&identity(CONFIG_MAP, "shop", "till-a")].clone()
    };
    assert_eq!(cached(&two.cache).fields, Some(B.parse().unwrap()));
    // Events from before the write are stale.
    assert_eq!(two.observed("till", "till-a", 9, A), wakes(&[]));
    assert_eq!(two.deleted("till", "till-a", 9, A), wakes(&[]));
    assert_eq!(cached(&two.cache).fields, Some(B.parse().unwrap()));
    // The event of the write confirms it and wakes no instance.
    assert_eq!(two.observed("till", "till-a", 10, B), wakes(&[]));
    assert_eq!(two.cache.expire(note), wakes(&[]));
    assert_eq!(cached(&two.cache).fields, Some(B.parse().unwrap()));
}

#[test]
fn write_older_than_the_watch_is_not_recorded() {
    let mut two = two_instances();
    // Applied at 10, deleted by another client at 11, and the events arrived before the response.
    two.observed("till", "till-a", 10, B);
    assert_eq!(two.deleted("till", "till-a", 11, B), wakes(&["till"]));
    assert!(two.applied("till", "till-a", 10, B).is_none());
    assert_eq!(names(&two.cache.view("till")), ["till-b"]);
    // Nor are writes without a change, of objects that are not desired, or with a resourceVersion that is not a number.
    assert!(two.applied("till", "till-b", 2, A).is_none());
    assert!(two.applied("till", "other", 20, A).is_none());
    assert!(two.applied("nobody", "till-b", 20, A).is_none());
    let mut unnumbered = applied("till-b", 0, B);
    for unnumbered in unnumbered.values_mut() {
        unnumbered.resource_version = "late".to_owned();
    }
    assert!(two.cache.record_applied("till", &unnumbered).is_none());
}

#[test]
fn write_without_a_watch_event_expires() {
    let mut two = two_instances();
    let first = two.applied("till", "till-a", 10, B).unwrap();
    let second = two.applied("till", "till-a", 11, A).unwrap();
    // A list does not confirm the write: it may have started earlier.
    let found = two.listed(vec![observed("shelf", "shelf-a", 3, A)]);
    assert_eq!(found, wakes(&["till"]));
    assert_eq!(names(&two.cache.view("till")), ["till-a"]);
    assert_eq!(two.cache.expire(first), wakes(&[]), "there is a later one");
    assert_eq!(two.cache.expire(second), wakes(&["till"]));
    assert_eq!(names(&two.cache.view("till")), [] as [&str; 0]);
}

#[test]
fn applied_object_does_not_keep_its_earlier_health() {
    let mut cache = InformerCache::default();
    let change = cache.set_watched("till", None, &desired(&[(DEPLOYMENT, "a")]));
    cache.listed(&change.started[0], vec![observed("till", "a", 1, A)]);
    let id = identity(DEPLOYMENT, "shop", "a");
    assert_eq!(cache.view("till").objects[&id].health, Health::Current);
    let mut update = applied("a", 5, B);
    let update = BTreeMap::from([(id.clone(), update.pop_first().unwrap().1)]);
    cache.record_applied("till", &update).unwrap();
    let expected = Health::InProgress("was just applied".to_owned());
    assert_eq!(cache.view("till").objects[&id].health, expected);
    let found = cache.seen(&change.started[0], observed("till", "a", 5, B));
    assert_eq!(found, wakes(&["till"]));
    assert_eq!(cache.view("till").objects[&id].health, Health::Current);
}

#[test]
fn watch_failure_wakes_once_and_refusal_drops_the_data() {
    let mut two = two_instances();
    let all = ["shelf", "till"];
    assert_eq!(two.failed("slow", Staleness::Stale), wakes(&all));
    assert_eq!(two.failed("slow", Staleness::Stale), wakes(&[]));
    let view = two.cache.view("till");
    let expected = (vec!["till-a", "till-b"], true);
    assert_eq!((names(&view), view.synced), expected);
    assert_eq!(view.failing, ["slow"]);
    assert_eq!(two.cache.failing(), slice::from_ref(&two.scope));

    assert_eq!(two.failed("forbidden", Staleness::Lost), wakes(&all));
    let view = two.cache.view("till");
    assert_eq!((names(&view), view.synced), (vec![], false));
    let expected = (2, vec!["forbidden".to_owned()]);
    assert_eq!((view.unknown.len(), view.failing), expected);

    assert_eq!(two.listed(Vec::new()), wakes(&all));
    let view = two.cache.view("till");
    assert!(view.synced && view.failing.is_empty() && view.unknown.is_empty());
    assert_eq!(two.cache.failing(), []);
}

#[test]
fn events_of_a_stopped_watch_are_ignored() {
    let mut two = two_instances();
    two.cache.forget("till");
    two.cache.forget("shelf");
    two.cache.start_list(&two.scope);
    let expected = wakes(&[]);
    assert_eq!(two.listed(vec![observed("till", "till-a", 1, A)]), expected);
    assert_eq!(two.observed("till", "till-a", 2, A), wakes(&[]));
    assert_eq!(two.deleted("till", "till-a", 3, A), wakes(&[]));
    assert_eq!(two.failed("late", Staleness::Lost), wakes(&[]));
    assert!(two.cache.tables.is_empty());
}

#[test]
fn a_thousand_instances_of_twenty_objects_are_cheap() {
    let mut cache = InformerCache::default();
    let mut scope = None;
    let name = |instance, object| format!("o-{instance}-{object}");
    for instance in 0..1000 {
        let objects: Vec<_> = (0..20).map(|object| name(instance, object)).collect();
        let objects: Vec<_> = objects
            .iter()
            .map(|name| (CONFIG_MAP, name.as_str()))
            .collect();
        let change = cache.set_watched(&format!("i{instance}"), None, &desired(&objects));
        scope = scope.or(change.started.first().cloned());
    }
    let scope = scope.unwrap();
    let all = || {
        (0..20_000).map(|number| {
            let (instance, object) = (number / 20, number % 20);
            observed(&format!("i{instance}"), &name(instance, object), 7, A)
        })
    };
    assert_eq!(cache.listed(&scope, all().collect()).len(), 1000);
    // An event is processed in constant time; this would take minutes if it were compared with other objects.
    for event in all() {
        assert_eq!(cache.seen(&scope, event), wakes(&[]));
    }
    assert_eq!(cache.view("i500").objects.len(), 20);
    let holds = size_of::<Entry>() + size_of::<Key>() <= 168;
    assert!(holds, "an entry is {}", size_of::<Entry>());
}
