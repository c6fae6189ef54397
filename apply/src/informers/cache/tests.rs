use std::slice;

use manifests::object::group_version;

use super::*;
use crate::discovery::ApiKind;

/// API version and kind.
type Api = (&'static str, &'static str);

const CONFIG_MAP: Api = ("v1", "ConfigMap");
const DEPLOYMENT: Api = ("apps/v1", "Deployment");
const TILL: Api = ("example.com/v1", "Till");
const CRD: Api = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");

fn identity((api_version, kind): Api, namespace: &str, name: &str) -> Identity {
    crate::tests::identity(group_version(api_version).0, kind, namespace, name)
}

fn watched(api: Api, namespace: &str, name: &str) -> (Identity, Arc<ApiKind>) {
    let (_, kind) = crate::tests::kind(api.0, api.1, !namespace.is_empty());
    (identity(api, namespace, name), kind)
}

fn desired(objects: &[(Api, &str)]) -> WatchedObjects {
    let object = |&(api, name): &(Api, &str)| watched(api, "shop", name);
    objects.iter().map(object).collect()
}

fn observed(owner: &str, name: &str, version: u64, fields: &str) -> ReducedObject {
    let entry = Entry {
        hash: None,
        owner: owner.into(),
        uid: entry::hash(&format!("uid of {name}")),
        version,
        fields: Some(fields.parse().unwrap()),
        rare: None,
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

const A: &str = "00000000000a";
const B: &str = "00000000000b";

/// Returns instances `till` and `shelf` with their ConfigMaps, all listed and as applied.
fn two_instances() -> Two {
    let mut cache = InformerCache::default();
    let objects = desired(&[(CONFIG_MAP, "till-a"), (CONFIG_MAP, "till-b")]);
    let [scope] = <[_; 1]>::try_from(cache.set_watched("till", None, &objects).started).unwrap();
    let change = cache.set_watched("shelf", None, &desired(&[(CONFIG_MAP, "shelf-a")]));
    assert_rows!(change => Change::default(), "the watch of the first serves the second");
    let listing = vec![
        observed("till", "till-a", 1, A),
        observed("till", "till-b", 2, A),
        observed("shelf", "shelf-a", 3, A),
        observed("other", "x", 4, A),
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

    fn applied(&mut self, owner: &str, name: &str, at: u64, fields: &str) -> Option<WriteNote> {
        self.cache.record_applied(owner, &applied(name, at, fields))
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
    let identities = view.objects.keys();
    identities.map(|identity| identity.name.as_str()).collect()
}

// parity: rukpak-33
#[test]
fn each_kind_is_watched_once_while_it_is_desired() {
    let mut cache = InformerCache::default();
    let both = desired(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a")]);
    let one = desired(&[(CONFIG_MAP, "b")]);
    assert_eq!(cache.set_watched("till", None, &both).started.len(), 2);
    for (name, objects) in [("till", &both), ("shelf", &both), ("till", &one)] {
        assert_eq!(cache.set_watched(name, None, objects), Change::default());
    }
    let change = cache.set_watched("shelf", None, &one);
    assert_rows!(change.stopped.iter().map(|scope| &*scope.resource.kind).collect::<Vec<_>>() => ["Deployment"]);
    assert_rows!(["till", "shelf", "shelf"].map(|name| cache.forget(name).len()) => [0, 1, 0]);
    assert!(cache.tables.is_empty() && cache.instances.is_empty());
}

#[test]
fn each_account_has_one_watch_per_namespace() {
    let account = crate::tests::account("installer", "shop");
    let mut objects = desired(&[(CONFIG_MAP, "a")]);
    objects.extend([watched(CONFIG_MAP, "store", "a"), watched(CRD, "", "a")]);
    let mut cache = InformerCache::default();
    assert_eq!(cache.set_watched("till", None, &objects).started.len(), 2);
    let change = cache.set_watched("till", Some(&account), &objects);
    let mut texts: Vec<_> = change.started.iter().map(ToString::to_string).collect();
    texts.sort();
    let expected = "configmaps of namespace shop, configmaps of namespace store, customresourcedefinitions.apiextensions.k8s.io";
    assert_eq!(texts.join(", "), expected);
    let all = "core.rukpak.io/owner-kind=BundleInstance";
    assert_rows! {
        change.started[0].selector() => format!("{all},core.rukpak.io/owner-name=till");
        change.stopped.iter().map(|scope| scope.selector()).collect::<Vec<_>>() => [all, all];
    }
}

#[test]
fn full_objects_are_read_only_for_kinds_with_health_rules() {
    let depth = |objects: &WatchedObjects, kind| {
        let mut scopes = scope::scopes("till", None, objects).into_iter();
        let found = scopes.find(|(scope, _)| scope.resource.kind == kind);
        found.unwrap().0.depth
    };
    let mut objects = desired(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a"), (TILL, "a")]);
    let depths = ["ConfigMap", "Deployment", "Till"].map(|kind| depth(&objects, kind));
    assert_rows!(depths => [Depth::Metadata, Depth::HealthView, Depth::Metadata]);
    objects.extend([watched(CRD, "", "tills.example.com")]);
    assert_eq!(depth(&objects, "Till"), Depth::HealthView);
}

#[test]
fn instance_wakes_when_its_last_watch_has_listed() {
    let mut cache = InformerCache::default();
    let objects = desired(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a")]);
    let scopes = cache.set_watched("till", None, &objects).started;
    let view = cache.view("till");
    assert_eq!((view.synced, view.unknown.len()), (false, 2));
    assert_eq!(cache.listed(&scopes[0], Vec::new()), wakes(&[]));
    assert_eq!(cache.view("till").unknown.len(), 1);
    assert_eq!(cache.listed(&scopes[1], Vec::new()), wakes(&["till"]));
    assert_rows!(cache.view("till") => with!(InstanceView, synced: true, absent: objects.into_keys().collect()));
    cache.set_watched("empty", None, &WatchedObjects::new());
    assert!(cache.view("empty").synced);
    assert_eq!(cache.view("unknown"), InstanceView::default());
}

#[test]
fn only_relevant_changes_wake_only_their_instance() {
    let mut two = two_instances();
    let base = || observed("till", "till-a", 10, A);
    let cases: [(_, fn(&mut Entry), _); 8] = ::tests::rows![
        "nothing", |_| {} => false;
        "resourceVersion", |entry| entry.version = 11 => false;
        "writer", |entry| entry.rare = with!(RareState, writer: Some("kubectl".into())).boxed() => false;
        "fields", |entry| entry.fields = Some(B.parse().unwrap()) => true;
        "no fields", |entry| entry.fields = None => true;
        "uid", |entry| entry.uid = entry::hash("other") => true;
        "deleting", |entry| entry.rare = with!(RareState, deleting: true).boxed() => true;
        "health", |entry| entry.rare = with!(RareState, health: Health::Failed("broken".to_owned())).boxed() => true;
    ];
    for (name, change, wakes_up) in cases {
        two.cache.seen(&two.scope, base());
        let mut changed = base();
        change(&mut changed.1);
        assert_rows!(two.cache.seen(&two.scope, changed) => wakes(if wakes_up { &["till"] } else { &[] }), "{name}");
    }
    assert_eq!(two.observed("other", "y", 20, A), wakes(&[]));
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
    let objects =
        ::tests::rows!["till-a", 1 => "till"; "till-b", 2 => "till"; "shelf-a", 30 => "shelf";];
    let same = || {
        let objects = objects.map(|(name, version, owner)| observed(owner, name, version, A));
        objects.to_vec()
    };
    two.cache.start_list(&two.scope);
    assert_eq!(two.listed(same()), wakes(&[]));
    let mut other = same();
    other[0].1.fields = None;
    assert_rows!([two.listed(other), two.listed(same().split_off(2))] => [wakes(&["till"]), wakes(&["till"])]);
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
    // Events from before the write are outdated.
    assert_rows!([two.observed("till", "till-a", 9, A), two.deleted("till", "till-a", 9, A)] => [wakes(&[]), wakes(&[])]);
    assert_eq!(cached(&two.cache).fields, Some(B.parse().unwrap()));
    // The event of the write confirms it and wakes no instance.
    assert_rows!([two.observed("till", "till-a", 10, B), two.cache.expire(note)] => [wakes(&[]), wakes(&[])]);
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
    assert!(two.applied("unknown", "till-b", 20, A).is_none());
    let mut unnumbered = applied("till-b", 0, B);
    let mut objects = unnumbered.values_mut();
    objects.next().unwrap().resource_version = "late".to_owned();
    assert!(two.cache.record_applied("till", &unnumbered).is_none());
}

#[test]
fn write_without_a_watch_event_expires() {
    let mut two = two_instances();
    let first = two.applied("till", "till-a", 10, B).unwrap();
    let second = two.applied("till", "till-a", 11, A).unwrap();
    // A list does not confirm the write: it may have started earlier.
    assert_rows!(two.listed(vec![observed("shelf", "shelf-a", 3, A)]) => wakes(&["till"]));
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
    assert_rows!(cache.view("till").objects[&id].health => Health::InProgress("was just applied".to_owned()));
    assert_rows!(cache.seen(&change.started[0], observed("till", "a", 5, B)) => wakes(&["till"]));
    assert_eq!(cache.view("till").objects[&id].health, Health::Current);
}

#[test]
fn watch_failure_wakes_once_and_refusal_drops_the_data() {
    let mut two = two_instances();
    let all = ["shelf", "till"];
    assert_rows!([(); 2].map(|()| two.failed("slow", Staleness::Stale)) => [wakes(&all), wakes(&[])]);
    let view = two.cache.view("till");
    assert_rows!((names(&view), view.synced, &view.failing) => (vec!["till-a", "till-b"], true, &vec!["slow".to_owned()]));
    assert_eq!(two.cache.failing(), slice::from_ref(&two.scope));

    assert_eq!(two.failed("forbidden", Staleness::Lost), wakes(&all));
    let unknown = ["till-a", "till-b"].map(|name| identity(CONFIG_MAP, "shop", name));
    let failing = vec!["forbidden".to_owned()];
    assert_rows!(two.cache.view("till") => with!(InstanceView, unknown: unknown.into(), failing));

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
    assert_rows! {
        two.listed(vec![observed("till", "till-a", 1, A)]) => wakes(&[]);
        two.observed("till", "till-a", 2, A) => wakes(&[]);
        two.deleted("till", "till-a", 3, A) => wakes(&[]);
        two.failed("late", Staleness::Lost) => wakes(&[]);
    }
    assert!(two.cache.tables.is_empty());
}

#[test]
fn a_thousand_instances_of_twenty_objects_are_cheap() {
    let mut cache = InformerCache::default();
    let mut scope = None;
    let name = |instance, object| format!("o-{instance}-{object}");
    for instance in 0..1000 {
        let objects = (0..20).map(|object| watched(CONFIG_MAP, "shop", &name(instance, object)));
        let change = cache.set_watched(&format!("i{instance}"), None, &objects.collect());
        scope = scope.or(change.started.first().cloned());
    }
    let scope = scope.unwrap();
    let all = (0..20_000).map(|number| {
        let (instance, object) = (number / 20, number % 20);
        observed(&format!("i{instance}"), &name(instance, object), 7, A)
    });
    assert_eq!(cache.listed(&scope, all.clone().collect()).len(), 1000);
    // An event is processed in constant time; this would take minutes if it were compared with other objects.
    for event in all {
        assert_eq!(cache.seen(&scope, event), wakes(&[]));
    }
    assert_eq!(cache.view("i500").objects.len(), 20);
    // An object and its slot in the table. Most allocators have a size class of 96 bytes.
    let holds = size_of::<ReducedObject>() <= 96 && size_of::<CachedObject>() == size_of::<usize>();
    assert!(holds, "an object is {}", size_of::<ReducedObject>());
}
