//! A catalog in an image: pulled, read and served, and looked for again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::{self, Either};
use kube::runtime::events::EventType;
use manifests::api::catalog_source::CatalogSource;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::{Following, pause};
use crate::{
    catalogs::{
        image::{self, Pulled, Unfit},
        interval::{self, Interval},
        known::Read,
        plan::Plan,
        serving::Offerer,
        status::{Problem, Seen},
        template::Unresolved,
    },
    metrics::Polled,
};

/// How long a registry may take before clients are led nowhere instead of to an address that may be nobody's any more.
const LATE: Duration = Duration::from_secs(5);

// === impl Following ===

impl Following {
    /// Waits until there is an image again. What was read stays; after a restart, that is what the template was last.
    pub(super) async fn unresolved(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        unresolved: &Unresolved,
    ) {
        let mut left = None;
        // What its own pod serves is read for those who choose from it.
        let is_wanted = self.from.is_none() && (self.counts || !self.is_in_pod);
        if let Some(last) = unresolved.last.as_ref().filter(|_| is_wanted) {
            Box::pin(self.recall(source, last)).await;
            match Box::pin(self.take(source, last)).await {
                Ok(_) => self.patience.is_read(),
                Err(error) => {
                    left = Some(self.rest(&error, None));
                    let error = unpacker::job::chain(&error);
                    warn!(catalog = %self.key, error, "the last image of a template cannot be read");
                }
            }
        }
        self.seen.problem = Some(unresolved.into());
        self.report(source, plan);
        let why = format!("{}{}", unresolved.why, self.architectures());
        self.trouble(source, why).await;
        self.has_nothing().await;
        pause(left).await;
    }

    /// Reads an image, and waits until it is to be looked for a newer one.
    pub(super) async fn image(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        reference: &str,
        poll: Option<&Interval>,
    ) {
        let problem = poll.and_then(|poll| poll.problem.as_deref());
        if let Some(problem) = problem {
            self.tell(source, EventType::Warning, "InvalidInterval", problem)
                .await;
        }
        if self.from.is_none() && self.unfit.is_none() {
            Box::pin(self.recall(source, reference)).await;
        }
        let (asked, at) = (Instant::now(), (self.shared.ctx.now)());
        let outcome = {
            let offerer = self
                .offerer
                .clone()
                .filter(|_| !plan.has_olm && !self.is_in_pod);
            // Large, and there for the time that it takes.
            let taking = Box::pin(self.take(source, reference));
            let late = Box::pin(late(offerer));
            match future::select(taking, late).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(((), taking)) => taking.await,
            }
        };
        self.shared.ctx.metrics.polled(match &outcome {
            Ok(outcome) => *outcome,
            Err(_) => Polled::Failed,
        });
        if let Err(error) = outcome {
            self.seen.problem = Some(Problem::of_server(&unpacker::job::chain(&error)));
            self.report(source, plan);
            let rest = self.rest(&error, poll);
            return self.failed(source, &error, rest).await;
        }
        self.patience.is_read();
        let kept = plan.image.as_ref().and_then(|it| it.kept.as_ref());
        self.seen = Seen {
            problem: Problem::of_read(kept, poll),
            served: None,
            may_be_served: false,
            polled: poll.map(|_| at),
            config_map: None,
            conditions: std::mem::take(&mut self.seen.conditions),
        };
        self.report(source, plan);
        let Some(poll) = poll else {
            return pause(None).await;
        };
        // Those that began together are not all asked for together again.
        let is_first = !std::mem::replace(&mut self.was_asked, true);
        let every = interval::spread(poll.every, is_first, fastrand::f64());
        loop {
            let left = interval::wait(every, asked.elapsed());
            if left.is_zero() {
                return;
            }
            pause(Some(left)).await;
        }
    }

    /// How soon an image is tried again. One that can never be a catalog is looked for as a good one is: there may be
    /// another one of its name.
    fn rest(&mut self, error: &image::Error, poll: Option<&Interval>) -> Duration {
        if self.unfit.is_none() || !error.is_for_good() {
            return self.patience.pause(Instant::now());
        }
        let every = poll.map_or(interval::USUAL, |it| it.every);
        interval::spread(every, false, fastrand::f64())
    }

    /// Pulls the catalog's image, reads it and has it served, as far as that is news. Of one that is known not to be fit for
    /// that, only the registry is asked whether it is still the same.
    async fn take(
        &mut self,
        source: &CatalogSource,
        reference: &str,
    ) -> Result<Polled, image::Error> {
        let has_olm = self.shared.around.borrow().has_olm;
        let offerer = self.offerer.as_ref();
        let offerer = offerer.filter(|_| !has_olm && !self.is_in_pod);
        let is_served = offerer.is_some();
        if let Some(offerer) = offerer {
            // What cannot be served would be pulled again and again, in place of what others need.
            offerer.has_room(source).await?;
        }
        let mut named = None;
        if self.unfit.is_some() || self.patience.has_failed() {
            let ctx = &self.shared.ctx;
            named = Box::pin(image::named(ctx, (&self.key, source), reference)).await;
            let again = self.unfit.as_ref().zip(named.as_deref());
            if let Some(error) = again.and_then(|(it, named)| it.again(named, is_served)) {
                return Err(error);
            }
        }
        let taken = self.pull(source, reference, &mut named).await;
        match &taken {
            Ok(_) => self.unfit = None,
            Err(error) => {
                let unfit = Unfit::of(error, named, is_served);
                self.unfit = unfit.or(self.unfit.take());
            }
        }
        taken
    }

    /// The same, whatever is known. `named` becomes the digest by which the registry has the image.
    async fn pull(
        &mut self,
        source: &CatalogSource,
        reference: &str,
        named: &mut Option<String>,
    ) -> Result<Polled, image::Error> {
        let ctx = &self.shared.ctx;
        let pulled = Box::pin(image::pull(ctx, (&self.key, source), reference)).await?;
        named.clone_from(&pulled.named);
        let outcome = self.read(source, reference, &pulled).await?;
        let remembered = &self.shared.remembered;
        image::remember(remembered, source, reference, Some(pulled.digest)).await;
        Ok(outcome)
    }

    /// The same with what the image had when it was pulled last, after a restart. Whether it still has that, the registry
    /// says after it.
    async fn recall(&mut self, source: &CatalogSource, reference: &str) {
        let (ctx, remembered) = (&self.shared.ctx, &self.shared.remembered);
        let Some((pulled, reference)) = image::recall(ctx, remembered, source, reference).await
        else {
            return;
        };
        match self.read(source, &reference, &pulled).await {
            Ok(_) => {
                info!(catalog = %self.key, reference, digest = %pulled.digest, "a catalog is what it was before");
            }
            Err(error) => {
                self.from = None;
                let error = unpacker::job::chain(&error);
                warn!(catalog = %self.key, error, "what a catalog was before cannot be read any more");
            }
        }
    }

    /// Reads what was pulled and has it served, as far as that is news.
    async fn read(
        &mut self,
        source: &CatalogSource,
        reference: &str,
        pulled: &Pulled,
    ) -> Result<Polled, image::Error> {
        let ctx = &self.shared.ctx;
        let place = format!("image {reference} {}", pulled.digest);
        let mut is_same = self.from.as_ref() == Some(&place);
        if self.counts {
            let read = image::read(ctx, &self.shared.loaded, &self.key, pulled).await?;
            is_same &= self.well(source);
            if !is_same {
                let (packages, broken) = (read.packages.len(), read.broken.len());
                self.has_read(source, &place, Read::All(read)).await;
                info!(catalog = %self.key, %place, packages, broken, "read a catalog");
            }
        }
        self.from = Some(place);
        let files = pulled.files(&self.shared.ctx);
        self.offer(source, pulled.digest, files).await?;
        Ok(if is_same { Polled::Same } else { Polled::New })
    }
}

/// Where a registry takes long to answer, nobody is led to where an earlier process has served the catalog.
async fn late(offerer: Option<Arc<Offerer>>) {
    sleep(LATE).await;
    if let Some(offerer) = offerer
        && let Err(error) = offerer.has_nothing().await
    {
        let why = unpacker::job::chain(&error);
        debug!(
            error = why,
            "clients may still be led to where a catalog was served before"
        );
    }
}
