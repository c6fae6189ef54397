//! Authentication and authorization of requests by TokenReview and SubjectAccessReview of the API server. Results are
//! cached for a few seconds.

mod cache;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use apply::api_error;
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

use super::response;
use crate::controllers::bundle::job::AUDIENCE;
use cache::TtlCache;

/// Lifetime of a cached result: a revoked permission remains effective for that long.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// Maximum number of cached results.
const CACHE_CAPACITY: usize = 1024;
/// Maximum number of concurrent reviews, which also limits attempts with random tokens.
const MAX_REVIEWS: usize = 16;
/// Timeout of the reviews of a request, including the wait for a slot.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Prefix of the user attributes of bound tokens.
const BOUND_TOKEN_PREFIX: &str = "authentication.kubernetes.io";
/// Maximum length of a token in bytes. Tokens of ServiceAccounts have about one KiB.
const MAX_TOKEN_LEN: usize = 16 << 10;

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
    /// Permission on the subresource `content` of the Bundle, which exists in RBAC only.
    Content,
    /// Permission on the nonResourceURL. Deprecated for uploads, because roles cannot name a Bundle in it.
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

/// Reason why a request is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AuthError {
    /// The request has no valid token.
    Unauthenticated(&'static str),
    /// The user lacks the permission.
    Forbidden {
        user: String,
        operation: Operation,
        bundle: String,
    },
    /// The API server did not answer a review.
    Unavailable(String),
}

/// User that sends a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Caller(Arc<UserInfo>);

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.username.as_deref().unwrap_or_default())
    }
}

/// Identity of a pod, from its bound token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodToken {
    /// Name of the pod. Its namespace is the namespace of `user`.
    pub(super) name: String,
    pub(super) uid: String,
    /// User of the ServiceAccount: `system:serviceaccount:<namespace>:<account>`.
    pub(super) user: String,
}

/// Authenticates and authorizes requests.
pub(super) struct Authorizer {
    client: Client,
    review_slots: Semaphore,
    callers: TtlCache<Digest, Option<Caller>>,
    permissions: TtlCache<(Digest, Operation, String), Option<Permission>>,
}

impl Authorizer {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            review_slots: Semaphore::new(MAX_REVIEWS),
            callers: TtlCache::new(CACHE_CAPACITY, CACHE_TTL),
            permissions: TtlCache::new(CACHE_CAPACITY, CACHE_TTL),
        }
    }

    /// Authenticates the caller of a request, and checks the permissions for one Bundle.
    pub(super) async fn check(
        &self,
        headers: &HeaderMap,
        operation: Operation,
        bundle: &str,
    ) -> Result<Granted, AuthError> {
        let token = token(headers)?;
        // The cache contains a hash instead of the token, so that a memory dump does not reveal the token.
        let hash = Digest::sha256(token.as_bytes());
        let check = self.check_token(token, hash, operation, bundle);
        match time::timeout(REVIEW_TIMEOUT, check).await {
            Ok(result) => result,
            Err(_) => Err(AuthError::Unavailable(
                "timed out while authenticating the request; retry".to_owned(),
            )),
        }
    }

    /// Authenticates the pod that sends a request, by a token with the audience for unpack Jobs.
    pub(super) async fn pod(&self, headers: &HeaderMap) -> Result<PodToken, AuthError> {
        let token = token(headers)?;
        let review = async {
            let _slot = self.review_slots.acquire().await;
            self.review(token, Some(AUDIENCE)).await
        };
        let user = time::timeout(REVIEW_TIMEOUT, review)
            .await
            .unwrap_or_else(|_| {
                Err(AuthError::Unavailable(
                    "timed out while authenticating the token; retry".to_owned(),
                ))
            })?;
        user.as_ref().and_then(pod).ok_or(AuthError::Unauthenticated(
            "the token is expired, or not one that the kubelet issues to the pod of an unpack Job for uploads",
        ))
    }

    async fn check_token(
        &self,
        token: &str,
        hash: Digest,
        operation: Operation,
        bundle: &str,
    ) -> Result<Granted, AuthError> {
        let caller = if let Some(caller) = self.callers.get(&hash, Instant::now()) {
            caller
        } else {
            let caller = self.authenticate(token).await?;
            self.callers.put(hash, caller.clone(), Instant::now());
            caller
        };
        let Some(caller) = caller else {
            return Err(AuthError::Unauthenticated(
                "the token is invalid or expired; create one with \"kubectl create token\"",
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
            None => Err(AuthError::Forbidden {
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
    ) -> Result<Option<Permission>, AuthError> {
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

    async fn authenticate(&self, token: &str) -> Result<Option<Caller>, AuthError> {
        let _slot = self.review_slots.acquire().await;
        let user = self.review(token, None).await?;
        Ok(user.map(|user| Caller(Arc::new(user))))
    }

    /// Returns the user of a token, for the API server or another audience.
    async fn review(
        &self,
        token: &str,
        audience: Option<&str>,
    ) -> Result<Option<UserInfo>, AuthError> {
        let review = TokenReview {
            metadata: ObjectMeta::default(),
            spec: TokenReviewSpec {
                token: token.to_owned(),
                audiences: audience.map(|audience| vec![audience.to_owned()]),
            },
            status: None,
        };
        let api = Api::<TokenReview>::all(self.client.clone());
        let response = api.create(&PostParams::default(), &review).await;
        let status = response
            .map_err(|error| failed("TokenReview", &error))?
            .status;
        Ok(status
            .filter(|status| status.authenticated == Some(true))
            // An API server without support for audiences returns none.
            .filter(|status| {
                let mut audiences = status.audiences.iter().flatten();
                audience.is_none_or(|audience| audiences.any(|allowed| allowed == audience))
            })
            .and_then(|status| status.user))
    }

    async fn is_allowed(
        &self,
        caller: &Caller,
        operation: Operation,
        permission: Permission,
        bundle: &str,
    ) -> Result<bool, AuthError> {
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
        let _slot = self.review_slots.acquire().await;
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let response = api.create(&PostParams::default(), &review).await;
        let status = response
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

/// Returns the pod that a token is bound to.
fn pod(user: &UserInfo) -> Option<PodToken> {
    let extra = |key: &str| {
        let values = user
            .extra
            .as_ref()?
            .get(&format!("{BOUND_TOKEN_PREFIX}/{key}"))?;
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

/// Returns the bearer token of a request.
fn token(headers: &HeaderMap) -> Result<&str, AuthError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        (Some(_), Some(_)) => None,
        (None, _) => {
            return Err(AuthError::Unauthenticated(
                "authentication required: send \"Authorization: Bearer <token>\" with a token for this cluster",
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
                && token.len() <= MAX_TOKEN_LEN
                && token.bytes().all(|byte| byte.is_ascii_graphic()) =>
        {
            Ok(token)
        }
        _ => Err(AuthError::Unauthenticated(
            "invalid Authorization header; send \"Bearer <token>\"",
        )),
    }
}

fn failed(kind: &str, error: &kube::Error) -> AuthError {
    let error = api_error::chain(error);
    warn!(kind, error, "failed to create a review for a caller");
    AuthError::Unavailable(format!(
        "failed to create a {kind}; check the provisioner log, and retry"
    ))
}

impl AuthError {
    pub(super) fn answer(&self) -> Response {
        match self {
            Self::Unauthenticated(message) => {
                let mut response =
                    response::problem(StatusCode::UNAUTHORIZED, "Unauthorized", *message);
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
            } => response::problem(
                StatusCode::FORBIDDEN,
                "Forbidden",
                forbidden(user, *operation, bundle),
            ),
            Self::Unavailable(message) => response::unavailable(message.as_str()),
        }
    }
}

/// Returns a message with the missing permission and the command to grant it.
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
