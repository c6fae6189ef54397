//! What is known, and what is to be found out. No I/O.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use convert::removal::{Removals, Search, calls::Calls};
use kube::ResourceExt as _;
use manifests::{api::instance::BundleInstance, version::KubeVersion};

/// How many uses of one instance are told.
const MOST_TOLD: usize = 64;

/// Everything.
#[derive(Debug, Default)]
pub(super) struct State {
    span: Option<Span>,
    known: HashMap<String, Known>,
    /// How many of the known ones there is something to be said of.
    count: usize,
    /// In the order in which they were asked for.
    queue: VecDeque<String>,
    asked: HashSet<String>,
    calls: Calls,
}

/// The version of Kubernetes that there is, and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: KubeVersion,
    pub(super) to: KubeVersion,
}

/// What has to be done.
#[derive(Debug)]
pub(super) enum Step {
    /// Look at the instance of this name.
    Look(String, Span),
    /// Wait a little.
    Later,
}

/// What was seen of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// In its objects.
    pub(super) removals: Removals,
    /// Its ServiceAccounts, as `namespace:name`.
    pub(super) accounts: Vec<String>,
}

/// What is known of an instance.
#[derive(Debug)]
struct Known {
    key: Key,
    seen: Seen,
    told: Arc<[String]>,
}

/// What it was known for: another content, or another cluster, is another thing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    uid: String,
    applied: Option<String>,
    objects: i64,
    span: Option<Span>,
}

impl State {
    /// What an instance uses, if it was looked at already; and whether that is the latest.
    pub(super) fn of(&mut self, instance: &BundleInstance) -> (Option<Arc<[String]>>, bool) {
        let name = instance.name_any();
        let key = key(instance, self.span).filter(|_| !self.is_idle());
        let Some(key) = key else {
            self.forget(&name);
            return (Some(Arc::default()), true);
        };
        let known = self
            .known
            .get(&name)
            .filter(|known| known.key.uid == key.uid);
        let told = known.map(|known| Arc::clone(&known.told));
        let is_known = self.span.is_some() && known.is_some_and(|known| known.key == key);
        if !is_known {
            self.ask(name);
        }
        (told, is_known)
    }

    /// Reports whether there is nothing to be found in any instance: Kubernetes goes on to serve everything, and no requests
    /// were counted.
    fn is_idle(&self) -> bool {
        let is_idle = |span: Span| Search::new(span.from, span.to).is_idle();
        self.span.is_some_and(is_idle) && self.calls.is_empty()
    }

    /// Has an instance looked at after those that were asked for before.
    pub(super) fn ask(&mut self, name: String) {
        if self.asked.insert(name.clone()) {
            self.queue.push_back(name);
        }
    }

    /// The next one to be looked at.
    pub(super) fn next(&mut self) -> Option<Step> {
        let span = self.span?;
        while let Some(name) = self.queue.pop_front() {
            if self.asked.remove(&name) {
                return Some(Step::Look(name, span));
            }
        }
        None
    }

    /// The cluster runs this version. Tells whether that is news: then everything has to be asked for anew.
    pub(super) fn runs(&mut self, from: KubeVersion) -> bool {
        let to = KubeVersion::new(from.major, from.minor.saturating_add(1));
        let span = Some(Span { from, to });
        let is_other = self.span != span;
        self.span = span;
        is_other && !self.known.is_empty()
    }

    /// Something was seen. Tells whether there is something else to be said.
    pub(super) fn learn(&mut self, instance: &BundleInstance, span: Span, seen: Seen) -> bool {
        let Some(key) = key(instance, Some(span)) else {
            return false;
        };
        let told = told(&seen, &self.calls, span);
        self.count += usize::from(!told.is_empty());
        let before = self.forget(&instance.name_any());
        self.known.insert(
            instance.name_any(),
            Known {
                key,
                seen,
                told: Arc::clone(&told),
            },
        );
        // That there is nothing is news, too: whoever asked has kept what was written down.
        before.is_none_or(|before| before.told != told)
    }

    /// Requests were counted. Tells whether there is something else to be said.
    pub(super) fn counted(&mut self, calls: Calls) -> bool {
        // Where nothing was looked at, everything is now.
        let mut is_other = self.is_idle() && !calls.is_empty();
        self.calls = calls;
        for known in self.known.values_mut() {
            let Some(span) = known.key.span else { continue };
            let told = told(&known.seen, &self.calls, span);
            is_other |= told != known.told;
            known.told = told;
        }
        self.recount();
        is_other
    }

    fn forget(&mut self, name: &str) -> Option<Known> {
        let known = self.known.remove(name)?;
        self.count -= usize::from(!known.told.is_empty());
        Some(known)
    }

    fn recount(&mut self) {
        let told = self.known.values();
        self.count = told.filter(|known| !known.told.is_empty()).count();
    }

    /// Forgets instances that are gone.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.known.retain(|name, _| is_there(name));
        self.asked.retain(|name| is_there(name));
        self.queue.retain(|name| is_there(name));
        self.recount();
    }

    /// How many instances there is something to be said of.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

/// Nothing, if nothing is installed.
fn key(instance: &BundleInstance, span: Option<Span>) -> Option<Key> {
    let status = instance.status.as_ref()?;
    status.installed_bundle_name.as_ref()?;
    Some(Key {
        uid: instance.uid().unwrap_or_default(),
        applied: status.applied_digest.clone(),
        objects: status.inventory.as_ref().map_or(0, |it| it.count),
        span,
    })
}

/// A sentence for each use.
fn told(seen: &Seen, calls: &Calls, span: Span) -> Arc<[String]> {
    let accounts = seen.accounts.iter().map(String::as_str);
    let calls = calls.of(accounts, span.from, span.to);
    let total = seen.removals.found.len() + calls.len();
    let removals = seen.removals.found.iter().map(ToString::to_string);
    let calls = calls.iter().map(ToString::to_string);
    let mut told: Vec<String> = calls.chain(removals).take(MOST_TOLD).collect();
    if total > told.len() {
        let more = total - told.len();
        told.push(format!(
            "{more} more uses of APIs that go with Kubernetes 1.{}",
            span.to.minor
        ));
    }
    // That something could not be looked at is no use of anything.
    if seen.removals.is_incomplete && !told.is_empty() {
        told.push("it may use more: not everything of it could be looked at".to_owned());
    }
    told.into()
}
