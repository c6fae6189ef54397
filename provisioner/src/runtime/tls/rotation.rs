//! Certificate manager: keeps the serving certificate, the Secret of the CA and the ConfigMap of the CA bundle up to date.

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
    ca::{self, CaRotation, RENEW_BEFORE, SKEW},
    certificate::{self, ServingCertificate},
    secret,
};
use apply::{api_error, backoff::WatchBackoff, ssa::MANAGER};

/// Interval of reconciles without a watch event.
const RESYNC_INTERVAL: Duration = Duration::from_secs(3600);
/// Back-off after the first failure, and its maximum.
const RETRY_BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Timeout of one request to the API server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason why the certificate cannot be managed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("Secret {name} is not managed by the provisioner; delete it, or use it with {flag}")]
    Foreign { name: String, flag: &'static str },
    #[error("Secret {name} not found; create it, or remove {flag}")]
    Missing { name: String, flag: &'static str },
    #[error("invalid serving certificate in Secret {name}: {problem}")]
    Unusable { name: String, problem: String },
    #[error("failed to create a CA")]
    CertificateAuthority(#[from] ca::Error),
    #[error("failed to {doing}")]
    Api {
        doing: &'static str,
        source: Box<kube::Error>,
    },
    #[error("failed to {0}: the API server did not respond in time")]
    Silent(&'static str),
    #[error("another replica changed the Secret at the same time")]
    Race,
}

/// Certificate that is served.
#[derive(Clone, PartialEq, Eq)]
struct ServedCertificate {
    /// Hash of the CA certificate and key that issued it, or the resourceVersion of the Secret.
    issuer: String,
    /// Start of its validity; `None` if another tool manages it.
    starts: Option<Timestamp>,
    /// Time at which it is replaced; `None` if another tool manages it.
    renewed: Option<Timestamp>,
}

/// Configuration of the certificate of a service.
#[derive(Debug, Clone)]
pub(crate) struct CertificateConfig {
    /// Name of the service in the log: `content service`.
    pub(crate) service: &'static str,
    /// Namespace of its Secrets and ConfigMaps.
    pub(crate) namespace: String,
    /// Name of the Secret with its own CA, and of the ConfigMap with the CA bundle for clients.
    pub(crate) ca_name: &'static str,
    /// Secret with a serving certificate that another tool manages.
    pub(crate) external_secret: Option<String>,
    /// Flag that sets this Secret.
    pub(crate) flag: &'static str,
    /// Host names and addresses of the service.
    pub(crate) names: Vec<String>,
    /// Clock; tests replace it.
    pub(crate) now: fn() -> Timestamp,
}

/// Manager of the certificate of one service.
pub(crate) struct CertificateManager {
    secrets: Api<Secret>,
    config_maps: Api<ConfigMap>,
    config: CertificateConfig,
    certificate: Arc<ServingCertificate>,
    ca_bundle: watch::Sender<Option<String>>,
    served: Option<ServedCertificate>,
}

impl ServedCertificate {
    /// Returns a certificate that the CA issues now.
    fn issued(issuer: String, now: Timestamp, ends: Timestamp) -> Self {
        Self {
            issuer,
            starts: now.checked_sub(SKEW).ok(),
            renewed: ends.checked_sub(RENEW_BEFORE).ok(),
        }
    }

    /// Reports whether the certificate is of this CA and need not be replaced. If the clock is set back, a certificate may
    /// not be valid yet.
    fn is_valid(&self, issuer: &str, now: Timestamp) -> bool {
        self.issuer == issuer
            && self.starts.is_some_and(|starts| starts <= now)
            && self.renewed.is_some_and(|renewed| now < renewed)
    }
}

impl CertificateManager {
    pub(crate) fn new(client: &Client, config: CertificateConfig) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &config.namespace),
            config_maps: Api::namespaced(client.clone(), &config.namespace),
            config,
            certificate: Arc::default(),
            ca_bundle: watch::Sender::new(None),
            served: None,
        }
    }

    /// Returns the name of the service in the log.
    pub(crate) fn service(&self) -> &'static str {
        self.config.service
    }

    /// Returns the certificate that the service uses.
    pub(crate) fn certificate(&self) -> &Arc<ServingCertificate> {
        &self.certificate
    }

    /// Returns a watch of the CA bundle for clients, which is `None` until the CA exists.
    pub(crate) fn ca_bundle(&self) -> watch::Receiver<Option<String>> {
        self.ca_bundle.subscribe()
    }

    /// Returns the namespace and name of the Secret of the own CA.
    fn full(&self) -> String {
        format!("{}/{}", self.config.namespace, self.config.ca_name)
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let name = self
            .config
            .external_secret
            .as_deref()
            .unwrap_or(self.config.ca_name);
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let events = watcher(self.secrets.clone(), config).backoff(WatchBackoff::default());
        let mut events = std::pin::pin!(events);
        let mut failures = 0;
        loop {
            let delay = match self.reconcile().await {
                Ok(()) => {
                    failures = 0;
                    RESYNC_INTERVAL
                }
                Err(Error::Race) => Duration::from_millis(fastrand::u64(10..100)),
                Err(problem) => {
                    failures += 1;
                    let cause = problem.source().map(api_error::chain);
                    let service = self.config.service;
                    if self.served.is_some() {
                        warn!(
                            service,
                            error = %problem,
                            cause,
                            "failed to maintain a serving certificate; retrying"
                        );
                    } else {
                        error!(service, error = %problem, cause, "no serving certificate available; retrying");
                    }
                    backoff(failures)
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = time::sleep(delay) => {}
                () = changed(events.as_mut()) => {}
            }
        }
    }

    /// Reconciles the certificate, the Secret and the ConfigMap.
    async fn reconcile(&mut self) -> Result<(), Error> {
        let now = (self.config.now)();
        let ca_bundle = match self.config.external_secret.clone() {
            None => Some(self.serve_own(now).await?),
            Some(name) => self.serve_external(&name).await?,
        };
        match ca_bundle {
            Some(ca_bundle) => self.publish_ca_bundle(ca_bundle).await,
            None => Ok(()),
        }
    }

    /// Serves a certificate of the own CA. Returns the CA bundle for clients.
    async fn serve_own(&mut self, now: Timestamp) -> Result<String, Error> {
        let secret = self.secrets.get_opt(self.config.ca_name);
        let secret = send("read the CA Secret", secret).await?;
        let Some(secret) = secret else {
            return self.replace(None, now).await;
        };
        if !secret::is_managed(&secret) {
            return Err(Error::Foreign {
                name: self.full(),
                flag: self.config.flag,
            });
        }
        let Some(stored) = secret::read(&secret) else {
            warn!("the CA Secret is corrupt; recreating it");
            return self.replace(Some(&secret), now).await;
        };
        let cas = match stored.rotate(now)? {
            None => stored,
            Some(rotated) => {
                info!(service = self.config.service, "rotating the CA");
                self.write(Some(&secret), &rotated).await?;
                rotated
            }
        };
        match self.serve(&cas, now) {
            Ok(()) => Ok(cas.bundle()),
            Err(error @ ca::Error::Make(_)) => Err(error.into()),
            Err(ca::Error::Damaged) => {
                warn!("the CA certificate and key do not match; recreating them");
                self.replace(Some(&secret), now).await
            }
        }
    }

    async fn replace(
        &mut self,
        observed: Option<&Secret>,
        now: Timestamp,
    ) -> Result<String, Error> {
        let cas = CaRotation::new(now)?;
        self.write(observed, &cas).await?;
        info!(service = self.config.service, "created a new CA");
        self.serve(&cas, now)?;
        Ok(cas.bundle())
    }

    /// Creates the Secret, or replaces exactly the observed one, so that replicas agree.
    async fn write(&self, observed: Option<&Secret>, cas: &CaRotation) -> Result<(), Error> {
        let params = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        let version = observed.and_then(Secret::resource_version);
        let secret = secret::write(cas, self.config.ca_name, &self.config.namespace, version);
        let written = if observed.is_some() {
            let replacing = self.secrets.replace(self.config.ca_name, &params, &secret);
            send("replace the CA Secret", replacing).await
        } else {
            send(
                "create the CA Secret",
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

    /// Serves a new certificate of the current CA, unless the current certificate is valid for long enough.
    fn serve(&mut self, cas: &CaRotation, now: Timestamp) -> Result<(), ca::Error> {
        let current = &cas.current;
        let issuer =
            Digest::sha256(format!("{}{}", current.certificate, current.key).as_bytes()).hex();
        let served = self.served.as_ref();
        if served.is_some_and(|served| served.is_valid(&issuer, now)) {
            return Ok(());
        }
        let (certificate, ends) = current.issue(&self.config.names, now)?;
        self.certificate.serve(certificate);
        info!(service = self.config.service, %ends, "issued a new serving certificate");
        self.served = Some(ServedCertificate::issued(issuer, now, ends));
        Ok(())
    }

    /// Serves the certificate of a Secret that another tool manages. Returns the CA bundle for clients, if the Secret has
    /// one.
    async fn serve_external(&mut self, name: &str) -> Result<Option<String>, Error> {
        let full_name = format!("{}/{name}", self.config.namespace);
        let secret = send("read the certificate Secret", self.secrets.get_opt(name)).await?;
        let secret = secret.ok_or_else(|| Error::Missing {
            name: full_name.clone(),
            flag: self.config.flag,
        })?;
        let served = ServedCertificate {
            issuer: secret.resource_version().unwrap_or_default(),
            starts: None,
            renewed: None,
        };
        if self.served.as_ref() != Some(&served) {
            let unusable = |problem: String| Error::Unusable {
                name: full_name.clone(),
                problem,
            };
            let field = |key: &str| {
                let text = secret::text(&secret, key);
                text.ok_or_else(|| unusable(format!("key {key} is missing")))
            };
            let (chain, key) = (field("tls.crt")?, field("tls.key")?);
            let certificate =
                certificate::read(chain.as_bytes(), key.as_bytes()).map_err(unusable)?;
            self.certificate.serve(certificate);
            info!(
                service = self.config.service,
                secret = full_name,
                "loaded a new serving certificate"
            );
            self.served = Some(served);
        }
        Ok(secret::text(&secret, "ca.crt").filter(|text| !text.is_empty()))
    }

    /// Publishes the CA bundle in the ConfigMap.
    async fn publish_ca_bundle(&self, ca_bundle: String) -> Result<(), Error> {
        let current = self.config_maps.get_opt(self.config.ca_name);
        let current = send("read the CA ConfigMap", current).await?;
        self.ca_bundle.send_if_modified(|published| {
            let is_changed = published.as_ref() != Some(&ca_bundle);
            if is_changed {
                *published = Some(ca_bundle.clone());
            }
            is_changed
        });
        let data = BTreeMap::from([("ca.crt".to_owned(), ca_bundle)]);
        if current.is_some_and(|current| current.data.as_ref() == Some(&data)) {
            return Ok(());
        }
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(self.config.ca_name.to_owned()),
                namespace: Some(self.config.namespace.clone()),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..ConfigMap::default()
        };
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&map);
        let applied = self.config_maps.patch(self.config.ca_name, &params, &patch);
        send("publish the CA bundle", applied).await?;
        Ok(())
    }
}

/// Waits for the next change of the Secret. Without a working watch, the reconcile interval applies.
async fn changed(
    mut events: std::pin::Pin<&mut impl Stream<Item = Result<Event<Secret>, watcher::Error>>>,
) {
    loop {
        match events.next().await {
            // A list may show a change from before the watch: `InitApply` a new Secret, `InitDone` a deleted one.
            Some(Ok(
                Event::Apply(_) | Event::Delete(_) | Event::InitApply(_) | Event::InitDone,
            )) => return,
            Some(Ok(Event::Init)) => {}
            Some(Err(error)) => {
                let error = api_error::chain(&error);
                debug!(error, "failed to watch the certificate Secret");
            }
            None => return std::future::pending().await,
        }
    }
}

fn backoff(failures: u32) -> Duration {
    let (initial, max) = RETRY_BACKOFF;
    let doubled = initial.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1).min(16)));
    doubled.min(max).mul_f64(0.5 + fastrand::f64() / 2.0)
}

async fn send<T>(
    doing: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(Ok(response)) => Ok(response),
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
    use jiff::SignedDuration;

    use super::{ca::CERTIFICATE_LIFETIME, *};

    #[test]
    fn certificate_of_a_future_clock_is_replaced() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let served = ServedCertificate::issued("a".to_owned(), now, now + CERTIFICATE_LIFETIME);
        let is_valid =
            |issuer, minutes| served.is_valid(issuer, now + SignedDuration::from_mins(minutes));
        let renewal = 10 * 24 * 60;
        assert_rows! {
            is_valid("a", 0) => true;
            is_valid("b", 0) => false;
            is_valid("a", -10) => true, "clocks may differ";
            is_valid("a", -11) => false;
            is_valid("a", -6 * 60) => false;
            is_valid("a", renewal - 1) => true;
            is_valid("a", renewal) => false;
        }
    }

    #[test]
    fn retry_delay_grows_up_to_a_maximum() {
        for (failures, most) in [(1, 500), (2, 1000), (5, 8000), (40, 60_000)] {
            let wait = backoff(failures).as_millis();
            assert!((most / 2..=most).contains(&wait), "{failures}: {wait}");
        }
    }

    #[tokio::test]
    async fn list_without_the_secret_is_a_change() {
        // Deleted between the read and the start of the watch, so no event reports it.
        let begun = stream::iter([Ok(Event::Init)]).chain(stream::pending());
        assert_rows!(time::timeout(Duration::from_millis(50), changed(std::pin::pin!(begun))).await.is_err() => true);
        let ended = stream::iter([Ok(Event::Init), Ok(Event::InitDone)]).chain(stream::pending());
        assert_rows!(time::timeout(Duration::from_secs(5), changed(std::pin::pin!(ended))).await.is_ok() => true);
    }
}
