//! A model of the API server: objects with fields, field owners and finalizers, the records of revisions, and faults of
//! requests.
//!
//! The server knows which requests come from the controller under test, and reports each one that breaks a rule of the
//! engine ([`Server::violations`]).

use apply::revision::{Encoded, Revision};

use super::*;

/// The process ended before a request.
#[derive(Debug)]
pub(super) struct Killed;

/// The reason of a write of the controller.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Phase {
    /// The rollout of the revision with this number.
    Rollout(i64),
    Repair,
    /// The deletion of objects that would break the new revision.
    Early,
    Prune,
    Uninstall,
}

/// The fingerprint of an applied object, or the reason why it was not applied.
type Applied = Result<Option<Fingerprint>, ssa::ApplyFailure>;

type Record = Revision<RevisionDetails>;

pub(super) struct Server {
    pub(super) registry: Registry,
    pub(super) objects: BTreeMap<Identity, Live>,
    pub(super) instance: BundleInstance,
    pub(super) records: BTreeMap<i64, Vec<u8>>,
    /// The number of requests until the process is killed.
    pub(super) fuse: Option<u32>,
    /// The objects whose writes fail.
    pub(super) denied: BTreeMap<Identity, ssa::FailureKind>,
    /// The forms in which objects do not work.
    pub(super) broken: BTreeSet<(Identity, ObjectHash)>,
    /// The versions in which custom resources may be stored.
    stored_versions: BTreeSet<String>,
    /// The forms that each revision records.
    pub(super) truth: BTreeMap<i64, BTreeMap<Identity, ObjectHash>>,
    /// The waves in which a rollout has changed an object.
    pub(super) started: BTreeSet<(i64, Wave)>,
    /// The revisions whose records were lost.
    pub(super) lost: BTreeSet<i64>,
    /// Whether a record and the index were lost at the same time.
    pub(super) has_lost_both: bool,
    /// The objects of the active revision that do not exist, and how many reconciles have ended since.
    pub(super) missing: BTreeMap<Identity, u32>,
    /// Whether the controller may have lost the state of a rollout, so that an unchanged object may be written.
    pub(super) is_disturbed: bool,
    pub(super) violations: Vec<String>,
    /// The time, in seconds.
    pub(super) now: i64,
}

impl Server {
    pub(super) fn new(instance: BundleInstance, contents: Vec<Content>) -> Self {
        Self {
            registry: with!(Registry, contents, is_reachable: true, minor: 30),
            objects: BTreeMap::new(),
            instance,
            records: BTreeMap::new(),
            fuse: None,
            denied: BTreeMap::new(),
            broken: BTreeSet::new(),
            stored_versions: BTreeSet::new(),
            truth: BTreeMap::new(),
            started: BTreeSet::new(),
            lost: BTreeSet::new(),
            has_lost_both: false,
            missing: BTreeMap::new(),
            is_disturbed: false,
            violations: Vec::new(),
            now: 0,
        }
    }

    pub(super) fn owner(&self) -> InstanceOwner {
        revisions::owner(&self.instance)
    }

    pub(super) fn status(&self) -> Status {
        self.instance.status.clone().unwrap_or_default()
    }

    /// Reports whether the status lists every object.
    pub(super) fn lists_all(&self) -> bool {
        let status = self.status();
        status.inventory.is_some() && status.lists_all()
    }

    pub(super) fn has_crd(&self) -> bool {
        let mut identities = self.objects.keys();
        identities.any(|identity| identity.name == CRD_NAME)
    }

    /// Returns the CRD as the API server does, if it exists.
    pub(super) fn crd(&self) -> Option<Value> {
        let mut objects = self.objects.iter();
        let (_, live) = objects.find(|(identity, _)| identity.name == CRD_NAME)?;
        let mut value = live.value();
        value["status"] = json!({"storedVersions": self.stored_versions});
        Some(value)
    }

    /// Returns what the informers observe of these objects.
    pub(super) fn view<'a>(&self, identities: impl Iterator<Item = &'a Identity>) -> InstanceView {
        let owner = self.owner();
        let mut view = with!(InstanceView, synced: true);
        for identity in identities {
            match self.objects.get(identity) {
                Some(live) if live.is_labelled(&owner) => {
                    let (fields, deleting) = (live.fingerprint(), live.is_terminating);
                    let health = live.health.clone();
                    let observed =
                        with!(ObservedObject, hash: live.hash(), fields, deleting, health);
                    view.objects.insert(identity.clone(), observed);
                }
                _ => {
                    view.absent.insert(identity.clone());
                }
            }
        }
        view
    }

    pub(super) fn planned(&self, objects: Vec<Object>, inventory: &Inventory) -> Plan {
        self.planned_with(objects, inventory, self.has_crd())
    }

    /// Plans as if the CRD existed, or as if it did not.
    fn planned_with(&self, objects: Vec<Object>, inventory: &Inventory, is_defined: bool) -> Plan {
        let found = content::found(&objects, is_defined);
        let (owner, optional) = (self.owner(), BTreeSet::new());
        plan::new(objects, &found, inventory, &owner, NAMESPACE, &optional)
    }

    fn request(&mut self) -> Run<()> {
        match &mut self.fuse {
            Some(0) => return Err(Killed),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(())
    }

    pub(super) fn violate(&mut self, rule: impl Into<String>) {
        self.violations.push(rule.into());
    }

    /// Returns why applying would fail.
    pub(super) fn try_out(&self, step: &ApplyStep) -> Option<ssa::ApplyFailure> {
        let identity = step.object.identity();
        let fail = |cause| {
            Some(ssa::ApplyFailure {
                message: format!("{identity} is rejected: {cause:?}"),
                identity: identity.clone(),
                cause,
            })
        };
        if let Some(cause) = self.denied.get(&identity) {
            return fail(*cause);
        }
        if content::is_widget(&identity) && !self.has_crd() {
            return fail(ssa::FailureKind::NotServed);
        }
        match self.objects.get(&identity) {
            Some(live) if live.is_terminating => fail(ssa::FailureKind::Deleting),
            Some(live) if live.fields.get("immutable") == Some(&json!(true)) => {
                let incoming = leaves(step.object.value());
                let is_same = incoming.get("data|value") == live.fields.get("data|value");
                fail(ssa::FailureKind::Invalid).filter(|_| !is_same)
            }
            _ => None,
        }
    }

    /// Applies an object for the controller.
    pub(super) fn apply(&mut self, step: &ApplyStep, phase: Phase) -> Run<Applied> {
        self.request()?;
        if let Some(failure) = self.try_out(step) {
            return Ok(Err(failure));
        }
        let identity = step.object.identity();
        self.check_write(&identity, step, phase);
        let incoming = leaves(step.object.value());
        if let Phase::Rollout(number) = phase {
            self.started.insert((number, step.wave));
        }
        let live = self.objects.entry(identity.clone());
        let live = live.or_insert_with(|| Live::new(&json!({})));
        if live.hash() != Some(step.hash) {
            let is_broken = self.broken.contains(&(identity.clone(), step.hash));
            live.health = if is_broken {
                Health::Failed("broken".to_owned())
            } else {
                Health::Current
            };
        }
        for path in &live.ours {
            if !incoming.contains_key(path) {
                live.fields.remove(path);
            }
        }
        live.ours = incoming.keys().cloned().collect();
        live.fields.extend(incoming);
        let fingerprint = live.fingerprint();
        if identity.name == CRD_NAME {
            let value = step.object.value();
            for version in value["spec"]["versions"].as_array().unwrap() {
                if version["storage"] == json!(true) {
                    let name = version["name"].as_str().unwrap().to_owned();
                    self.stored_versions.insert(name);
                }
            }
        }
        Ok(Ok(fingerprint))
    }

    /// Deletes an object for the controller; the answer says whether a finalizer holds it.
    pub(super) fn delete(&mut self, identity: &Identity, phase: Phase) -> Run<bool> {
        self.request()?;
        self.check_deletion(identity, phase);
        let Some(live) = self.objects.get_mut(identity) else {
            return Ok(false);
        };
        live.is_terminating = true;
        if live.has_finalizer {
            return Ok(true);
        }
        self.objects.remove(identity);
        if identity.name == CRD_NAME {
            self.stored_versions.clear();
            let lost = self.objects.keys().cloned();
            let lost: Vec<Identity> = lost.filter(content::is_widget).collect();
            for identity in &lost {
                self.objects.remove(identity);
            }
            if phase != Phase::Uninstall && !lost.is_empty() {
                self.violate(format!("{phase:?} deletes custom resources: {lost:?}"));
            }
        }
        Ok(false)
    }

    /// Takes the owner off an object for the controller.
    pub(super) fn release(&mut self, identity: &Identity) -> Run<()> {
        self.request()?;
        let owner = self.owner();
        if let Some(live) = self.objects.get_mut(identity) {
            live.strip();
            live.change("metadata|ownerReferences", None);
            live.change(&annotation(labels::ADOPT), Some(json!(owner.name)));
        }
        Ok(())
    }

    pub(super) fn record(&mut self, number: i64, encoded: &Encoded) -> Run<()> {
        self.request()?;
        self.records.insert(number, encoded.parts.concat());
        let objects = self.decode(number, &encoded.checksum).unwrap().objects;
        let plan = self.planned_with(objects, &Inventory::new(), true);
        let forms = plan.steps.iter();
        let forms = forms.map(|step| (step.object.identity(), step.hash));
        self.truth.insert(number, forms.collect());
        self.lost.remove(&number);
        Ok(())
    }

    /// Reads the record of a revision, as the store does.
    pub(super) fn read(&self, revision: &RevisionStatus) -> Result<Record, String> {
        self.decode(revision.number, &revision.checksum)
    }

    fn decode(&self, number: i64, checksum: &str) -> Result<Record, String> {
        let record = self.records.get(&number).ok_or("not found")?;
        let decoded = revision::decode(record, checksum, number, &self.owner().uid);
        decoded.map_err(|error| error.to_string())
    }

    pub(super) fn forget(&mut self, number: i64) -> Run<()> {
        self.request()?;
        self.records.remove(&number);
        Ok(())
    }

    pub(super) fn write_status(&mut self, status: &Status) -> Run<()> {
        self.request()?;
        if invariants::claims_health(status)
            && !invariants::claims_health(&self.status())
            && let Some(identity) = invariants::unhealthy(self, status)
        {
            self.violate(format!("Healthy is True, and {identity} is not healthy"));
        }
        let mut status = status.clone();
        let observed = &mut status.observed_generation;
        observed.get_or_insert(Status::NOT_OBSERVED);
        self.instance.status = Some(status);
        Ok(())
    }

    /// Deletes the objects that refer to the instance as their owner, as the garbage collector does after its deletion.
    pub(super) fn collect_garbage(&mut self) {
        let uid = self.owner().uid;
        let is_referred_to = |live: &Live| {
            let references = live.fields.get("metadata|ownerReferences");
            let mut references = references.and_then(Value::as_array).into_iter().flatten();
            references.any(|reference| reference["uid"] == json!(uid))
        };
        self.objects.retain(|_, live| !is_referred_to(live));
    }

    /// Creates an object as another client, unless the object exists.
    pub(super) fn create(&mut self, object: &Object) {
        let identity = object.identity();
        let live = Live::new(object.value());
        self.objects.entry(identity).or_insert(live);
    }

    /// Deletes an object as another client.
    pub(super) fn remove(&mut self, identity: &Identity) {
        if let Some(live) = self.objects.get_mut(identity) {
            live.is_terminating = true;
            if !live.has_finalizer {
                self.objects.remove(identity);
            }
        }
    }
}
