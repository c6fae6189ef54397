//! The operations on the instance and its objects, one at a time.

use manifests::api::bundle_instance::{
    CrdDeletionPolicy, InstanceConfig, Rollback, TemplateMetadata,
};

use super::*;

/// An operation. An [`Index`] chooses an object, or a revision.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    /// The template names another bundle.
    Template(Index),
    Configure(u8),
    /// Another ServiceAccount, or none.
    Account(bool),
    Policy(Rollback, CrdDeletionPolicy),
    Pause(bool),
    RollBackTo(Option<Index>),
    Kubernetes,
    /// A client other than the controller changes a field.
    Change(Index),
    /// Such a client deletes an object.
    Delete(Index),
    /// Such a client removes the labels of the owner.
    Strip(Index),
    /// Such a client creates an object, for another instance or for none.
    Create(Index, bool),
    /// Such a client creates a custom resource.
    CreateResource,
    /// An object gets a finalizer.
    Hold(Index),
    /// All finalizers are removed.
    Release,
    /// Writes of an object fail from now on.
    Deny(Index, ssa::FailureKind),
    Permit,
    /// An object becomes unhealthy: failed, or in progress.
    Fail(Index, bool),
    Heal,
    /// The present form of an object of a bundle does not work.
    Break(Index, Index),
    /// The registry becomes reachable or unreachable.
    Registry(bool),
    LoseContent,
    LoseIndex,
    /// The record of a revision is lost, or altered.
    LoseRecord(Index, bool),
    Restart,
    /// The process is killed after this number of requests.
    Kill(u32),
    /// This number of seconds passes.
    Wait(u16),
    /// The clock is set forward or back by this number of seconds.
    SetClock(i32),
}

pub(super) fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    use ssa::FailureKind::{Denied, Forbidden, Invalid, Transient};
    let index = any::<Index>;
    let causes = prop::sample::select(vec![Invalid, Forbidden, Denied, Transient]);
    let rollback = prop_oneof![Just(Rollback::Never), Just(Rollback::OnFailure)];
    let policy = prop_oneof![
        Just(CrdDeletionPolicy::Retain),
        Just(CrdDeletionPolicy::DeleteIfUnused),
        Just(CrdDeletionPolicy::Delete),
    ];
    let spec = prop_oneof![
        6 => index().prop_map(Template),
        2 => (0..2_u8).prop_map(Configure),
        1 => any::<bool>().prop_map(Account),
        2 => (rollback, policy).prop_map(|(rollback, policy)| Policy(rollback, policy)),
        1 => any::<bool>().prop_map(Pause),
        2 => prop::option::of(index()).prop_map(RollBackTo),
        1 => Just(Kubernetes),
    ];
    let clients = prop_oneof![
        2 => index().prop_map(Change),
        3 => index().prop_map(Delete),
        1 => index().prop_map(Strip),
        2 => (index(), any::<bool>()).prop_map(|(index, is_owned)| Create(index, is_owned)),
        2 => Just(CreateResource),
        1 => index().prop_map(Hold),
        1 => Just(Release),
    ];
    let failures = prop_oneof![
        2 => (index(), causes).prop_map(|(index, cause)| Deny(index, cause)),
        1 => Just(Permit),
        2 => (index(), any::<bool>()).prop_map(|(index, is_failed)| Fail(index, is_failed)),
        1 => Just(Heal),
        2 => (index(), index()).prop_map(|(bundle, object)| Break(bundle, object)),
    ];
    let losses = prop_oneof![
        1 => any::<bool>().prop_map(Registry),
        1 => Just(LoseContent),
        1 => Just(LoseIndex),
        1 => (index(), any::<bool>()).prop_map(|(index, is_altered)| LoseRecord(index, is_altered)),
        1 => Just(Restart),
        3 => (0..12_u32).prop_map(Kill),
        3 => (1..1000_u16).prop_map(Wait),
        1 => (-1_000_000..1_000_000).prop_map(SetClock),
    ];
    prop_oneof![4 => spec, 4 => clients, 3 => failures, 4 => losses]
}

fn chosen(server: &Server, index: Index) -> Option<Identity> {
    let owner = server.owner();
    let owned = server.objects.iter();
    let owned: Vec<_> = owned.filter(|(_, live)| live.is_labelled(&owner)).collect();
    (!owned.is_empty()).then(|| owned[index.index(owned.len())].0.clone())
}

fn change(server: &mut Server, index: Index, change: impl FnOnce(&mut Live)) {
    if let Some(identity) = chosen(server, index) {
        change(server.objects.get_mut(&identity).unwrap());
    }
}

fn any_of(index: Index) -> Identity {
    let all = content::identities();
    all[index.index(all.len())].clone()
}

impl Operation {
    pub(super) fn run(&self, server: &mut Server, controller: &mut Controller) {
        match self {
            Self::Kubernetes => server.registry.minor += 1,
            Self::Change(index) => change(server, *index, |live| {
                if !live.fields.contains_key("immutable") {
                    live.change("data|value", Some(json!("altered")));
                }
            }),
            Self::Delete(index) => {
                if let Some(identity) = chosen(server, *index)
                    && !is_definition(&identity)
                {
                    server.remove(&identity);
                }
            }
            Self::Strip(index) => change(server, *index, Live::strip),
            Self::Create(index, is_owned) => create(server, *index, *is_owned),
            Self::CreateResource => {
                if server.has_crd() {
                    server.create(&content::precious());
                }
            }
            Self::Hold(index) => change(server, *index, |live| live.has_finalizer = true),
            Self::Release => release_finalizers(server),
            Self::Deny(index, cause) => {
                server.denied.insert(any_of(*index), *cause);
            }
            Self::Permit => server.denied.clear(),
            Self::Fail(index, is_failed) => change(server, *index, |live| {
                let health = [Health::InProgress, Health::Failed][usize::from(*is_failed)];
                live.health = health("not ready".to_owned());
            }),
            Self::Heal => heal(server),
            Self::Break(bundle, object) => {
                let contents = &server.registry.contents;
                let objects = contents[bundle.index(contents.len())].objects(0);
                if !objects.is_empty() {
                    let object = &objects[object.index(objects.len())];
                    let form = (content::placed(object), ObjectHash::new(object));
                    server.broken.insert(form);
                }
            }
            Self::Registry(is_reachable) => server.registry.is_reachable = *is_reachable,
            Self::LoseContent => server.registry.stored.clear(),
            Self::LoseIndex => {
                server.is_disturbed = true;
                server.has_lost_both |= !server.lost.is_empty();
                server.instance.status = Some(with!(server.status() => inventory: None));
            }
            Self::LoseRecord(index, is_altered) => lose(server, *index, *is_altered),
            Self::Restart => {
                // The objects that an unfinished rollout has applied are recorded in memory only.
                server.is_disturbed |=
                    server.status().applied_digest.is_none() || !server.lists_all();
                *controller = Controller::default();
            }
            Self::Kill(requests) => {
                server.is_disturbed = true;
                server.fuse = Some(*requests);
            }
            Self::Wait(seconds) => server.now += i64::from(*seconds),
            Self::SetClock(seconds) => server.now += i64::from(*seconds),
            _ => self.change_spec(server),
        }
    }

    fn change_spec(&self, server: &mut Server) {
        let revisions = server.status().revisions;
        let instance = &mut server.instance;
        let spec = &mut instance.spec;
        match self {
            Self::Template(index) => {
                set_template(instance, index.index(server.registry.contents.len()));
            }
            Self::Configure(config) => {
                let deployment_config = Some(json!(config));
                spec.config = Some(InstanceConfig { deployment_config });
            }
            Self::Account(is_set) => {
                spec.service_account = is_set.then(|| ServiceAccountRef {
                    name: "installer".to_owned(),
                    namespace: NAMESPACE.to_owned(),
                });
            }
            Self::Policy(rollback, policy) => {
                spec.rollback = *rollback;
                spec.crd_deletion_policy = *policy;
            }
            Self::Pause(is_paused) => spec.paused = *is_paused,
            Self::RollBackTo(index) => {
                spec.rollback_to = index.map(|index| match revisions.len() {
                    0 => 1,
                    count => revisions[index.index(count)].number,
                });
            }
            other => panic!("{other:?} does not change the spec"),
        }
        let generation = instance.metadata.generation.unwrap_or_default();
        instance.metadata.generation = Some(generation + 1);
    }
}

pub(super) fn set_template(instance: &mut BundleInstance, number: usize) {
    let number = number.to_string();
    instance.spec.template.metadata = Some(TemplateMetadata {
        labels: Some(BTreeMap::from([("content".to_owned(), number)])),
        annotations: None,
    });
}

/// Creates an object of a bundle as another client, in place of the controller.
fn create(server: &mut Server, index: Index, is_owned: bool) {
    let identity = any_of(index);
    if is_definition(&identity) || content::is_widget(&identity) {
        return;
    }
    let api_version = format!("{}/v1", identity.group);
    let mut object = Object::try_from(json!({
        "apiVersion": api_version.trim_start_matches('/'), "kind": identity.kind,
        "metadata": {"name": identity.name, "namespace": identity.namespace}, "foreign": true,
    }))
    .unwrap();
    if is_owned {
        let other = InstanceOwner {
            name: "other".to_owned(),
            uid: "uid-of-other".to_owned(),
        };
        manifests::api::owner_metadata::set_owner(&mut object, &other);
    }
    server.create(&object);
}

/// Deletes the record of a revision, or alters it.
fn lose(server: &mut Server, index: Index, is_altered: bool) {
    let numbers: Vec<i64> = server.records.keys().copied().collect();
    if numbers.is_empty() {
        return;
    }
    let number = numbers[index.index(numbers.len())];
    if is_altered {
        let record = server.records.get_mut(&number).unwrap();
        let middle = record.len() / 2;
        record[middle] ^= 1;
    } else {
        server.records.remove(&number);
    }
    server.lost.insert(number);
    server.has_lost_both |= !server.lists_all();
}

/// Removes all finalizers. Objects that waited for one are deleted.
pub(super) fn release_finalizers(server: &mut Server) {
    for live in server.objects.values_mut() {
        live.has_finalizer = false;
    }
    server.objects.retain(|_, live| !live.is_terminating);
}

/// Makes every object and every form work.
pub(super) fn heal(server: &mut Server) {
    server.broken.clear();
    for live in server.objects.values_mut() {
        live.health = Health::Current;
    }
}

/// Removes the objects that other clients created in place of the instance's objects.
pub(super) fn remove_foreign(server: &mut Server) {
    let is_foreign = |live: &Live| live.fields.contains_key("foreign");
    server.objects.retain(|_, live| !is_foreign(live));
}
