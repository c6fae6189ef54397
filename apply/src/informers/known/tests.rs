use std::slice;

use kube::core::ApiResource;

use super::*;
use crate::discovery::Kind;

const CONFIG_MAP: (&str, &str, &str) = ("", "ConfigMap", "configmaps");
const DEPLOYMENT: (&str, &str, &str) = ("apps", "Deployment", "deployments");
const TILL: (&str, &str, &str) = ("example.com", "Till", "tills");
const DEFINITION: (&str, &str, &str) = (
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

fn identity((group, kind, _): (&str, &str, &str), namespace: &str, name: &str) -> Identity {
    crate::tests::identity(group, kind, namespace, name)
}

fn kind((group, kind, plural): (&str, &str, &str), namespaced: bool) -> Arc<Kind> {
    let resource = ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: [group, "v1"].join("/").trim_start_matches('/').to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    Arc::new(Kind {
        resource,
        namespaced,
    })
}

fn wanted(objects: &[((&str, &str, &str), &str)]) -> Wanted {
    let object = |&(of, name): &(_, &str)| (identity(of, "shop", name), kind(of, true));
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

fn applied(name: &str, version: u64, fields: &str) -> BTreeMap<Identity, Applied> {
    let applied = Applied {
        hash: None,
        uid: format!("uid of {name}"),
        resource_version: version.to_string(),
        fields: Some(fields.parse().unwrap()),
        taken: Vec::new(),
        yielded: Vec::new(),
    };
    BTreeMap::from([(identity(CONFIG_MAP, "shop", name), applied)])
}

/// What happens to an object.
type Alter = fn(&mut Entry);

const A: &str = "00000000000a";
const B: &str = "00000000000b";

/// Instances `till` and `shelf` that want ConfigMaps `a` and `b` of their name, all listed and as applied.
fn two_instances() -> Two {
    let mut known = InformerCache::default();
    let objects = wanted(&[(CONFIG_MAP, "till-a"), (CONFIG_MAP, "till-b")]);
    let change = known.want("till", None, &objects);
    let [scope] = <[_; 1]>::try_from(change.started).unwrap();
    let change = known.want("shelf", None, &wanted(&[(CONFIG_MAP, "shelf-a")]));
    let expected = Change::default();
    assert_eq!(change, expected, "the watch of the first serves the second");
    let listing = vec![
        observed("till", "till-a", 1, A),
        observed("till", "till-b", 2, A),
        observed("shelf", "shelf-a", 3, A),
        observed("stranger", "x", 4, A),
    ];
    assert_eq!(known.listed(&scope, listing), wakes(&["shelf", "till"]));
    Two { known, scope }
}

struct Two {
    known: InformerCache,
    scope: Arc<Scope>,
}

impl Two {
    fn seen(&mut self, owner: &str, name: &str, version: u64, fields: &str) -> WakeSet {
        let observed = observed(owner, name, version, fields);
        self.known.seen(&self.scope, observed)
    }

    fn gone(&mut self, owner: &str, name: &str, version: u64, fields: &str) -> WakeSet {
        let observed = observed(owner, name, version, fields);
        self.known.gone(&self.scope, observed)
    }

    fn applied(&mut self, of: &str, name: &str, version: u64, fields: &str) -> Option<WriteNote> {
        self.known.applied(of, &applied(name, version, fields))
    }

    fn listed(&mut self, listing: Vec<ReducedObject>) -> WakeSet {
        self.known.listed(&self.scope, listing)
    }

    fn failed(&mut self, why: &str, data: Staleness) -> WakeSet {
        self.known.failed(&self.scope, why.to_owned(), data)
    }
}

fn wakes(instances: &[&str]) -> WakeSet {
    instances.iter().map(|&instance| instance.into()).collect()
}

fn names(view: &View) -> Vec<&str> {
    view.objects.keys().map(|it| it.name.as_str()).collect()
}

// parity: rukpak-33
#[test]
fn each_kind_is_watched_once_and_no_longer_than_it_is_wanted() {
    let mut known = InformerCache::default();
    let both = wanted(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a")]);
    let change = known.want("till", None, &both);
    assert_eq!(change.started.len(), 2);
    assert_eq!(known.want("till", None, &both), Change::default());
    assert_eq!(known.want("shelf", None, &both), Change::default());

    let found = known.want("till", None, &wanted(&[(CONFIG_MAP, "b")]));
    assert_eq!(found, Change::default());
    let change = known.want("shelf", None, &wanted(&[(CONFIG_MAP, "b")]));
    let stopped = change.stopped.iter().map(|scope| &*scope.resource.kind);
    assert_eq!(stopped.collect::<Vec<_>>(), ["Deployment"]);
    assert_eq!(known.forget("till"), []);
    assert_eq!(known.forget("shelf").len(), 1);
    assert_eq!(known.forget("shelf"), []);
    assert!(known.tables.is_empty() && known.instances.is_empty());
}

#[test]
fn an_account_has_watches_of_its_own_in_each_namespace() {
    let account = Account {
        name: "installer".to_owned(),
        namespace: "shop".to_owned(),
    };
    let mut objects = wanted(&[(CONFIG_MAP, "a")]);
    objects.insert(identity(CONFIG_MAP, "store", "a"), kind(CONFIG_MAP, true));
    objects.insert(identity(DEFINITION, "", "a"), kind(DEFINITION, false));
    let mut known = InformerCache::default();
    assert_eq!(known.want("till", None, &objects).started.len(), 2);
    let change = known.want("till", Some(&account), &objects);
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
fn whole_objects_are_read_only_where_health_can_be_judged() {
    let depth = |objects: &Wanted, kind| {
        let scopes = scope::scopes("till", None, objects);
        let mut found = scopes.iter().filter(|(it, _)| it.resource.kind == kind);
        found.next().unwrap().0.depth
    };
    let mut objects = wanted(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a"), (TILL, "a")]);
    assert_eq!(depth(&objects, "ConfigMap"), Depth::Metadata);
    assert_eq!(depth(&objects, "Deployment"), Depth::Full);
    assert_eq!(depth(&objects, "Till"), Depth::Metadata);
    let definition = identity(DEFINITION, "", "tills.example.com");
    objects.insert(definition, kind(DEFINITION, false));
    assert_eq!(depth(&objects, "Till"), Depth::Full);
}

#[test]
fn an_instance_is_woken_when_the_last_of_its_watches_has_listed() {
    let mut known = InformerCache::default();
    let objects = wanted(&[(CONFIG_MAP, "a"), (DEPLOYMENT, "a")]);
    let change = known.want("till", None, &objects);
    let view = known.view("till");
    assert!(!view.synced);
    assert_eq!(view.unknown.len(), 2);
    assert_eq!(known.listed(&change.started[0], Vec::new()), wakes(&[]));
    assert_eq!(known.view("till").unknown.len(), 1);
    let expected = wakes(&["till"]);
    assert_eq!(known.listed(&change.started[1], Vec::new()), expected);
    let view = known.view("till");
    assert!(view.synced && view.unknown.is_empty() && view.objects.is_empty());
    assert_eq!(view.absent.len(), 2);
    known.want("empty", None, &Wanted::new());
    assert!(known.view("empty").synced);
    assert_eq!(known.view("nobody"), View::default());
}

#[test]
fn only_the_instance_concerned_is_woken_and_only_by_what_decides() {
    let mut two = two_instances();
    let base = || observed("till", "till-a", 10, A);
    let cases: [(&str, Alter, bool); 8] = ::tests::rows![
        "nothing", |_| {} => false;
        "resourceVersion", |it| it.version = 11 => false;
        "writer", |it| it.writer = Some("kubectl".into()) => false;
        "fields", |it| it.fields = Some(B.parse().unwrap()) => true;
        "no fields", |it| it.fields = None => true;
        "uid", |it| it.uid = entry::hash("other") => true;
        "deleting", |it| it.deleting = true => true;
        "health", |it| it.health = Some(Box::new(Health::Failed("broken".to_owned()))) => true;
    ];
    for (name, change, wakes_up) in cases {
        two.known.seen(&two.scope, base());
        let mut changed = base();
        change(&mut changed.1);
        let expected: &[_] = if wakes_up { &["till"] } else { &[] };
        let found = two.known.seen(&two.scope, changed);
        assert_eq!(found, wakes(expected), "{name}");
    }
    assert_eq!(two.seen("stranger", "y", 20, A), wakes(&[]));
    // Somebody writes the instance's label on an object of theirs.
    assert_eq!(two.seen("till", "y", 20, A), wakes(&[]));
    assert_eq!(names(&two.known.view("till")), ["till-a", "till-b"]);
}

#[test]
fn gone_or_relabelled_objects_wake_their_instance() {
    let mut two = two_instances();
    assert_eq!(two.gone("till", "till-a", 10, A), wakes(&["till"]));
    assert_eq!(names(&two.known.view("till")), ["till-b"]);
    assert_eq!(two.gone("till", "till-a", 10, A), wakes(&[]));
    assert_eq!(two.seen("shelf", "till-b", 11, A), wakes(&["till"]));
    assert_eq!(names(&two.known.view("till")), [] as [&str; 0]);
    assert_eq!(names(&two.known.view("shelf")), ["shelf-a"]);
    assert_eq!(two.seen("till", "till-b", 12, A), wakes(&["till"]));
}

#[test]
fn listing_again_wakes_only_those_for_whom_it_differs() {
    let mut two = two_instances();
    let same = || {
        vec![
            observed("till", "till-a", 1, A),
            observed("till", "till-b", 2, A),
            observed("shelf", "shelf-a", 30, A),
        ]
    };
    two.known.start_list(&two.scope);
    assert_eq!(two.listed(same()), wakes(&[]));
    let mut other = same();
    other[0].1.fields = None;
    assert_eq!(two.listed(other), wakes(&["till"]));
    assert_eq!(two.listed(same().split_off(2)), wakes(&["till"]));
    assert_eq!(names(&two.known.view("till")), [] as [&str; 0]);
}

#[test]
fn our_own_writes_are_known_before_the_watch_tells() {
    let mut two = two_instances();
    let noted = two.applied("till", "till-a", 10, B).unwrap();
    let seen = |known: &InformerCache| {
        known.view("till").objects[&identity(CONFIG_MAP, "shop", "till-a")].clone()
    };
    assert_eq!(seen(&two.known).fields, Some(B.parse().unwrap()));
    // What the watch still has to say about before is old.
    assert_eq!(two.seen("till", "till-a", 9, A), wakes(&[]));
    assert_eq!(two.gone("till", "till-a", 9, A), wakes(&[]));
    assert_eq!(seen(&two.known).fields, Some(B.parse().unwrap()));
    // It confirms the write, which is no news.
    assert_eq!(two.seen("till", "till-a", 10, B), wakes(&[]));
    assert_eq!(two.known.expire(noted), wakes(&[]));
    assert_eq!(seen(&two.known).fields, Some(B.parse().unwrap()));
}

#[test]
fn a_write_that_the_watch_has_passed_is_not_noted() {
    let mut two = two_instances();
    // Applied at 10, deleted by somebody at 11, and the watch was faster than the answer.
    two.seen("till", "till-a", 10, B);
    assert_eq!(two.gone("till", "till-a", 11, B), wakes(&["till"]));
    assert!(two.applied("till", "till-a", 10, B).is_none());
    assert_eq!(names(&two.known.view("till")), ["till-b"]);
    // Nor is what changed nothing, what is not wanted, or what an API server without numbers wrote.
    assert!(two.applied("till", "till-b", 2, A).is_none());
    assert!(two.applied("till", "other", 20, A).is_none());
    assert!(two.applied("nobody", "till-b", 20, A).is_none());
    let mut wordy = applied("till-b", 0, B);
    for wordy in wordy.values_mut() {
        wordy.resource_version = "late".to_owned();
    }
    assert!(two.known.applied("till", &wordy).is_none());
}

#[test]
fn a_write_that_the_watch_never_tells_of_expires() {
    let mut two = two_instances();
    let first = two.applied("till", "till-a", 10, B).unwrap();
    let second = two.applied("till", "till-a", 11, A).unwrap();
    // Listing again does not tell: it may have begun before.
    let found = two.listed(vec![observed("shelf", "shelf-a", 3, A)]);
    assert_eq!(found, wakes(&["till"]));
    assert_eq!(names(&two.known.view("till")), ["till-a"]);
    assert_eq!(two.known.expire(first), wakes(&[]), "there is a later one");
    assert_eq!(two.known.expire(second), wakes(&["till"]));
    assert_eq!(names(&two.known.view("till")), [] as [&str; 0]);
}

#[test]
fn what_was_just_applied_is_not_healthy_by_what_it_was() {
    let mut known = InformerCache::default();
    let change = known.want("till", None, &wanted(&[(DEPLOYMENT, "a")]));
    known.listed(&change.started[0], vec![observed("till", "a", 1, A)]);
    let id = identity(DEPLOYMENT, "shop", "a");
    assert_eq!(known.view("till").objects[&id].health, Health::Current);
    let mut news = applied("a", 5, B);
    let news = BTreeMap::from([(id.clone(), news.pop_first().unwrap().1)]);
    known.applied("till", &news).unwrap();
    let just = Health::InProgress("was just applied".to_owned());
    assert_eq!(known.view("till").objects[&id].health, just);
    let found = known.seen(&change.started[0], observed("till", "a", 5, B));
    assert_eq!(found, wakes(&["till"]));
    assert_eq!(known.view("till").objects[&id].health, Health::Current);
}

#[test]
fn a_watch_that_fails_says_so_once_and_knows_nothing_when_it_is_refused() {
    let mut two = two_instances();
    let all = ["shelf", "till"];
    assert_eq!(two.failed("slow", Staleness::Stale), wakes(&all));
    assert_eq!(two.failed("slow", Staleness::Stale), wakes(&[]));
    let view = two.known.view("till");
    let expected = (vec!["till-a", "till-b"], true);
    assert_eq!((names(&view), view.synced), expected);
    assert_eq!(view.failing, ["slow"]);
    assert_eq!(two.known.failing(), slice::from_ref(&two.scope));

    assert_eq!(two.failed("forbidden", Staleness::Lost), wakes(&all));
    let view = two.known.view("till");
    assert_eq!((names(&view), view.synced), (vec![], false));
    let expected = (2, vec!["forbidden".to_owned()]);
    assert_eq!((view.unknown.len(), view.failing), expected);

    assert_eq!(two.listed(Vec::new()), wakes(&all));
    let view = two.known.view("till");
    assert!(view.synced && view.failing.is_empty() && view.unknown.is_empty());
    assert_eq!(two.known.failing(), []);
}

#[test]
fn events_of_a_watch_that_was_stopped_are_nothing() {
    let mut two = two_instances();
    two.known.forget("till");
    two.known.forget("shelf");
    two.known.start_list(&two.scope);
    let expected = wakes(&[]);
    assert_eq!(two.listed(vec![observed("till", "till-a", 1, A)]), expected);
    assert_eq!(two.seen("till", "till-a", 2, A), wakes(&[]));
    assert_eq!(two.gone("till", "till-a", 3, A), wakes(&[]));
    assert_eq!(two.failed("late", Staleness::Lost), wakes(&[]));
    assert!(two.known.tables.is_empty());
}

#[test]
fn a_thousand_instances_of_twenty_objects_are_cheap() {
    let mut known = InformerCache::default();
    let mut scope = None;
    let name = |instance, object| format!("o-{instance}-{object}");
    for instance in 0..1000 {
        let objects: Vec<_> = (0..20).map(|object| name(instance, object)).collect();
        let objects: Vec<_> = objects.iter().map(|it| (CONFIG_MAP, it.as_str())).collect();
        let change = known.want(&format!("i{instance}"), None, &wanted(&objects));
        scope = scope.or(change.started.first().cloned());
    }
    let scope = scope.unwrap();
    let all = || {
        (0..20_000).map(|it| {
            let (instance, object) = (it / 20, it % 20);
            observed(&format!("i{instance}"), &name(instance, object), 7, A)
        })
    };
    assert_eq!(known.listed(&scope, all().collect()).len(), 1000);
    // An event touches its own object; that took minutes if it looked at others.
    for event in all() {
        assert_eq!(known.seen(&scope, event), wakes(&[]));
    }
    assert_eq!(known.view("i500").objects.len(), 20);
    let holds = size_of::<Entry>() + size_of::<Key>() <= 168;
    assert!(holds, "an entry is {}", size_of::<Entry>());
}
