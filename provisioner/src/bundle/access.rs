//! With what a source is reached: what flags decide, what the Bundle says, and what its Secret holds.

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use manifests::{
    api::{
        bundle::{Authorization, BundleSource},
        labels,
    },
    image::Reference,
};
use unpacker::{
    Access,
    access::{Basic, Ssh, Verify},
    registry::{Credentials, credentials},
};
use url::Url;

use super::{fetch, source};
use crate::context::Context;

/// The reason why a Secret cannot be used. Nothing of what it holds shows.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none of that name.
    #[error(
        "get secret {namespace}/{name}: Secret {name:?} not found; create it, or correct its name in the Bundle's source"
    )]
    NotFound {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
    },
    /// It is of a type that holds something else.
    #[error("secret {secret} has type {found:?}, and {wanted}")]
    Type {
        /// Which.
        secret: String,
        /// Its type.
        found: String,
        /// What is needed, and how to make it.
        wanted: &'static str,
    },
    /// A key is missing or empty.
    #[error("secret {secret} has no {key:?}, and {wanted}")]
    Key {
        /// Which.
        secret: String,
        /// What is missing.
        key: &'static str,
        /// What is needed, and how to make it.
        wanted: &'static str,
    },
    /// A value is not text.
    #[error("{key:?} of secret {secret} is not UTF-8; write it anew")]
    Text {
        /// Which.
        secret: String,
        /// Which key.
        key: &'static str,
    },
    /// It is not meant for whoever would get it.
    #[error(
        "secret {secret} is meant for {hosts:?}, and not for {host:?}; correct the source, or the annotation {} of the \
         Secret",
        labels::HOSTS
    )]
    Host {
        /// Which.
        secret: String,
        /// Whom its annotation names.
        hosts: String,
        /// The place of the source.
        host: String,
    },
    /// A pull secret makes no sense.
    #[error("secret {secret} cannot be used to pull images")]
    Pull {
        /// Which.
        secret: String,
        /// Why.
        #[source]
        source: credentials::Error,
    },
    /// Certificates that are none.
    #[error(
        "spec.source.image.certificateData holds no certificate; write the authority's certificate in PEM, beginning \
         with {BEGIN}"
    )]
    Certificates,
    /// The API server does not give it.
    #[error("failed to get secret {namespace}/{name}")]
    Api {
        /// Where.
        namespace: String,
        /// Which.
        name: String,
        /// What it said.
        #[source]
        source: fetch::ApiError,
    },
}

impl Error {
    /// Reports whether trying again is of no use while the Secret stays as it is.
    pub(super) fn is_terminal(&self) -> bool {
        !matches!(self, Self::Api { .. } | Self::NotFound { .. })
    }
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const PULL: &str = "a pull secret has one of kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg; create it with \
                    \"kubectl create secret docker-registry\"";
const BASIC: &str = "http and https take \"username\" and \"password\"; create it with \"kubectl create secret generic \
                     --type=kubernetes.io/basic-auth\"";
const SSH: &str = "ssh takes \"ssh-privatekey\" and \"ssh-knownhosts\"; create it with \"kubectl create secret generic \
                   --type=kubernetes.io/ssh-auth\"";

/// What reaching a source takes.
pub(super) async fn of(ctx: &Context, spec: &BundleSource) -> Result<Access, Error> {
    let secret = match source::secret(spec) {
        Some(name) => Some(get(&ctx.client, &ctx.settings.system_namespace, name).await?),
        None => None,
    };
    let access = ctx.pulling.access(&ctx.settings.access).await;
    with(access, spec, secret.as_ref())
}

async fn get(client: &Client, namespace: &str, name: &str) -> Result<Secret, Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    match fetch::get(&api, &name).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(Error::NotFound { namespace, name }),
        Err(source) => Err(Error::Api {
            namespace,
            name,
            source,
        }),
    }
}

/// Adds what the source and its Secret say to what flags decide.
fn with(mut access: Access, spec: &BundleSource, secret: Option<&Secret>) -> Result<Access, Error> {
    let mut auth = None;
    match spec.type_.as_str() {
        "image" => {
            if let Some(image) = &spec.image {
                let certificates = image.certificate_data.as_deref().unwrap_or_default();
                if !certificates.is_empty() {
                    if !certificates.contains(BEGIN) {
                        return Err(Error::Certificates);
                    }
                    access.trust.roots.push('\n');
                    access.trust.roots.push_str(certificates);
                }
                if image.insecure_skip_tls_verify {
                    access.trust.verify = Verify::Never;
                }
                // What the store has lost is fetched by its digest, and may be where only tags are asked for.
                if let Ok(named) = image.reference.parse::<Reference>() {
                    access.mirrors = access.mirrors.of_tag(&named);
                }
                // Whoever writes a Bundle may not be allowed to read what the nodes pull with: these credentials are
                // not for a server that only he believes.
                if !certificates.is_empty() || image.insecure_skip_tls_verify {
                    access.registries = Credentials::default();
                }
            }
            if let Some(secret) = secret {
                access.registries = [pull(secret)?, access.registries].into_iter().collect();
            }
        }
        "git" => {
            if let Some(git) = &spec.git {
                auth = git.auth.as_ref();
                let is_web = git.repository.starts_with("http");
                meant_for(secret, &git.repository)?;
                match secret {
                    Some(secret) if is_web => access.basic = Some(basic(secret)?),
                    Some(secret) => access.ssh = Some(ssh(secret)?),
                    None => {}
                }
            }
        }
        "http" => {
            if let Some(http) = &spec.http {
                auth = http.auth.as_ref();
                meant_for(secret, &http.url)?;
            }
            access.basic = secret.map(basic).transpose()?;
        }
        _ => {}
    }
    if auth.is_some_and(|auth: &Authorization| auth.insecure_skip_verify) {
        access.trust.verify = Verify::Never;
    }
    Ok(access)
}

/// Whoever may create Bundles chooses both the Secret and the host that gets it, unless the Secret says which.
fn meant_for(secret: Option<&Secret>, url: &str) -> Result<(), Error> {
    let Some(secret) = secret else {
        return Ok(());
    };
    let Some(hosts) = secret.annotations().get(labels::HOSTS) else {
        return Ok(());
    };
    let host = host(url);
    let mut meant = hosts.split(',').map(str::trim);
    if meant.any(|meant| !host.is_empty() && meant.eq_ignore_ascii_case(&host)) {
        return Ok(());
    }
    Err(Error::Host {
        secret: told(secret),
        hosts: hosts.clone(),
        host,
    })
}

/// Of a URL, or of `user@host:path`.
fn host(url: &str) -> String {
    if url.contains("://") {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str);
        return host.unwrap_or_default().to_owned();
    }
    let host = url.split_once(':').map_or("", |(host, _)| host);
    host.rsplit('@').next().unwrap_or_default().to_owned()
}

/// What a pull secret holds.
///
/// # Errors
/// When it is none.
pub(crate) fn pull(secret: &Secret) -> Result<Credentials, Error> {
    let key = match type_of(secret) {
        "kubernetes.io/dockerconfigjson" => ".dockerconfigjson",
        "kubernetes.io/dockercfg" => ".dockercfg",
        found => {
            return Err(Error::Type {
                secret: told(secret),
                found: found.to_owned(),
                wanted: PULL,
            });
        }
    };
    let json = bytes(secret, key, PULL)?;
    Credentials::from_docker_config(json).map_err(|source| Error::Pull {
        secret: told(secret),
        source,
    })
}

fn basic(secret: &Secret) -> Result<Basic, Error> {
    typed(secret, "kubernetes.io/basic-auth", BASIC)?;
    Ok(Basic {
        username: text(secret, "username", BASIC)?,
        password: text(secret, "password", BASIC)?.into(),
    })
}

fn ssh(secret: &Secret) -> Result<Ssh, Error> {
    typed(secret, "kubernetes.io/ssh-auth", SSH)?;
    let known = secret
        .data
        .iter()
        .any(|data| data.contains_key("ssh-knownhosts"));
    Ok(Ssh {
        key: text(secret, "ssh-privatekey", SSH)?.into(),
        passphrase: None,
        // Without it the unpacker tells what the server's key is, or need not know.
        known_hosts: if known {
            text(secret, "ssh-knownhosts", SSH)?
        } else {
            String::new()
        },
    })
}

/// The keys count; a type of which others are expected only explains better why they are missing.
fn typed(secret: &Secret, wanted: &str, how: &'static str) -> Result<(), Error> {
    match type_of(secret) {
        "Opaque" => Ok(()),
        found if found == wanted => Ok(()),
        found if found.starts_with("kubernetes.io/") => Err(Error::Type {
            secret: told(secret),
            found: found.to_owned(),
            wanted: how,
        }),
        _ => Ok(()),
    }
}

fn type_of(secret: &Secret) -> &str {
    secret.type_.as_deref().unwrap_or("Opaque")
}

fn told(secret: &Secret) -> String {
    format!(
        "{}/{}",
        secret.namespace().unwrap_or_default(),
        secret.name_any()
    )
}

fn bytes<'a>(
    secret: &'a Secret,
    key: &'static str,
    wanted: &'static str,
) -> Result<&'a [u8], Error> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    let value = value.map(|bytes| bytes.0.as_slice());
    value
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(|| Error::Key {
            secret: told(secret),
            key,
            wanted,
        })
}

fn text(secret: &Secret, key: &'static str, wanted: &'static str) -> Result<String, Error> {
    let bytes = bytes(secret, key, wanted)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::Text {
        secret: told(secret),
        key,
    })
}

#[cfg(test)]
mod tests;
