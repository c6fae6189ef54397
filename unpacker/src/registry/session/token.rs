//! Bearer tokens and the token services that issue them.

use std::time::{Duration, Instant};

use http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use super::{Action, Credential, Error, Result, Session};
use crate::{
    http_client::{self, Request},
    trust::{Secret, Verify},
};

/// Maximum size of a response of a token service, in bytes. Tokens have a few KiB.
const MAX_ANSWER: u64 = 1 << 20;
/// A token is renewed this long before it expires, so that it does not expire while a request is sent.
const EXPIRY_MARGIN: Duration = Duration::from_secs(10);
/// Lifetime in seconds of a token without `expires_in`.
const DEFAULT_LIFE: u64 = 60;
/// Maximum lifetime in seconds that is accepted from a token service.
const MAX_LIFE: u64 = 24 * 3600;

/// A token in the form of an `Authorization` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) header: Secret,
    until: Option<Instant>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl Token {
    /// Wraps a token from the configuration. It has no known expiry and cannot be renewed.
    pub(super) fn from_static(token: &Secret) -> Self {
        Self {
            header: format!("Bearer {}", token.reveal()).into(),
            until: None,
        }
    }

    /// Reports whether the token has to be renewed.
    pub(super) fn is_expired(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Session {
    /// Requests a token from a token service. The scope is always this repository, regardless of the scope in the
    /// challenge.
    pub(super) async fn token(&self, realm: &str, service: Option<&str>) -> Result<Token> {
        let shared = &self.shared;
        let registry = &shared.endpoint.registry;
        let failed = |problem| Error::Token {
            registry: registry.clone(),
            problem,
        };
        let realm = self.validate_realm(realm)?;
        let actions = match shared.action {
            Action::Pull => "pull",
            Action::Push => "pull,push",
        };
        let scope = format!("repository:{}:{actions}", shared.endpoint.repository);
        let mut pairs = vec![("scope", scope.as_str())];
        pairs.extend(service.map(|service| ("service", service)));
        let mut request = match &shared.credential {
            Some(Credential::IdentityToken(identity)) => {
                pairs.extend([
                    ("grant_type", "refresh_token"),
                    ("client_id", "rukpak"),
                    ("refresh_token", identity.reveal()),
                ]);
                let form = form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(pairs)
                    .finish();
                let mut request = Request::new(Method::POST, realm);
                let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
                request.headers.insert(CONTENT_TYPE, kind);
                request.body = Some(form.into());
                request
            }
            credential => {
                let mut url = realm;
                url.query_pairs_mut().extend_pairs(pairs);
                let mut request = Request::get(url);
                if let Some(Credential::Basic(basic)) = credential {
                    request.authorization = Some(basic.authorization());
                }
                request
            }
        };
        request.written = Some(format!("the token service of {registry}").into());
        let response = shared.client.send(&request).await;
        let response = response.map_err(|source| Error::Web {
            action: format!("get a token for the registry {registry}"),
            source,
        })?;
        match response.status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.refused()),
            // OAuth 2.0 defines this status for an identity token that is no longer valid.
            StatusCode::BAD_REQUEST if request.method == Method::POST => {
                return Err(self.refused());
            }
            _ => {
                return Err(Error::Web {
                    action: format!("get a token for the registry {registry}"),
                    source: match response.into_error().await {
                        // A service may echo the posted form, which contains a secret in some encoding.
                        http_client::Error::Status {
                            method,
                            url,
                            status,
                            ..
                        } if request.method == Method::POST => http_client::Error::Status {
                            method,
                            url,
                            status,
                            excerpt: Box::default(),
                        },
                        error => error,
                    },
                });
            }
        }
        let body = response.bytes(MAX_ANSWER).await;
        let body = body.map_err(|source| Error::Web {
            action: format!("read the token for the registry {registry}"),
            source,
        })?;
        let received_at = Instant::now();
        let answer: Answer =
            serde_json::from_slice(&body).map_err(|_| failed("returned an invalid response"))?;
        let token = [answer.token, answer.access_token]
            .into_iter()
            .flatten()
            .find(|token| !token.is_empty())
            .ok_or_else(|| failed("returned no token"))?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(failed("returned a token with invalid characters"));
        }
        let life = answer.expires_in.unwrap_or(DEFAULT_LIFE).min(MAX_LIFE);
        let life = Duration::from_secs(life).saturating_sub(EXPIRY_MARGIN);
        Ok(Token {
            header: format!("Bearer {token}").into(),
            until: Some(received_at + life),
        })
    }

    /// Returns the URL of a token service that may receive credentials. It must use https unless verification is off.
    fn validate_realm(&self, text: &str) -> Result<Url> {
        let fail = |problem| Error::Realm {
            registry: self.shared.endpoint.registry.clone(),
            realm: Some(redact(text)),
            problem,
        };
        let url = Url::parse(text).map_err(|_| fail("is not a URL"))?;
        match url.scheme() {
            "https" => {}
            "http" if self.shared.verify == Verify::Never => {}
            "http" => return Err(fail("would receive the credentials unencrypted")),
            _ => return Err(fail("is neither https:// nor http://")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fail("contains credentials"));
        }
        Ok(url)
    }
}

/// Redacts the URL of a token service for messages: removes the parts before `@` and after `?`.
fn redact(realm: &str) -> String {
    let realm = realm.split(['?', '#']).next().unwrap_or_default();
    let realm: String = realm
        .chars()
        .filter(|c| !c.is_control())
        .take(200)
        .collect();
    match realm.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => realm,
    }
}
