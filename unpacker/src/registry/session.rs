//! Session with one repository. It uses one set of credentials and shares no tokens with other sessions, so that a
//! user never uses the token of another user.

mod token;

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use url::Url;

use super::{
    Error, Result,
    challenge::{self, Challenge},
    credentials::Credential,
    mirrors::RegistryEndpoint,
};
use crate::{
    Access,
    http_client::{self, Client, Request, Response},
    trust::{Secret, Verify},
};
use token::Token;

/// The purpose of a session, which determines the scope of its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Pull,
    Push,
}

/// An authenticated client of one repository. Clones share the token.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    endpoint: RegistryEndpoint,
    base: Url,
    client: Client,
    verify: Verify,
    credential: Option<Credential>,
    action: Action,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    challenge: Option<Challenge>,
    auth_header: Option<AuthHeader>,
}

/// The value of the `Authorization` header of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
enum AuthHeader {
    Basic(Secret),
    Bearer(Token),
}

impl AuthHeader {
    fn header(&self) -> Secret {
        match self {
            Self::Basic(header) => header.clone(),
            Self::Bearer(token) => token.header.clone(),
        }
    }
}

impl Session {
    /// Opens a session with one endpoint. If verification is off, this sends a request to find out whether the
    /// registry supports https.
    pub(crate) async fn open(
        endpoint: &RegistryEndpoint,
        access: &Access,
        action: Action,
    ) -> Result<Self> {
        let credential = access
            .registries
            .find(&endpoint.registry, &endpoint.repository)
            .await?;
        let access = &access_for(endpoint, access);
        let failed = |source| Error::Web {
            action: format!("reach the registry {}", endpoint.registry),
            source,
        };
        let client = Client::from_access(access).map_err(failed)?;
        let mut base = address(endpoint, "https")?;
        let verify = access.trust.verify;
        if verify == Verify::Never {
            let plain = address(endpoint, "http")?;
            if !speaks_https(&base, &plain, access).await.map_err(failed)? {
                base = plain;
            }
        }
        let shared = Shared {
            endpoint: endpoint.clone(),
            base,
            client,
            verify,
            credential,
            action,
            state: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Returns the endpoint of this session.
    pub(crate) fn endpoint(&self) -> &RegistryEndpoint {
        &self.shared.endpoint
    }

    /// Returns the URL of a path in the repository.
    pub(crate) fn url(&self, path: &str) -> Result<Url> {
        let full_path = format!("/v2/{}/{path}", self.shared.endpoint.repository);
        self.shared
            .base
            .join(&full_path)
            .map_err(|_| Error::Invalid {
                what: self.shared.endpoint.to_string(),
                problem: "cannot be written as a URL".to_owned(),
            })
    }

    /// Sends a GET request for a path in the repository.
    pub(crate) async fn get(&self, path: &str, headers: HeaderMap) -> Result<Response> {
        self.request(Method::GET, path, headers).await
    }

    /// Sends a request for a path in the repository.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
    ) -> Result<Response> {
        let request = Request {
            headers,
            ..Request::new(method, self.url(path)?)
        };
        self.send(request).await
    }

    /// Sends a request and authenticates if the registry requires it. An expired token is renewed once.
    pub(crate) async fn send(&self, mut request: Request) -> Result<Response> {
        let mut auth_header = self.auth_header().await?;
        for is_last in [false, true] {
            // The registry may redirect requests to another server, for example for uploads. That server gets no
            // credentials.
            let is_ours = same_server(&request.url, &self.shared.base);
            request.authorization = auth_header
                .as_ref()
                .filter(|_| is_ours)
                .map(AuthHeader::header);
            let response = self.shared.client.send(&request).await;
            let response = response.map_err(|source| self.failed(source))?;
            let is_challenged = response.status == StatusCode::UNAUTHORIZED
                && same_server(&response.url, &self.shared.base);
            if !is_challenged {
                return Ok(response);
            }
            if is_last {
                break;
            }
            auth_header = Some(self.answer(&response.headers, auth_header).await?);
        }
        Err(match &self.shared.credential {
            Some(Credential::Basic(_)) if matches!(auth_header, Some(AuthHeader::Bearer(_))) => {
                self.denied()
            }
            _ => self.refused(),
        })
    }

    /// Returns the response if it has one of these statuses. Otherwise returns the error that the status stands for.
    pub(crate) async fn expect(
        &self,
        response: Response,
        statuses: &[StatusCode],
        action: &str,
        subject: impl Fn() -> String,
    ) -> Result<Response> {
        if statuses.contains(&response.status) {
            return Ok(response);
        }
        let is_same_server = same_server(&response.url, &self.shared.base);
        Err(match response.status {
            StatusCode::FORBIDDEN if is_same_server => self.denied(),
            StatusCode::NOT_FOUND => Error::NotFound { what: subject() },
            _ => Error::Web {
                action: format!("{action} {}", subject()),
                source: response.into_error().await,
            },
        })
    }

    /// Returns the current header, renewed if its token has expired.
    async fn auth_header(&self) -> Result<Option<AuthHeader>> {
        let (challenge, auth_header) = {
            let state = self.shared.state.lock();
            (state.challenge.clone(), state.auth_header.clone())
        };
        match (challenge, &auth_header) {
            (Some(challenge), Some(AuthHeader::Bearer(token))) if token.is_expired() => {
                Ok(Some(self.authenticate(challenge).await?))
            }
            _ => Ok(auth_header),
        }
    }

    /// Answers the challenge of a rejected request.
    async fn answer(&self, headers: &HeaderMap, sent: Option<AuthHeader>) -> Result<AuthHeader> {
        if let Some(auth_header) = self.shared.state.lock().auth_header.clone()
            && Some(&auth_header) != sent.as_ref()
        {
            // A concurrent request has already authenticated.
            return Ok(auth_header);
        }
        let Some(challenge) = challenge::choose(headers) else {
            return Err(match self.shared.credential {
                None => self.refused(),
                Some(_) => Error::Challenge {
                    registry: self.shared.endpoint.registry.clone(),
                },
            });
        };
        if matches!(sent, Some(AuthHeader::Basic(_))) && challenge == Challenge::Basic {
            return Err(self.refused());
        }
        self.authenticate(challenge).await
    }

    async fn authenticate(&self, challenge: Challenge) -> Result<AuthHeader> {
        let shared = &self.shared;
        let auth_header = match (&challenge, &shared.credential) {
            (_, Some(Credential::Token(token))) => AuthHeader::Bearer(Token::from_static(token)),
            (Challenge::Bearer { realm, service }, _) => {
                AuthHeader::Bearer(self.token(realm, service.as_deref()).await?)
            }
            (Challenge::Basic, Some(Credential::Basic(basic))) => {
                AuthHeader::Basic(basic.authorization())
            }
            (Challenge::Basic, _) => return Err(self.refused()),
        };
        let mut state = self.shared.state.lock();
        state.challenge = Some(challenge);
        state.auth_header = Some(auth_header.clone());
        Ok(auth_header)
    }

    pub(crate) fn failed(&self, source: http_client::Error) -> Error {
        Error::Web {
            action: format!("reach the registry {}", self.shared.endpoint.registry),
            source,
        }
    }

    /// Returns the error for missing or invalid credentials.
    fn refused(&self) -> Error {
        let endpoint = &self.shared.endpoint;
        match &self.shared.credential {
            Some(credential) => Error::Refused {
                registry: endpoint.registry.clone(),
                user: credential.user(),
            },
            None => Error::NeedsCredentials {
                registry: endpoint.registry.clone(),
                repository: endpoint.repository.clone(),
            },
        }
    }

    /// Returns the error for valid credentials that do not permit the action.
    fn denied(&self) -> Error {
        let endpoint = &self.shared.endpoint;
        match &self.shared.credential {
            Some(credential) => Error::Denied {
                registry: endpoint.registry.clone(),
                user: credential.user(),
                action: match self.shared.action {
                    Action::Pull => "pull from",
                    Action::Push => "push to",
                },
                repository: endpoint.repository.clone(),
            },
            None => self.refused(),
        }
    }
}

fn address(endpoint: &RegistryEndpoint, scheme: &str) -> Result<Url> {
    // The registry of Docker Hub has another host name than its images.
    let host = match endpoint.registry.as_str() {
        "docker.io" => "registry-1.docker.io",
        host => host,
    };
    Url::parse(&format!("{scheme}://{host}/")).map_err(|_| Error::Invalid {
        what: endpoint.to_string(),
        problem: "has an invalid host".to_owned(),
    })
}

/// Derives the access settings of one endpoint: its CAs and TLS verification, with the same timeouts and proxies.
fn access_for(endpoint: &RegistryEndpoint, access: &Access) -> Access {
    let mut trust = access.trust.clone();
    if endpoint.insecure {
        trust.verify = Verify::Never;
    }
    if let Some(roots) = access.cas.get(&endpoint.registry) {
        trust.roots.push('\n');
        trust.roots.push_str(roots);
    }
    Access {
        trust,
        timeouts: access.timeouts.clone(),
        quotes: access.quotes,
        proxies: access.proxies.clone(),
        ..Access::default()
    }
}

/// Reports whether an unverified registry uses https rather than plain HTTP. If both fail, the probes are repeated,
/// because the failure may be transient.
async fn speaks_https(https: &Url, http: &Url, access: &Access) -> http_client::Result<bool> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let error = match probe(https, access).await {
            Ok(()) => return Ok(true),
            // A response that is not TLS comes from an HTTP server.
            Err(http_client::Error::NotTls { .. }) => return Ok(false),
            Err(error) => error,
        };
        if probe(http, access).await.is_ok() {
            return Ok(false);
        }
        if attempts >= access.timeouts.attempts || !http_client::is_retryable(&error) {
            return Err(error);
        }
        tokio::time::sleep(access.timeouts.delay_after(attempts)).await;
    }
}

/// Sends one request without repeating it; the session repeats its own requests.
async fn probe(base: &Url, access: &Access) -> http_client::Result<()> {
    let mut once = access.clone();
    once.timeouts.attempts = 1;
    let client = Client::from_access(&once)?;
    let mut url = base.clone();
    url.set_path("/v2/");
    client.send(&Request::get(url)).await.map(drop)
}

fn same_server(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}
