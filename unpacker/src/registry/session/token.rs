//! Tokens, and the services that give them.

use std::time::{Duration, Instant};

use http::{HeaderValue, Method, StatusCode, header::CONTENT_TYPE};
use serde::Deserialize;
use url::{Url, form_urlencoded};

use super::{Action, Credential, Error, Result, Session};
use crate::{
    access::{Secret, Verify},
    web::{self, Request},
};

/// What a service may answer. Tokens are a few KiB.
const MAX_ANSWER: u64 = 1 << 20;
/// A token is given up this long before its end, so that it does not end on its way.
const MARGIN: Duration = Duration::from_secs(10);
/// How long a token is good for if the service does not say so.
const DEFAULT_LIFE: u64 = 60;
/// The longest that a service is believed.
const LONGEST_LIFE: u64 = 24 * 3600;

/// A token as it is sent.
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
    /// One that we did not ask for, and that nobody renews.
    pub(super) fn given(token: &Secret) -> Self {
        Self {
            header: format!("Bearer {}", token.reveal()).into(),
            until: None,
        }
    }

    /// Whether it is time for another one.
    pub(super) fn is_due(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Session {
    /// Asks a service for a token for this repository and nothing else, whatever the registry wants it to be for.
    pub(super) async fn token(&self, realm: &str, service: Option<&str>) -> Result<Token> {
        let shared = &self.shared;
        let registry = &shared.place.registry;
        let failed = |problem| Error::Token {
            registry: registry.clone(),
            problem,
        };
        let realm = self.realm(realm)?;
        let rights = match shared.action {
            Action::Pull => "pull",
            Action::Push => "pull,push",
        };
        let scope = format!("repository:{}:{rights}", shared.place.repository);
        let mut pairs = vec![("scope", scope.as_str())];
        pairs.extend(service.map(|service| ("service", service)));
        let mut request = match &shared.credential {
            Some(Credential::Identity(identity)) => {
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
            // So the standard has it for an identity token that is not good any more.
            StatusCode::BAD_REQUEST if request.method == Method::POST => {
                return Err(self.refused());
            }
            _ => {
                return Err(Error::Web {
                    action: format!("get a token for the registry {registry}"),
                    source: match response.into_error().await {
                        // A service may echo what was posted, which is a secret however it is encoded.
                        web::Error::Status {
                            method,
                            url,
                            status,
                            ..
                        } if request.method == Method::POST => web::Error::Status {
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
        let asked = Instant::now();
        let answer: Answer = serde_json::from_slice(&body)
            .map_err(|_| failed("answers with something else than a token"))?;
        let token = [answer.token, answer.access_token]
            .into_iter()
            .flatten()
            .find(|token| !token.is_empty())
            .ok_or_else(|| failed("answers without a token"))?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(failed("answers with a token that cannot be sent"));
        }
        let life = answer.expires_in.unwrap_or(DEFAULT_LIFE).min(LONGEST_LIFE);
        let life = Duration::from_secs(life).saturating_sub(MARGIN);
        Ok(Token {
            header: format!("Bearer {token}").into(),
            until: Some(asked + life),
        })
    }

    /// The service's URL, if credentials may go there: encrypted, or nobody has asked for encryption.
    fn realm(&self, text: &str) -> Result<Url> {
        let fail = |problem| Error::Realm {
            registry: self.shared.place.registry.clone(),
            realm: Some(shown(text)),
            problem,
        };
        let url = Url::parse(text).map_err(|_| fail("is no URL"))?;
        match url.scheme() {
            "https" => {}
            "http" if self.shared.verify == Verify::Never => {}
            "http" => return Err(fail("would get our credentials unencrypted")),
            _ => return Err(fail("is neither https:// nor http://")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(fail("has credentials in it"));
        }
        Ok(url)
    }
}

/// A realm as a message may show it: without what stands before `@` or behind `?`.
fn shown(realm: &str) -> String {
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
