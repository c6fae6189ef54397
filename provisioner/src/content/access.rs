//! Who asks, and whether they may: the API server is asked both, and its answers are believed for a few seconds.

mod remember;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{
        NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
        SubjectAccessReviewStatus,
    },
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use manifests::api::GROUP;
use tokio::{sync::Semaphore, time};
use tracing::warn;
use unpacker::Digest;

use super::answer;
use crate::bundle::job::AUDIENCE;
use remember::Remember;

/// How long an answer is believed: so long a withdrawn right still works.
const BELIEVED: Duration = Duration::from_secs(10);
/// How many answers are remembered.
const REMEMBERED: usize = 1024;
/// How many questions are asked at once, however many tokens somebody makes up.
const QUESTIONS: usize = 16;
/// How long a question may take, its wait for its turn included.
const PATIENCE: Duration = Duration::from_secs(10);
/// What tokens that are bound to something say it by.
const BOUND: &str = "authentication.kubernetes.io";
/// Tokens of ServiceAccounts have about one KiB.
const TOKEN: usize = 16 << 10;

/// Use of the content service that needs a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    /// Downloads content with `GET /bundles/<name>.tgz`.
    Download,
    /// Reads an upload with `GET /uploads/<name>.tgz`.
    ReadUpload,
    /// Uploads content with `PUT /uploads/<name>.tgz`.
    Upload,
}

/// Permission that allows an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Permission {
    /// On the subresource `content` of the Bundle, which exists in RBAC only.
    Content,
    /// On the nonResourceURL. Deprecated for uploads, as roles cannot name a Bundle there.
    Url,
}

impl Operation {
    fn verb(self) -> &'static str {
        match self {
            Self::Download | Self::ReadUpload => "get",
            Self::Upload => "update",
        }
    }

    fn url(self, bundle: &str) -> String {
        match self {
            Self::Download => format!("/bundles/{bundle}.tgz"),
            Self::ReadUpload | Self::Upload => format!("/uploads/{bundle}.tgz"),
        }
    }

    /// Permissions that allow the operation, the preferred one first.
    fn permissions(self) -> &'static [Permission] {
        match self {
            Self::Download => &[Permission::Url],
            Self::ReadUpload | Self::Upload => &[Permission::Content, Permission::Url],
        }
    }

    /// Reports whether a later release no longer accepts the permission for the operation.
    pub(super) fn is_deprecated(self, permission: Permission) -> bool {
        self.permissions().first() != Some(&permission)
    }
}

/// An authenticated caller, and the permission that allows the operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Granted {
    pub(super) caller: Caller,
    pub(super) permission: Permission,
}

/// Why somebody does not get what they want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Denied {
    /// They do not say who they are.
    Unknown(&'static str),
    /// They are somebody who may not.
    Forbidden {
        user: String,
        operation: Operation,
        bundle: String,
    },
    /// The API server cannot tell.
    Unavailable(String),
}

/// Whoever may.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Caller(Arc<UserInfo>);

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.username.as_deref().unwrap_or_default())
    }
}

/// A pod that has proved to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodToken {
    /// Its name; its namespace is that of `user`.
    pub(super) name: String,
    pub(super) uid: String,
    /// `system:serviceaccount:<namespace>:<account>`.
    pub(super) user: String,
}

/// Asks the API server.
pub(super) struct Access {
    client: Client,
    questions: Semaphore,
    callers: Remember<Digest, Option<Caller>>,
    permissions: Remember<(Digest, Operation, String), Option<Permission>>,
}

impl Access {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            questions: Semaphore::new(QUESTIONS),
            callers: Remember::new(REMEMBERED, BELIEVED),
            permissions: Remember::new(REMEMBERED, BELIEVED),
        }
    }

    /// Authenticates the caller of a request, and checks the permissions for one Bundle.
    pub(super) async fn check(
        &self,
        headers: &HeaderMap,
        operation: Operation,
        bundle: &str,
    ) -> Result<Granted, Denied> {
        let token = token(headers)?;
        // What is remembered is not the token itself: memory may be looked at.
        let hash = Digest::of(token.as_bytes());
        let work = self.ask(token, hash, operation, bundle);
        match time::timeout(PATIENCE, work).await {
            Ok(result) => result,
            Err(_) => Err(Denied::Unavailable(
                "the apiserver did not say in time who you are and what you may do; try again"
                    .to_owned(),
            )),
        }
    }

    /// Says which pod makes a request, if its token is meant for this.
    pub(super) async fn pod(&self, headers: &HeaderMap) -> Result<PodToken, Denied> {
        let token = token(headers)?;
        let work = async {
            let _turn = self.questions.acquire().await;
            self.review(token, Some(AUDIENCE)).await
        };
        let user = time::timeout(PATIENCE, work).await.unwrap_or_else(|_| {
            Err(Denied::Unavailable(
                "the apiserver did not say in time whose token this is; try again".to_owned(),
            ))
        })?;
        user.as_ref().and_then(pod).ok_or(Denied::Unknown(
            "the token is not one that the kubelet gives to the pod of an unpack Job for this purpose, or it is valid no \
             longer",
        ))
    }

    async fn ask(
        &self,
        token: &str,
        hash: Digest,
        operation: Operation,
        bundle: &str,
    ) -> Result<Granted, Denied> {
        let caller = if let Some(caller) = self.callers.get(&hash, Instant::now()) {
            caller
        } else {
            let caller = self.who(token).await?;
            self.callers.put(hash, caller.clone(), Instant::now());
            caller
        };
        let Some(caller) = caller else {
            return Err(Denied::Unknown(
                "the token is not valid for this cluster, or no longer: get a new one, with \"kubectl create token\" \
                 for a ServiceAccount",
            ));
        };
        let key = (hash, operation, bundle.to_owned());
        let permission = if let Some(permission) = self.permissions.get(&key, Instant::now()) {
            permission
        } else {
            let permission = self.authorize(&caller, operation, bundle).await?;
            self.permissions.put(key, permission, Instant::now());
            permission
        };
        match permission {
            Some(permission) => Ok(Granted { caller, permission }),
            None => Err(Denied::Forbidden {
                user: caller.to_string(),
                operation,
                bundle: bundle.to_owned(),
            }),
        }
    }

    /// Returns the first permission that allows the operation.
    async fn authorize(
        &self,
        caller: &Caller,
        operation: Operation,
        bundle: &str,
    ) -> Result<Option<Permission>, Denied> {
        for &permission in operation.permissions() {
            if self
                .is_allowed(caller, operation, permission, bundle)
                .await?
            {
                return Ok(Some(permission));
            }
        }
        Ok(None)
    }

    async fn who(&self, token: &str) -> Result<Option<Caller>, Denied> {
        let _turn = self.questions.acquire().await;
        let user = self.review(token, None).await?;
        Ok(user.map(|user| Caller(Arc::new(user))))
    }

    /// Whose token it is: for the API server, or for somebody else.
    async fn review(
        &self,
        token: &str,
        audience: Option<&str>,
    ) -> Result<Option<UserInfo>, Denied> {
        let review = TokenReview {
            metadata: ObjectMeta::default(),
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: audience.map(|audience| vec![audience.to_owned()]),
            },
            status: None,
        };
        let api = Api::<TokenReview>::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        let status = answer
            .map_err(|error| failed("TokenReview", &error))?
            .status;
        Ok(status
            .filter(|status| status.authenticated == Some(true))
            // An API server that knows nothing of audiences names none.
            .filter(|status| {
                let mut named = status.audiences.iter().flatten();
                audience.is_none_or(|audience| named.any(|one| one == audience))
            })
            .and_then(|status| status.user))
    }

    async fn is_allowed(
        &self,
        caller: &Caller,
        operation: Operation,
        permission: Permission,
        bundle: &str,
    ) -> Result<bool, Denied> {
        let Caller(user) = caller;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                groups: user.groups.clone(),
                uid: user.uid.clone(),
                extra: user.extra.clone(),
                ..attributes(operation, permission, bundle)
            },
            ..SubjectAccessReview::default()
        };
        let _turn = self.questions.acquire().await;
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        let status = answer
            .map_err(|error| failed("SubjectAccessReview", &error))?
            .status;
        Ok(is_allowed(status.as_ref()))
    }
}

/// Returns the attributes of a SubjectAccessReview.
fn attributes(
    operation: Operation,
    permission: Permission,
    bundle: &str,
) -> SubjectAccessReviewSpec {
    let verb = Some(operation.verb().to_owned());
    match permission {
        Permission::Content => SubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some(GROUP.to_owned()),
                resource: Some("bundles".to_owned()),
                subresource: Some("content".to_owned()),
                name: Some(bundle.to_owned()),
                verb,
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        Permission::Url => SubjectAccessReviewSpec {
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(operation.url(bundle)),
                verb,
            }),
            ..SubjectAccessReviewSpec::default()
        },
    }
}

/// What the API server says about the tokens of pods.
fn pod(user: &UserInfo) -> Option<PodToken> {
    let extra = |key: &str| {
        let values = user.extra.as_ref()?.get(&format!("{BOUND}/{key}"))?;
        match values.as_slice() {
            [value] => Some(value.clone()),
            _ => None,
        }
    };
    Some(PodToken {
        name: extra("pod-name")?,
        uid: extra("pod-uid")?,
        user: user.username.clone()?,
    })
}

fn is_allowed(status: Option<&SubjectAccessReviewStatus>) -> bool {
    status.is_some_and(|status| status.allowed && status.denied != Some(true))
}

/// The bearer token of a request.
fn token(headers: &HeaderMap) -> Result<&str, Denied> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) => None,
        (None, _) => {
            return Err(Denied::Unknown(
                "say who you are: send \"Authorization: Bearer <token>\" with a token of this cluster",
            ));
        }
    };
    let token = value
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    match token {
        Some(token)
            if !token.is_empty()
                && token.len() <= TOKEN
                && token.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            Ok(token)
        }
        _ => Err(Denied::Unknown(
            "the Authorization header is not one \"Bearer <token>\"",
        )),
    }
}

fn failed(kind: &str, error: &kube::Error) -> Denied {
    warn!(kind, %error, "asking the apiserver about a caller failed");
    Denied::Unavailable(format!(
        "the apiserver could not be asked for a {kind}; the log of the provisioner says why, try again"
    ))
}

impl Denied {
    pub(super) fn answer(&self) -> Response {
        match self {
            Self::Unknown(message) => {
                let mut response =
                    answer::problem(StatusCode::UNAUTHORIZED, "Unauthorized", *message);
                let scheme = HeaderValue::from_static("Bearer");
                response
                    .headers_mut()
                    .insert(header::WWW_AUTHENTICATE, scheme);
                response
            }
            Self::Forbidden {
                user,
                operation,
                bundle,
            } => answer::problem(
                StatusCode::FORBIDDEN,
                "Forbidden",
                forbidden(user, *operation, bundle),
            ),
            Self::Unavailable(message) => answer::unavailable(message.as_str()),
        }
    }
}

/// Names the missing permission, and how an admin grants it.
fn forbidden(user: &str, operation: Operation, bundle: &str) -> String {
    let verb = operation.verb();
    let subject = match user
        .strip_prefix("system:serviceaccount:")
        .and_then(|account| account.split_once(':'))
    {
        Some((namespace, name)) => format!("--serviceaccount={namespace}:{name}"),
        None => format!("--user={user}"),
    };
    let bind = "kubectl create clusterrolebinding <name>";
    match operation {
        Operation::Download => format!(
            "{user} is not allowed to {verb} {}; an admin grants it with \"{bind} \
             --clusterrole=bundle-reader {subject}\"",
            operation.url(bundle)
        ),
        Operation::ReadUpload | Operation::Upload => format!(
            "{user} is not allowed to {verb} bundles.{GROUP}/content of Bundle {bundle}; an admin grants it for this Bundle with \"kubectl \
             create clusterrole <role> --verb={verb} --resource=bundles.{GROUP}/content --resource-name={bundle}\" and \"{bind} \
             --clusterrole=<role> {subject}\", or for all Bundles with \"{bind} --clusterrole=bundle-uploader {subject}\""
        ),
    }
}
