//! One repository, asked with one set of credentials. Nothing is shared with other sessions: no token that one user
//! was given serves another.

mod token;

use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::{
    Error, Result,
    challenge::{self, Challenge},
    credentials::Credential,
    mirrors::Place,
};
use crate::{
    Access,
    access::{Secret, Verify},
    web::{self, Client, Request, Response},
};
use token::Token;

/// The purpose of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Pull,
    Push,
}

/// A repository and who asks for it. Clones share the token.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    place: Place,
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
    proof: Option<Proof>,
}

/// Credentials in the form that requests carry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Proof {
    Basic(Secret),
    Bearer(Token),
}

impl Proof {
    fn header(&self) -> Secret {
        match self {
            Self::Basic(header) => header.clone(),
            Self::Bearer(token) => token.header.clone(),
        }
    }
}

impl Session {
    /// Prepares to ask one place. Only where verification is off, this already reaches out, to learn whether https is
    /// spoken.
    pub(crate) async fn open(place: &Place, access: &Access, action: Action) -> Result<Self> {
        let credential = access
            .registries
            .find(&place.registry, &place.repository)
            .await?;
        let access = &terms(place, access);
        let failed = |source| Error::Web {
            action: format!("reach the registry {}", place.registry),
            source,
        };
        let client = Client::of(access).map_err(failed)?;
        let mut base = address(place, "https")?;
        let verify = access.trust.verify;
        if verify == Verify::Never {
            let plain = address(place, "http")?;
            if !speaks_https(&base, &plain, access).await.map_err(failed)? {
                base = plain;
            }
        }
        let shared = Shared {
            place: place.clone(),
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

    /// The place, as messages name it.
    pub(crate) fn place(&self) -> &Place {
        &self.shared.place
    }

    /// The URL of something in the repository.
    pub(crate) fn url(&self, rest: &str) -> Result<Url> {
        let path = format!("/v2/{}/{rest}", self.shared.place.repository);
        self.shared.base.join(&path).map_err(|_| Error::Invalid {
            what: self.shared.place.to_string(),
            problem: "cannot be written as a URL".to_owned(),
        })
    }

    /// Asks for something in the repository.
    pub(crate) async fn get(&self, rest: &str, headers: HeaderMap) -> Result<Response> {
        self.ask(Method::GET, rest, headers).await
    }

    /// The same with another method.
    pub(crate) async fn ask(
        &self,
        method: Method,
        rest: &str,
        headers: HeaderMap,
    ) -> Result<Response> {
        let request = Request {
            headers,
            ..Request::new(method, self.url(rest)?)
        };
        self.send(request).await
    }

    /// Sends a request, and proves who we are if that is asked for: once more if a token has expired.
    pub(crate) async fn send(&self, mut request: Request) -> Result<Response> {
        let mut proof = self.proof().await?;
        for is_last in [false, true] {
            // What a registry sends us elsewhere for, as for uploads, is not told who we are.
            let is_ours = same_server(&request.url, &self.shared.base);
            request.authorization = proof.as_ref().filter(|_| is_ours).map(Proof::header);
            let response = self.shared.client.send(&request).await;
            let response = response.map_err(|source| self.failed(source))?;
            let asks = response.status == StatusCode::UNAUTHORIZED
                && same_server(&response.url, &self.shared.base);
            if !asks {
                return Ok(response);
            }
            if is_last {
                break;
            }
            proof = Some(self.answer(&response.headers, proof).await?);
        }
        Err(match &self.shared.credential {
            Some(Credential::Basic(_)) if matches!(proof, Some(Proof::Bearer(_))) => self.denied(),
            _ => self.refused(),
        })
    }

    /// An answer with one of these statuses, or what another one means.
    pub(crate) async fn expect(
        &self,
        response: Response,
        statuses: &[StatusCode],
        action: &str,
        what: impl Fn() -> String,
    ) -> Result<Response> {
        if statuses.contains(&response.status) {
            return Ok(response);
        }
        let ours = same_server(&response.url, &self.shared.base);
        Err(match response.status {
            StatusCode::FORBIDDEN if ours => self.denied(),
            StatusCode::NOT_FOUND => Error::NotFound { what: what() },
            _ => Error::Web {
                action: format!("{action} {}", what()),
                source: response.into_error().await,
            },
        })
    }

    /// What is known to be asked for, renewed if it has expired.
    async fn proof(&self) -> Result<Option<Proof>> {
        let (challenge, proof) = {
            let state = self.state();
            (state.challenge.clone(), state.proof.clone())
        };
        match (challenge, &proof) {
            (Some(challenge), Some(Proof::Bearer(token))) if token.is_due() => {
                Ok(Some(self.prove(challenge).await?))
            }
            _ => Ok(proof),
        }
    }

    /// Answers a challenge, after something was sent in vain.
    async fn answer(&self, headers: &HeaderMap, sent: Option<Proof>) -> Result<Proof> {
        if let Some(proof) = self.state().proof.clone()
            && Some(&proof) != sent.as_ref()
        {
            // Somebody else has asked in the meantime.
            return Ok(proof);
        }
        let Some(challenge) = challenge::choose(headers) else {
            return Err(match self.shared.credential {
                None => self.refused(),
                Some(_) => Error::Challenge {
                    registry: self.shared.place.registry.clone(),
                },
            });
        };
        if matches!(sent, Some(Proof::Basic(_))) && challenge == Challenge::Basic {
            return Err(self.refused());
        }
        self.prove(challenge).await
    }

    async fn prove(&self, challenge: Challenge) -> Result<Proof> {
        let shared = &self.shared;
        let proof = match (&challenge, &shared.credential) {
            (_, Some(Credential::Token(token))) => Proof::Bearer(Token::given(token)),
            (Challenge::Bearer { realm, service }, _) => {
                Proof::Bearer(self.token(realm, service.as_deref()).await?)
            }
            (Challenge::Basic, Some(Credential::Basic(basic))) => {
                Proof::Basic(basic.authorization())
            }
            (Challenge::Basic, _) => return Err(self.refused()),
        };
        let mut state = self.state();
        state.challenge = Some(challenge);
        state.proof = Some(proof.clone());
        Ok(proof)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing that is done under the lock can leave it half done.
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn failed(&self, source: web::Error) -> Error {
        Error::Web {
            action: format!("reach the registry {}", self.shared.place.registry),
            source,
        }
    }

    /// We are not who may do this.
    fn refused(&self) -> Error {
        let place = &self.shared.place;
        match &self.shared.credential {
            Some(credential) => Error::Refused {
                registry: place.registry.clone(),
                user: credential.user(),
            },
            None => Error::NeedsCredentials {
                registry: place.registry.clone(),
                repository: place.repository.clone(),
            },
        }
    }

    /// We are believed, and still may not.
    fn denied(&self) -> Error {
        let place = &self.shared.place;
        match &self.shared.credential {
            Some(credential) => Error::Denied {
                registry: place.registry.clone(),
                user: credential.user(),
                action: match self.shared.action {
                    Action::Pull => "pull from",
                    Action::Push => "push to",
                },
                repository: place.repository.clone(),
            },
            None => self.refused(),
        }
    }
}

fn address(place: &Place, scheme: &str) -> Result<Url> {
    // What Docker Hub is called is not where it is.
    let host = match place.registry.as_str() {
        "docker.io" => "registry-1.docker.io",
        host => host,
    };
    Url::parse(&format!("{scheme}://{host}/")).map_err(|_| Error::Invalid {
        what: place.to_string(),
        problem: "names no host that can be asked".to_owned(),
    })
}

/// On which terms a place is asked: whom to believe there, how long to wait, through which proxies.
fn terms(place: &Place, access: &Access) -> Access {
    let mut trust = access.trust.clone();
    if place.insecure {
        trust.verify = Verify::Never;
    }
    if let Some(roots) = access.authorities.get(&place.registry) {
        trust.roots.push('\n');
        trust.roots.push_str(roots);
    }
    Access {
        trust,
        patience: access.patience.clone(),
        quotes: access.quotes,
        proxies: access.proxies.clone(),
        ..Access::default()
    }
}

/// Reports whether a registry whose certificate does not matter answers over https rather than plain HTTP.
/// A failure of both is not an answer: the next try may reach the registry.
async fn speaks_https(https: &Url, http: &Url, access: &Access) -> web::Result<bool> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let error = match probe(https, access).await {
            Ok(()) => return Ok(true),
            // An answer that is not TLS is the answer of an HTTP server.
            Err(web::Error::NotTls { .. }) => return Ok(false),
            Err(error) => error,
        };
        if probe(http, access).await.is_ok() {
            return Ok(false);
        }
        if attempts >= access.patience.tries || !web::may_recover(&error) {
            return Err(error);
        }
        tokio::time::sleep(access.patience.pause_after(attempts)).await;
    }
}

/// Sends one request without repeating it; the session repeats its own requests.
async fn probe(base: &Url, access: &Access) -> web::Result<()> {
    let mut once = access.clone();
    once.patience.tries = 1;
    let client = Client::of(&once)?;
    let mut url = base.clone();
    url.set_path("/v2/");
    client.send(&Request::get(url)).await.map(drop)
}

fn same_server(a: &Url, b: &Url) -> bool {
    a.origin() == b.origin()
}
