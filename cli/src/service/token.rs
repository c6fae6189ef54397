//! What is shown to the content service: the kubeconfig's own token, or one for a few minutes.
//!
//! The service asks the API server whose token it is. Client certificates are of no use there, as somebody else's TLS ends
//! in between, and neither is `--as`: a token of the ServiceAccount `content-client` stands in for them, which the
//! API server gives to whoever may have it.

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

/// The shortest time that API servers give tokens for.
const SECONDS: i64 = 600;

/// Ready for the header, and never printed.
pub(super) struct Token(HeaderValue);

impl Token {
    pub(super) fn bearer(&self) -> HeaderValue {
        self.0.clone()
    }

    fn new(token: &str) -> anyhow::Result<Self> {
        let mut value =
            HeaderValue::try_from(format!("Bearer {token}")).context("the token cannot be sent")?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// Takes what the kubeconfig has, or asks for one.
pub(super) async fn get(cluster: &Cluster) -> anyhow::Result<Token> {
    if cluster.config.auth_info.impersonate.is_none()
        && let Some(own) = own(cluster).await?
    {
        return Ok(own);
    }
    let space = &cluster.system_namespace;
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client.clone(), space);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(SECONDS),
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
            "the kubeconfig has no token for the content service, and there is no ServiceAccount {space}/{CONTENT_CLIENT} to \
             get one of: apply manifests/install/rukpak.yaml again, or use a kubeconfig with a token"
        ),
        Err(error) => {
            let what = format!(
                "the kubeconfig has no token for the content service, and one of ServiceAccount {space}/{CONTENT_CLIENT} is not to be had"
            );
            return Err(cluster.trouble(what, error));
        }
    };
    let token = answer.status.and_then(|status| status.token);
    Token::new(&token.context("the apiserver gives no token")?)
}

/// What would be sent to the API server, whatever it comes from: the kubeconfig, a file, a plugin.
async fn own(cluster: &Cluster) -> anyhow::Result<Option<Token>> {
    let what = "the credentials of the kubeconfig cannot be used";
    let Some(layer) = cluster.config.auth_layer().context(what)? else {
        return Ok(None);
    };
    let sent = layer.layer(tower::service_fn(|request: Request<Body>| {
        let sent = request.headers().get(header::AUTHORIZATION).cloned();
        std::future::ready(Ok::<_, tower::BoxError>(Response::new(sent)))
    }));
    let sent = sent.oneshot(Request::new(Body::empty())).await;
    let sent = sent.map_err(|error| anyhow::anyhow!("{what}: {error}"))?;
    let sent = sent.into_body();
    let token = sent.as_ref().and_then(|sent| sent.to_str().ok());
    // A password is for the API server alone.
    let token = token.and_then(|sent| sent.strip_prefix("Bearer "));
    token.map(Token::new).transpose()
}
