//! One watch, of all objects of a kind or of one, whenever the kind is served.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    pin::pin,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    core::GroupVersionKind,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tracing::warn;

use super::{
    Shared,
    known::{Facts, Known},
    read,
};
use crate::watches::{
    Pauses,
    answer::{code, is_refusal},
};

/// So many failures in a row count: then what was listed may be outdated.
const TROUBLE: u32 = 3;
/// Failures further apart than this are not in a row.
const ROW: Duration = Duration::from_secs(60);

/// What is watched, and where what is kept of it stands.
pub(super) struct Follow<K, T> {
    pub(super) config: watcher::Config,
    /// What is kept; nothing of what does not count.
    pub(super) read: fn(K) -> Option<T>,
    pub(super) place: fn(&mut Facts) -> &mut Known<T>,
}

impl<K, T> Follow<K, T>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    T: PartialEq + Send + 'static,
{
    /// Follows until it is dropped.
    pub(super) async fn run(self, shared: &Shared) {
        let wanted = GroupVersionKind::gvk(&K::group(&()), &K::version(&()), &K::kind(&()));
        shared
            .ctx
            .kinds
            .while_served(&wanted, |served| {
                let follow = &self;
                async move {
                    match served {
                        Some(_) => follow.watch(shared).await,
                        None => shared.change(|facts| (follow.place)(facts).is_not_served()),
                    }
                }
            })
            .await;
    }

    async fn watch(&self, shared: &Shared) {
        let mut pauses = Pauses::default();
        loop {
            self.once(shared, &mut pauses).await;
        }
    }

    /// Lists and watches until that has to begin anew.
    async fn once(&self, shared: &Shared, pauses: &mut Pauses) {
        let api = Api::<K>::all(shared.ctx.client.clone());
        let mut events = pin!(watcher(api, self.config.clone()));
        let mut listing = BTreeMap::new();
        let mut failures = 0;
        let mut last = Instant::now();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listing.clear(),
                Ok(Event::InitApply(object)) => {
                    let name = read::name(&object);
                    if let Some(read) = (self.read)(object) {
                        listing.insert(name, read);
                    }
                }
                Ok(Event::InitDone) => {
                    let listed = std::mem::take(&mut listing);
                    shared.change(|facts| (self.place)(facts).list(listed));
                }
                Ok(Event::Apply(object)) => {
                    let name = read::name(&object);
                    let read = (self.read)(object);
                    shared.change(|facts| match read {
                        Some(read) => (self.place)(facts).put(name, read),
                        None => (self.place)(facts).remove(&name),
                    });
                }
                Ok(Event::Delete(object)) => {
                    let name = read::name(&object);
                    shared.change(|facts| (self.place)(facts).remove(&name));
                }
                // It is listed anew by itself.
                Err(error) if code(&error) == Some(410) => {}
                Err(error) => {
                    // The apiserver may come back as another version.
                    shared.ctx.versions.doubt();
                    failures = if last.elapsed() > ROW {
                        1
                    } else {
                        failures + 1
                    };
                    last = Instant::now();
                    let kind = K::kind(&());
                    warn!(%kind, %error, "a watch failed; it is taken up again");
                    let is_refusal = code(&error).is_some_and(is_refusal);
                    let counts = is_refusal || failures >= TROUBLE;
                    if counts {
                        let why = trouble(&K::plural(&()), &error);
                        shared.change(|facts| (self.place)(facts).fails(&why));
                    }
                    sleep(pauses.next().unwrap_or_default()).await;
                    if counts {
                        // A quiet watch that works again says nothing, a listing does.
                        return;
                    }
                }
            }
        }
    }
}

fn trouble(plural: &str, error: &watcher::Error) -> String {
    match code(error) {
        Some(401 | 403) => format!(
            "{plural} cannot be listed: the provisioner may not; apply the install files of this version again, which give it \
             that right"
        ),
        _ => format!("{plural} cannot be listed: {}", unpacker::job::chain(error)),
    }
}
