//! Keeps the certificate, the Secret and the ConfigMap what they have to be.

use std::{collections::BTreeMap, error::Error as _, sync::Arc, time::Duration};

use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use tokio::{sync::watch, time};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};
use unpacker::Digest;

use super::{
    authority::{self, Authorities, RENEWED},
    certificate::{self, Certificate},
    secret,
};
use apply::{backoff::Pauses, ssa::MANAGER};

/// How often all is looked at, whatever happens.
const PAUSE: Duration = Duration::from_secs(3600);
/// The pause after a first failure, and the longest one.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why the certificate cannot be kept.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(
        "Secret {name} is not the provisioner's; delete it, or name it with {flag} to serve with it"
    )]
    Foreign { name: String, flag: &'static str },
    #[error("there is no Secret {name}; make it, or leave {flag} out")]
    Missing { name: String, flag: &'static str },
    #[error("Secret {name} cannot be served with: {problem}")]
    Unusable { name: String, problem: String },
    #[error("failed to make an authority")]
    Authority(#[from] authority::Error),
    #[error("failed to {doing}")]
    Api {
        doing: &'static str,
        source: Box<kube::Error>,
    },
    #[error("the apiserver did not answer in time, asked to {0}")]
    Silent(&'static str),
    #[error("another replica was faster")]
    Race,
}

/// What is shown at the moment.
#[derive(Clone, PartialEq, Eq)]
struct Shown {
    /// Who signed it: certificate and key. Or the Secret's version.
    by: String,
    renewed: Option<Timestamp>,
}

/// What is kept for a service.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    /// The service, for the log: `content service`.
    pub(crate) service: &'static str,
    /// Where its Secrets and ConfigMaps are.
    pub(crate) namespace: String,
    /// The Secret with its own authority, and the ConfigMap with what clients have to believe.
    pub(crate) authority: &'static str,
    /// Somebody else's Secret, that it is to be served with.
    pub(crate) given: Option<String>,
    /// The flag that names it.
    pub(crate) flag: &'static str,
    /// All names that the service is asked by.
    pub(crate) names: Vec<String>,
    /// The clock.
    pub(crate) now: fn() -> Timestamp,
}

/// Looks after the certificate of one service.
pub(crate) struct Keeper {
    secrets: Api<Secret>,
    config_maps: Api<ConfigMap>,
    kept: Kept,
    certificate: Arc<Certificate>,
    believed: watch::Sender<Option<String>>,
    shown: Option<Shown>,
}

impl Keeper {
    pub(crate) fn new(client: &Client, kept: Kept) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &kept.namespace),
            config_maps: Api::namespaced(client.clone(), &kept.namespace),
            kept,
            certificate: Arc::default(),
            believed: watch::Sender::new(None),
            shown: None,
        }
    }

    /// What it is called in the log.
    pub(crate) fn service(&self) -> &'static str {
        self.kept.service
    }

    /// What is served with.
    pub(crate) fn certificate(&self) -> &Arc<Certificate> {
        &self.certificate
    }

    /// What clients have to believe, as soon as that is known.
    pub(crate) fn believed(&self) -> watch::Receiver<Option<String>> {
        self.believed.subscribe()
    }

    /// The own authority's Secret, in full.
    fn full(&self) -> String {
        format!("{}/{}", self.kept.namespace, self.kept.authority)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let name = self.kept.given.as_deref().unwrap_or(self.kept.authority);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = watcher(self.secrets.clone(), config).backoff(Pauses::default());
        let mut events = std::pin::pin!(events);
        let mut failures = 0;
        loop {
            let pause = match self.look().await {
                Ok(()) => {
                    failures = 0;
                    PAUSE
                }
                Err(Error::Race) => Duration::from_millis(fastrand::u64(10..100)),
                Err(problem) => {
                    failures += 1;
                    let cause = problem.source().map(ToString::to_string);
                    let service = self.kept.service;
                    if self.shown.is_some() {
                        warn!(service, error = %problem, cause, "a certificate cannot be looked after");
                    } else {
                        error!(service, error = %problem, cause, "there is no certificate");
                    }
                    backoff(failures)
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = time::sleep(pause) => {}
                () = changed(events.as_mut()) => {}
            }
        }
    }

    /// Looks at all of it, and does what is to be done.
    async fn look(&mut self) -> Result<(), Error> {
        let now = (self.kept.now)();
        let believed = match self.kept.given.clone() {
            None => Some(self.own(now).await?),
            Some(name) => self.given(&name).await?,
        };
        match believed {
            Some(believed) => self.publish(believed).await,
            None => Ok(()),
        }
    }

    /// Serves in the name of the own authority. Gives back what clients have to believe.
    async fn own(&mut self, now: Timestamp) -> Result<String, Error> {
        let found = self.secrets.get_opt(self.kept.authority);
        let found = ask("read the authority", found).await?;
        let Some(found) = found else {
            return self.replace(None, now).await;
        };
        if !secret::is_ours(&found) {
            return Err(Error::Foreign {
                name: self.full(),
                flag: self.kept.flag,
            });
        }
        let Some(before) = secret::read(&found) else {
            warn!("the authority's Secret is damaged, and made anew");
            return self.replace(Some(&found), now).await;
        };
        let authorities = match before.turn(now)? {
            None => before,
            Some(turned) => {
                info!(service = self.kept.service, "the authority turns");
                self.write(Some(&found), &turned).await?;
                turned
            }
        };
        match self.show(&authorities, now) {
            Ok(()) => Ok(authorities.bundle()),
            Err(error @ authority::Error::Make(_)) => Err(error.into()),
            Err(authority::Error::Damaged) => {
                warn!("the authority's certificate and key do not fit, and are made anew");
                self.replace(Some(&found), now).await
            }
        }
    }

    async fn replace(&mut self, found: Option<&Secret>, now: Timestamp) -> Result<String, Error> {
        let authorities = Authorities::new(now)?;
        self.write(found, &authorities).await?;
        info!(service = self.kept.service, "there is a new authority");
        self.show(&authorities, now)?;
        Ok(authorities.bundle())
    }

    /// Creates the Secret, or replaces just the one that was found, so that replicas agree.
    async fn write(&self, found: Option<&Secret>, authorities: &Authorities) -> Result<(), Error> {
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let version = found.and_then(Secret::resource_version);
        let secret = secret::write(
            authorities,
            self.kept.authority,
            &self.kept.namespace,
            version,
        );
        let written = if found.is_some() {
            let replacing = self.secrets.replace(self.kept.authority, &params, &secret);
            ask("replace the authority", replacing).await
        } else {
            ask(
                "create the authority",
                self.secrets.create(&params, &secret),
            )
            .await
        };
        match written {
            Ok(_) => Ok(()),
            Err(Error::Api { source, .. }) if matches!(&*source, kube::Error::Api(status) if matches!(status.code, 404 | 409)) => {
                Err(Error::Race)
            }
            Err(error) => Err(error),
        }
    }

    /// Shows a certificate of the current authority, if the one that is shown is not good enough.
    fn show(&mut self, authorities: &Authorities, now: Timestamp) -> Result<(), authority::Error> {
        let current = &authorities.current;
        let by = Digest::of(format!("{}{}", current.certificate, current.key).as_bytes()).hex();
        let fine = self.shown.as_ref().is_some_and(|shown| {
            shown.by == by && shown.renewed.is_some_and(|renewed| now < renewed)
        });
        if fine {
            return Ok(());
        }
        let (certificate, ends) = current.issue(&self.kept.names, now)?;
        self.certificate.show(certificate);
        info!(service = self.kept.service, %ends, "there is a new certificate");
        self.shown = Some(Shown {
            by,
            renewed: ends.checked_sub(RENEWED).ok(),
        });
        Ok(())
    }

    /// Serves with a Secret that somebody else keeps. Gives back what clients have to believe, if it says so.
    async fn given(&mut self, name: &str) -> Result<Option<String>, Error> {
        let full = format!("{}/{name}", self.kept.namespace);
        let found = ask("read the certificate's Secret", self.secrets.get_opt(name)).await?;
        let found = found.ok_or_else(|| Error::Missing {
            name: full.clone(),
            flag: self.kept.flag,
        })?;
        let shown = Shown {
            by: found.resource_version().unwrap_or_default(),
            renewed: None,
        };
        if self.shown.as_ref() != Some(&shown) {
            let unusable = |problem: String| Error::Unusable {
                name: full.clone(),
                problem,
            };
            let field = |key: &str| {
                let text = secret::text(&found, key);
                text.ok_or_else(|| unusable(format!("it has no {key}")))
            };
            let (chain, key) = (field("tls.crt")?, field("tls.key")?);
            let certificate =
                certificate::read(chain.as_bytes(), key.as_bytes()).map_err(unusable)?;
            self.certificate.show(certificate);
            info!(
                service = self.kept.service,
                secret = full,
                "there is a new certificate"
            );
            self.shown = Some(shown);
        }
        Ok(secret::text(&found, "ca.crt").filter(|text| !text.is_empty()))
    }

    /// Tells clients what to believe.
    async fn publish(&self, believed: String) -> Result<(), Error> {
        let found = self.config_maps.get_opt(self.kept.authority);
        let found = ask("read the ConfigMap of the authority", found).await?;
        self.believed.send_if_modified(|known| {
            let is_news = known.as_ref() != Some(&believed);
            if is_news {
                *known = Some(believed.clone());
            }
            is_news
        });
        let data = BTreeMap::from([("ca.crt".to_owned(), believed)]);
        if found.is_some_and(|found| found.data.as_ref() == Some(&data)) {
            return Ok(());
        }
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.kept.authority.to_owned()),
                namespace: Some(self.kept.namespace.clone()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        };
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&map);
        let applied = self.config_maps.patch(self.kept.authority, &params, &patch);
        ask("publish the authority", applied).await?;
        Ok(())
    }
}

/// Ends with the next change; what cannot be watched is looked at now and then.
async fn changed(
    mut events: std::pin::Pin<&mut impl Stream<Item = Result<Event<Secret>, watcher::Error>>>,
) {
    loop {
        match events.next().await {
            // A list that has begun may show it anew, one that has ended that it is gone: nobody tells of what went before.
            Some(Ok(
                Event::Apply(_) | Event::Delete(_) | Event::InitApply(_) | Event::InitDone,
            )) => return,
            Some(Ok(Event::Init)) => {}
            Some(Err(error)) => debug!(%error, "watching the certificate's Secret failed"),
            None => return std::future::pending().await,
        }
    }
}

fn backoff(failures: u32) -> Duration {
    let (first, longest) = RETRY;
    let doubled = first.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(16)));
    doubled.min(longest).mul_f64(0.5 + fastrand::f64() / 2.0)
}

async fn ask<T>(
    doing: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match time::timeout(PATIENCE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(source)) => Err(Error::Api {
            doing,
            source: Box::new(source),
        }),
        Err(_) => Err(Error::Silent(doing)),
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    #[test]
    fn failures_are_waited_for_longer_and_longer_within_a_bound() {
        for (failures, most) in [(1, 500), (2, 1000), (5, 8000), (40, 60_000)] {
            let wait = backoff(failures).as_millis();
            assert!((most / 2..=most).contains(&wait), "{failures}: {wait}");
        }
    }

    #[tokio::test]
    async fn a_list_without_the_secret_is_a_change() {
        // It went after it was looked at and before it was watched: there is no event of that.
        let begun = stream::iter([Ok(Event::Init)]).chain(stream::pending());
        let begun = std::pin::pin!(begun);
        let patience = Duration::from_millis(50);
        assert!(time::timeout(patience, changed(begun)).await.is_err());
        let ended = stream::iter([Ok(Event::Init), Ok(Event::InitDone)]).chain(stream::pending());
        let ended = std::pin::pin!(ended);
        let over = time::timeout(Duration::from_secs(5), changed(ended)).await;
        assert!(over.is_ok());
    }
}
