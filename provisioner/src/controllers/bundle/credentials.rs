//! Access to a source: TLS trust, credentials and mirrors from flags, the Bundle and its Secret.

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
use crate::controllers::context::Context;

/// Reason why a Secret cannot be used. The messages contain no data of the Secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Secret does not exist.
    #[error(
        "get secret {namespace}/{name}: Secret {name:?} not found; create it, or correct its name in the Bundle's source"
    )]
    NotFound {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
    },
    /// The Secret has an unsuitable type.
    #[error("secret {secret} has type {found:?}, but {wanted}")]
    Type {
        /// Namespace and name of the Secret.
        secret: String,
        /// Type of the Secret.
        found: String,
        /// Required content, and how to create it.
        wanted: &'static str,
    },
    /// A key is missing or empty.
    #[error("secret {secret} has no key {key:?}, but {wanted}")]
    Key {
        /// Namespace and name of the Secret.
        secret: String,
        /// Key that is missing.
        key: &'static str,
        /// Required content, and how to create it.
        wanted: &'static str,
    },
    /// A value is not UTF-8.
    #[error("key {key:?} of secret {secret} is not valid UTF-8; set it again")]
    Text {
        /// Namespace and name of the Secret.
        secret: String,
        /// Key of the value.
        key: &'static str,
    },
    /// The Secret must not be sent to the host of the source.
    #[error(
        "secret {secret} is restricted to hosts {hosts:?} and cannot be sent to {host:?}; fix the source, or \
         annotation {} of the Secret",
        labels::HOSTS
    )]
    Host {
        /// Namespace and name of the Secret.
        secret: String,
        /// Hosts that its annotation lists.
        hosts: String,
        /// Host of the source.
        host: String,
    },
    /// A pull secret is malformed.
    #[error("secret {secret} cannot be used to pull images")]
    Pull {
        /// Namespace and name of the Secret.
        secret: String,
        /// Error of the parser.
        #[source]
        source: credentials::Error,
    },
    /// The certificate data of the source has no PEM certificate.
    #[error(
        "spec.source.image.certificateData contains no certificate; set it to the CA certificate in PEM, starting with \
         {BEGIN}"
    )]
    Certificates,
    /// The request to the API server failed.
    #[error("failed to get secret {namespace}/{name}")]
    Api {
        /// Namespace of the Secret.
        namespace: String,
        /// Name of the Secret.
        name: String,
        /// Failure of the request.
        #[source]
        source: fetch::ApiError,
    },
}

impl Error {
    /// Reports whether a retry is pointless until the Secret changes.
    pub(super) fn is_terminal(&self) -> bool {
        !matches!(self, Self::Api { .. } | Self::NotFound { .. })
    }
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const PULL: &str = "a pull secret requires type kubernetes.io/dockerconfigjson or kubernetes.io/dockercfg; create it \
                    with \"kubectl create secret docker-registry\"";
const BASIC: &str = "http and https require \"username\" and \"password\"; create it with \"kubectl create secret \
                     generic --type=kubernetes.io/basic-auth\"";
const SSH: &str = "ssh requires \"ssh-privatekey\" and \"ssh-knownhosts\"; create it with \"kubectl create secret \
                   generic --type=kubernetes.io/ssh-auth\"";

/// Returns the access to a source.
pub(super) async fn load(ctx: &Context, spec: &BundleSource) -> Result<Access, Error> {
    let secret = match source::secret(spec) {
        Some(name) => Some(get(&ctx.client, &ctx.settings.system_namespace, name).await?),
        None => None,
    };
    let access = ctx.pull_config.merged_access(&ctx.settings.access).await;
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

/// Adds the settings of the source and its Secret to those of the flags.
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
                // Content that the store has lost is fetched by its digest, and may exist only in mirrors for tags.
                if let Ok(tag_reference) = image.reference.parse::<Reference>() {
                    access.mirrors = access.mirrors.of_tag(&tag_reference);
                }
                // The author of a Bundle may not be allowed to read the pull secrets of the nodes. These credentials are
                // not sent to a server that only this author trusts.
                if !certificates.is_empty() || image.insecure_skip_tls_verify {
                    access.registries = Credentials::default();
                }
            }
            if let Some(secret) = secret {
                access.registries = [pull_secret(secret)?, access.registries]
                    .into_iter()
                    .collect();
            }
        }
        "git" => {
            if let Some(git) = &spec.git {
                auth = git.auth.as_ref();
                let is_web = git.repository.starts_with("http");
                check_host(secret, &git.repository)?;
                match secret {
                    Some(secret) if is_web => access.basic = Some(basic(secret)?),
                    Some(secret) => access.ssh = Some(ssh_key(secret)?),
                    None => {}
                }
            }
        }
        "http" => {
            if let Some(http) = &spec.http {
                auth = http.auth.as_ref();
                check_host(secret, &http.url)?;
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

/// Returns an error if the Secret is restricted to other hosts. Otherwise a user who may create Bundles could send any
/// Secret to any host.
fn check_host(secret: Option<&Secret>, url: &str) -> Result<(), Error> {
    let Some(secret) = secret else {
        return Ok(());
    };
    let Some(hosts) = secret.annotations().get(labels::HOSTS) else {
        return Ok(());
    };
    let host = host(url);
    let mut allowed = hosts.split(',').map(str::trim);
    if allowed.any(|allowed| !host.is_empty() && allowed.eq_ignore_ascii_case(&host)) {
        return Ok(());
    }
    Err(Error::Host {
        secret: qualified_name(secret),
        hosts: hosts.clone(),
        host,
    })
}

/// Returns the host of a URL, or of `user@host:path`.
fn host(url: &str) -> String {
    if url.contains("://") {
        let url = Url::parse(url).ok();
        let host = url.as_ref().and_then(Url::host_str);
        return host.unwrap_or_default().to_owned();
    }
    let host = url.split_once(':').map_or("", |(host, _)| host);
    host.rsplit('@').next().unwrap_or_default().to_owned()
}

/// Returns the credentials of a pull secret.
///
/// # Errors
/// Returns an error if the Secret is not a valid pull secret.
pub(crate) fn pull_secret(secret: &Secret) -> Result<Credentials, Error> {
    let key = match type_of(secret) {
        "kubernetes.io/dockerconfigjson" => ".dockerconfigjson",
        "kubernetes.io/dockercfg" => ".dockercfg",
        found => {
            return Err(Error::Type {
                secret: qualified_name(secret),
                found: found.to_owned(),
                wanted: PULL,
            });
        }
    };
    let json = bytes(secret, key, PULL)?;
    Credentials::from_docker_config(json).map_err(|source| Error::Pull {
        secret: qualified_name(secret),
        source,
    })
}

fn basic(secret: &Secret) -> Result<Basic, Error> {
    typed(secret, "kubernetes.io/basic-auth", BASIC)?;
    Ok(Basic {
        username: utf8(secret, "username", BASIC)?,
        password: utf8(secret, "password", BASIC)?.into(),
    })
}

fn ssh_key(secret: &Secret) -> Result<Ssh, Error> {
    typed(secret, "kubernetes.io/ssh-auth", SSH)?;
    let has_known_hosts = secret
        .data
        .iter()
        .any(|data| data.contains_key("ssh-knownhosts"));
    Ok(Ssh {
        key: utf8(secret, "ssh-privatekey", SSH)?.into(),
        passphrase: None,
        // Without this key, the unpacker reports the key of the server, or does not need it.
        known_hosts: if has_known_hosts {
            utf8(secret, "ssh-knownhosts", SSH)?
        } else {
            String::new()
        },
    })
}

/// Checks the type of a Secret. The keys are decisive: another type only explains better why they are missing.
fn typed(secret: &Secret, expected: &str, hint: &'static str) -> Result<(), Error> {
    match type_of(secret) {
        "Opaque" => Ok(()),
        found if found == expected => Ok(()),
        found if found.starts_with("kubernetes.io/") => Err(Error::Type {
            secret: qualified_name(secret),
            found: found.to_owned(),
            wanted: hint,
        }),
        _ => Ok(()),
    }
}

fn type_of(secret: &Secret) -> &str {
    secret.type_.as_deref().unwrap_or("Opaque")
}

fn qualified_name(secret: &Secret) -> String {
    format!(
        "{}/{}",
        secret.namespace().unwrap_or_default(),
        secret.name_any()
    )
}

fn bytes<'a>(secret: &'a Secret, key: &'static str, hint: &'static str) -> Result<&'a [u8], Error> {
    let value = secret.data.as_ref().and_then(|data| data.get(key));
    let value = value.map(|bytes| bytes.0.as_slice());
    value
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(|| Error::Key {
            secret: qualified_name(secret),
            key,
            wanted: hint,
        })
}

fn utf8(secret: &Secret, key: &'static str, hint: &'static str) -> Result<String, Error> {
    let bytes = bytes(secret, key, hint)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::Text {
        secret: qualified_name(secret),
        key,
    })
}

#[cfg(test)]
mod tests;
