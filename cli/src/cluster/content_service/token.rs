//! Token for the content service: the token of the kubeconfig, or a requested one that is valid for a few minutes.
//!
//! The service sends the token to the API server in a TokenReview. It does not accept client certificates, because the TLS
//! connection that they authenticate ends at the API server. It does not accept `--as` either. In both cases, a token of
//! ServiceAccount `content-client` is requested, for which the API server checks the permissions of the user.

use anyhow::{Context, bail};
use http::{HeaderValue, Request, Response, header};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api,
    api::PostParams,
    client::{Body, ConfigExt as _},
};
use manifests::api::install::CONTENT_CLIENT;
use tower::{Layer as _, ServiceExt as _};

use crate::cluster::Cluster;

/// Shortest lifetime that API servers accept for a token.
const TOKEN_LIFETIME_SECONDS: i64 = 600;

/// Authorization header with a token; marked as sensitive, and never printed.
pub(super) struct Token(HeaderValue);

impl Token {
    pub(super) fn bearer(&self) -> HeaderValue {
        self.0.clone()
    }

    fn new(token: &str) -> anyhow::Result<Self> {
        let mut value =
            HeaderValue::try_from(format!("Bearer {token}")).context("invalid token")?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// Returns the token of the kubeconfig, or requests one.
pub(super) async fn get(cluster: &Cluster) -> anyhow::Result<Token> {
    if cluster.config.auth_info.impersonate.is_none()
        && let Some(token) = kubeconfig_token(cluster).await?
    {
        return Ok(token);
    }
    let space = &cluster.system_namespace;
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client.clone(), space);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(TOKEN_LIFETIME_SECONDS),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(CONTENT_CLIENT, &PostParams::default(), &request)
        .await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) if Cluster::is_absent(&error) => bail!(
            "the kubeconfig has no token for the content service, and ServiceAccount {space}/{CONTENT_CLIENT} for issuing \
             one does not exist; apply manifests/install/rukpak.yaml again, or use a kubeconfig with a token"
        ),
        Err(error) => {
            let problem = format!(
                "the kubeconfig has no token for the content service, and requesting one for ServiceAccount \
                 {space}/{CONTENT_CLIENT} failed"
            );
            return Err(cluster.explain(problem, error));
        }
    };
    let token = answer.status.and_then(|status| status.token);
    Token::new(&token.context("the API server returned no token")?)
}

/// Returns the token that is sent to the API server, from any source of the kubeconfig: inline, a file or a plugin.
async fn kubeconfig_token(cluster: &Cluster) -> anyhow::Result<Option<Token>> {
    let problem = "failed to get a token for the content service";
    let config = cluster.config.clone();
    // A credential plugin blocks its thread, and may wait for the user.
    let layer = tokio::task::spawn_blocking(move || config.auth_layer()).await;
    let layer = layer.context(problem)?;
    let Some(layer) = layer.map_err(|error| cluster.explain(problem, error))? else {
        return Ok(None);
    };
    let sent = layer.layer(tower::service_fn(|request: Request<Body>| {
        let sent = request.headers().get(header::AUTHORIZATION).cloned();
        std::future::ready(Ok::<_, tower::BoxError>(Response::new(sent)))
    }));
    let sent = sent.oneshot(Request::new(Body::empty())).await;
    let sent = sent.map_err(|error| cluster.explain(problem, kube::Error::Service(error)))?;
    let sent = sent.into_body();
    let token = sent.as_ref().and_then(|sent| sent.to_str().ok());
    // A password must not be sent to the content service.
    let token = token.and_then(|sent| sent.strip_prefix("Bearer "));
    token.map(Token::new).transpose()
}
