//! One watch, of all objects of a kind or of one, whenever the kind is served.
//!
//! What was listed is believed until the watch has not worked for a while, for an API server that restarts is back by then.
//! The clock runs whenever nothing is listed and followed: from the beginning, from a failure, from a listing anew, whether
//! the API server refuses, has no time or says nothing at all. After a failure everything is listed again, because a quiet
//! watch that works again says nothing, and a listing does.

use std::{collections::BTreeMap, fmt::Debug, pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    core::GroupVersionKind,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, warn};

use super::{
    Shared,
    known::{Facts, Known},
    read,
};
use apply::{
    api_error::{self as answer, code, is_refusal},
    backoff::Pauses,
};

/// How long a watch may not work before that counts.
const PATIENCE: Duration = Duration::from_secs(30);

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
        let watched = shared.ctx.kinds.while_served(&wanted, |served| {
            let follow = &self;
            async move {
                match served {
                    Some(_) => follow.watch(shared).await,
                    None => shared.change(|facts| (follow.place)(facts).is_not_served()),
                }
            }
        });
        // Where discovery does not answer there is no watch that could tell.
        let unheard = async {
            sleep(PATIENCE).await;
            let why = trouble(&K::plural(&()), &silence());
            shared.change(|facts| {
                let place = (self.place)(facts);
                !place.is_heard() && place.fails(&why)
            });
        };
        tokio::join!(watched, unheard);
    }

    async fn watch(&self, shared: &Shared) {
        let mut pauses = Pauses::default();
        let mut outage = Some(Outage::begins());
        loop {
            if let Err(error) = self.once(shared, &mut outage).await {
                if answer::is_outage(code(&error)) {
                    // The API server may come back as another version.
                    shared.ctx.versions.doubt();
                }
                let outage = outage.get_or_insert_with(Outage::begins);
                outage.why = match code(&error) {
                    Some(401 | 403) => REFUSED.to_owned(),
                    _ => unpacker::job::chain(&error),
                };
                let is_refusal = code(&error).is_some_and(is_refusal);
                self.tell(shared, outage, is_refusal);
                let kind = K::kind(&());
                if outage.is_told {
                    warn!(%kind, %error, "a watch does not work; everything is listed again");
                } else {
                    debug!(%kind, %error, "a watch failed; everything is listed again");
                }
                // Not before the API server wants it, unless that is for ever.
                let asked = answer::wait(&error).unwrap_or_default().min(PATIENCE);
                sleep(pauses.after(is_refusal).max(asked)).await;
            }
        }
    }

    /// Lists and watches until that fails, or has to begin anew.
    async fn once(
        &self,
        shared: &Shared,
        outage: &mut Option<Outage>,
    ) -> Result<(), watcher::Error> {
        let api = Api::<K>::all(shared.ctx.accounts.hasty().clone());
        let mut events = pin!(watcher(api, self.config.clone()));
        let mut listing = BTreeMap::new();
        loop {
            let untold = outage.as_mut().filter(|outage| !outage.is_told);
            let next = if let Some(outage) = untold {
                let Ok(next) = timeout_at(outage.end(), events.next()).await else {
                    self.tell(shared, outage, false);
                    continue;
                };
                next
            } else {
                events.next().await
            };
            let Some(event) = next else {
                return Ok(());
            };
            match event {
                Ok(Event::Init) => {
                    outage.get_or_insert_with(Outage::begins);
                    listing.clear();
                }
                Ok(Event::InitApply(object)) => {
                    let name = read::name(&object);
                    if let Some(read) = (self.read)(object) {
                        listing.insert(name, read);
                    }
                }
                Ok(Event::InitDone) => {
                    *outage = None;
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
                Err(error) => return Err(error),
            }
        }
    }

    /// Tells of an outage that counts: one that lasts. Where nothing is known so far, a refusal is an answer.
    fn tell(&self, shared: &Shared, outage: &mut Outage, is_refusal: bool) {
        let lasts = outage.end() <= Instant::now();
        let why = trouble(&K::plural(&()), &outage.why);
        shared.change(|facts| {
            let place = (self.place)(facts);
            outage.is_told |= lasts || (is_refusal && !place.is_listed());
            outage.is_told && place.fails(&why)
        });
    }
}

/// A watch does not work.
struct Outage {
    since: Instant,
    why: String,
    /// Whether it counts.
    is_told: bool,
}

impl Outage {
    fn begins() -> Self {
        Self {
            since: Instant::now(),
            why: silence(),
            is_told: false,
        }
    }

    /// From when on it counts.
    fn end(&self) -> Instant {
        self.since + PATIENCE
    }
}

/// Why, as long as nothing has been said.
fn silence() -> String {
    format!(
        "the apiserver has not answered for {} s",
        PATIENCE.as_secs()
    )
}

const REFUSED: &str = "the provisioner may not; apply the install files of this version again, which give it that right";

fn trouble(plural: &str, why: &str) -> String {
    format!("{plural} cannot be listed: {why}")
}
