//! A catalog that is served by a pod of its own.

use std::{convert::Infallible, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::runtime::events::EventType;
use manifests::api::catalog_source::{CatalogSource, Origin, RegistryService};
use tokio::{sync::watch, time::sleep};
use tracing::warn;

use super::Following;
use crate::{
    catalogs::{
        Key, image,
        interval::Interval,
        plan::Plan,
        pods::{self, Kept, Of, decide::State},
        serving::Offerer,
        status::{Connection, Problem, Seen, Served},
        template::Unresolved,
    },
    metrics::Metrics,
};

/// How soon what cannot be removed is tried again at the latest.
const LONGEST: Duration = Duration::from_secs(60);

/// What is told of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::catalogs) struct Told {
    pub(in crate::catalogs) kept: Result<Kept, String>,
    /// Whether it stays like that until somebody does something about it.
    pub(in crate::catalogs) is_for_good: bool,
    /// When the registry was last asked whether there is a new image; nothing if nobody has asked since we run.
    pub(in crate::catalogs) asked: Option<Timestamp>,
}

/// What is read of a catalog that has a pod, for those who choose from it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading<'a> {
    /// The image, as often as this.
    Tag(Option<&'a Interval>),
    /// The last one, for there is none at the moment.
    Last(&'a Unresolved),
}

// === impl Following ===

impl Following {
    /// Reports whether the catalog gets a pod of its own: it says how that has to be, or all of them do.
    pub(super) fn wants_pod(&self, source: &CatalogSource) -> bool {
        let serving = self.shared.ctx.settings.serving.as_ref();
        let Some(serving) = serving.filter(|_| self.offerer.is_some()) else {
            return false;
        };
        match source.origin() {
            Ok(Origin::Image { pod, .. }) => pods::has_own(pod, serving.pods),
            _ => false,
        }
    }

    /// Keeps the pod, and reads the image for those who choose from it.
    pub(super) async fn in_pod(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        reference: &str,
        reading: Reading<'_>,
    ) {
        let poll = match reading {
            Reading::Tag(poll) => poll,
            Reading::Last(_) => None,
        };
        // What is served here goes on to be until the pod is ready; what an earlier process has left leads nowhere.
        let takes_over = self.offerer.as_ref().is_some_and(|it| it.serves());
        if !takes_over {
            self.withdraw().await;
        }
        self.has_pod = Some(true);
        let shared = Arc::clone(&self.shared);
        let told = self.pod.clone();
        let of = Of {
            source: self.source.clone(),
            image: reference,
            poll: poll.map(|it| it.every),
        };
        let mut asked = None;
        let (key, counted) = (self.key.clone(), self.offerer.clone());
        let keeping = pods::follow(&shared.ctx, &shared.pods, of, |kept| {
            if kept.as_ref().is_ok_and(|kept| kept.asked) {
                asked = Some((shared.ctx.now)());
            }
            let news = Told {
                is_for_good: kept.as_ref().is_err_and(pods::Error::is_for_good),
                kept: match kept {
                    Ok(kept) => Ok(kept.clone()),
                    Err(error) => Err(unpacker::job::chain(error)),
                },
                asked,
            };
            count(&shared.ctx.metrics, &key, counted.as_deref(), Some(&news));
            told.send_if_modified(|known| {
                let is_news = known.as_ref() != Some(&news);
                *known = Some(news);
                is_news
            });
        });
        let (offerer, is_ready) = (self.offerer.clone(), self.pod.subscribe());
        let taking_over = async {
            if let Some(offerer) = offerer {
                if takes_over {
                    Box::pin(is_found(&offerer, is_ready.clone())).await;
                }
                Box::pin(withdraw(&offerer)).await;
                // What was told of the one server goes with it.
                let told = is_ready.borrow().clone();
                count(&shared.ctx.metrics, &key, Some(&offerer), told.as_ref());
            }
            std::future::pending().await
        };
        let reading = async {
            if let Reading::Last(unresolved) = reading {
                loop {
                    self.unresolved(source, plan, unresolved).await;
                }
            }
            // Nobody else wants to know what is in it.
            while self.counts {
                self.image(source, plan, reference, poll).await;
            }
            image::remember(&shared.remembered, source, reference, None).await;
            let kept = plan.image.as_ref().and_then(|it| it.kept.as_ref());
            self.seen.problem = Problem::of_read(kept, poll);
            if let Some(problem) = poll.and_then(|poll| poll.problem.as_deref()) {
                self.tell(source, EventType::Warning, "InvalidInterval", problem)
                    .await;
            }
            self.report(source, plan);
            std::future::pending().await
        };
        let never: Infallible = tokio::select! {
            never = Box::pin(keeping) => never,
            never = taking_over => never,
            never = reading => never,
        };
        match never {}
    }

    /// Reports whether there is a pod that the catalog is not to have.
    pub(super) async fn may_have_pod(&mut self, source: &CatalogSource) -> bool {
        if self.has_pod.is_none() {
            match Box::pin(pods::are_there(&self.shared.ctx.client, source)).await {
                Ok(are_there) => self.has_pod = Some(are_there),
                Err(error) if error.is_forbidden() => self.has_pod = Some(false),
                Err(_) => {} // nobody knows
            }
        }
        self.has_pod != Some(false)
    }

    /// Removes the pod of a catalog that has none any more, however often that takes. After a start nobody knows whether
    /// there was one.
    pub(super) async fn leave_pod(&mut self, source: &CatalogSource) {
        // It is said each time.
        drop(self.try_to_leave_pod(source, None).await);
    }

    /// The same, with no more attempts than that.
    ///
    /// # Errors
    /// When the pod stays.
    pub(super) async fn try_to_leave_pod(
        &mut self,
        source: &CatalogSource,
        most: Option<u32>,
    ) -> Result<(), pods::Error> {
        if self.has_pod == Some(false) || self.offerer.is_none() {
            return Ok(());
        }
        self.pod.send_replace(None);
        let mut left = most;
        let mut rest = Duration::from_secs(1);
        let client = &self.shared.ctx.client;
        let offerer = self.offerer.as_ref().filter(|it| it.serves());
        while let Err(error) = match offerer {
            Some(offerer) => {
                let is_left = offerer.until_others_lead(false);
                Box::pin(pods::hand_back(client, source, is_left)).await
            }
            None => Box::pin(pods::leave(client, source)).await,
        } {
            if error.is_forbidden() {
                break; // nor was one made
            }
            let why = unpacker::job::chain(&error);
            warn!(catalog = %self.key, error = why, "the pod of a catalog stays, which is to be served in another way");
            left = left.map(|it| it.saturating_sub(1));
            if left == Some(0) {
                return Err(error);
            }
            sleep(rest).await;
            rest = (rest * 2).min(LONGEST);
        }
        if offerer.is_none() {
            self.shared.ctx.metrics.served_gone(&self.key);
        }
        self.has_pod = Some(false);
        Ok(())
    }
}

/// Waits until the pod of a catalog is ready, and is found.
async fn is_found(offerer: &Offerer, mut is_ready: watch::Receiver<Option<Told>>) {
    let serves = |told: &Option<Told>| {
        let kept = told.as_ref().and_then(|it| it.kept.as_ref().ok());
        kept.is_some_and(|it| matches!(it.state, State::Serving(_)))
    };
    if is_ready.wait_for(serves).await.is_err() {
        return;
    }
    offerer.until_others_lead(true).await;
}

/// Serves the catalog no more, however often that takes: its own pod does.
async fn withdraw(offerer: &Offerer) {
    let mut rest = Duration::from_secs(1);
    while let Err(error) = offerer.withdraw().await {
        let why = unpacker::job::chain(&error);
        warn!(
            error = why,
            "what led to a catalog stays, which its own pod serves"
        );
        sleep(rest).await;
        rest = (rest * 2).min(LONGEST);
    }
}

/// Counts a catalog as served or not, where the one server does not. Of what is not known for now, what was told last stays.
fn count(metrics: &Metrics, key: &Key, offerer: Option<&Offerer>, told: Option<&Told>) {
    if let Some(is_served) = told.and_then(Told::is_served)
        && !offerer.is_some_and(Offerer::serves)
    {
        metrics.served(key, is_served);
    }
}

// === impl Told ===

impl Told {
    /// Reports whether the pod serves the catalog, and nothing is wrong with it.
    fn is_served(&self) -> Option<bool> {
        match &self.kept {
            Ok(kept) => Some(matches!(kept.state, State::Serving(_)) && kept.trouble.is_none()),
            Err(_) => self.is_for_good.then_some(false),
        }
    }
}

// === impl Seen ===

impl Seen {
    fn is_ready(&self) -> bool {
        let served = self.served.as_ref();
        served.is_some_and(|it| it.connection == Connection::Ready)
    }

    /// Adds how a pod serves the catalog.
    pub(in crate::catalogs) fn is_in_pod(&mut self, told: &Told, namespace: &str) {
        self.polled = self.polled.max(told.asked);
        let trouble = match &told.kept {
            // Served here until the pod is ready.
            Ok(Kept {
                state: State::Starting(_),
                trouble,
                ..
            }) if self.is_ready() => trouble.clone(),
            Ok(kept) => {
                let service = RegistryService {
                    protocol: Some("grpc".to_owned()),
                    service_name: Some(kept.service.clone()),
                    service_namespace: Some(namespace.to_owned()),
                    port: Some("50051".to_owned()),
                    created_at: None,
                };
                self.served = Some(Served {
                    address: format!("{}.{namespace}.svc:50051", kept.service),
                    service: Some(service),
                    connection: match kept.state {
                        State::Serving(_) => Connection::Ready,
                        State::Starting(_) => Connection::Connecting,
                    },
                });
                kept.trouble.clone()
            }
            Err(why) => {
                self.may_be_served &= !told.is_for_good;
                Some(why.clone())
            }
        };
        if let Some(why) = trouble {
            self.has_trouble(&why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogs::status::tests::{kept, told};

    #[test]
    fn a_catalog_is_ready_while_anybody_serves_it() {
        let trouble = "pod mine-1 is not ready: ImagePullBackOff";
        let kept = |state: State| told(Ok(kept(state, Some(trouble))));
        let by_us = || {
            let served = Served {
                address: "mine.a.svc:50051".to_owned(),
                service: None,
                connection: Connection::Ready,
            };
            with!(Seen, served: Some(served))
        };
        let starting = || State::Starting("its pod is being made".to_owned());
        let serving = || State::Serving(None);
        for (mut seen, state, expected) in [
            (Seen::default(), starting(), Connection::Connecting),
            (Seen::default(), serving(), Connection::Ready),
            (by_us(), starting(), Connection::Ready),
            (by_us(), serving(), Connection::Ready),
        ] {
            seen.is_in_pod(&kept(state), "a");
            let served = seen.served.unwrap();
            assert_eq!(served.connection, expected);
            assert_eq!(served.address, "mine.a.svc:50051");
            let problem = seen.problem.unwrap();
            assert!(problem.message.contains("ImagePullBackOff"), "{problem:?}");
        }
        // One of whose pod nothing is known, for it cannot be made.
        let seen = with!(by_us() => |seen| seen.is_in_pod(&told(Err("no".to_owned())), "a"));
        assert_eq!(seen.served.unwrap().connection, Connection::Ready);
    }

    #[test]
    fn a_pod_counts_as_served_while_nothing_is_wrong_with_it() {
        let ok = |state, trouble| Ok(kept(state, trouble));
        let starting = State::Starting("its pod is being made".to_owned());
        for (kept, is_for_good, expected) in [
            (ok(State::Serving(None), None), false, Some(true)),
            (ok(State::Serving(None), Some("bad")), false, Some(false)),
            (ok(starting, None), false, Some(false)),
            (Err("the apiserver is away".to_owned()), false, None),
            (Err("it can have none".to_owned()), true, Some(false)),
        ] {
            let told = with!(told(kept) => is_for_good: is_for_good);
            assert_eq!(told.is_served(), expected, "{told:?}");
        }
    }
}
