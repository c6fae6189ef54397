//! The command line. Flags that rukpak had keep their names.

mod address;
mod convert;
mod jobs;
mod room;
mod serve;
mod serving;
mod values;

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Parser;
use unpacker::{
    access::{Quotes, Trust},
    registry::Mirrors,
    store::Budget,
};

use super::Error;
use crate::{content, settings};
use address::Address;
pub(super) use convert::ConvertArgs;
use jobs::Jobs;
use room::Room;
pub(super) use serve::{Command, CopyArgs, ServeArgs};
use serving::Serving;
pub(super) use values::{Controllers, LogFormat};

/// Where a pod finds the namespace that it runs in.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Installs operator bundles and keeps them as they were declared.
///
/// Sources are reached through the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY. RELEASE_VERSION is read
/// with --release-payload. POD_NAME names this process in events and in the Lease, and POD_IP is where clients of catalogs
/// find it.
#[derive(Debug, Parser)]
#[command(
    name = "provisioner",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    args_override_self = true // as in Go: a manifest's flags can be overridden by adding some
)]
pub struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    /// The kubeconfig of the cluster; without it KUBECONFIG, ~/.kube/config, or what every pod is given
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,

    /// Where Secrets, ConfigMaps and uploads are, and the provisioner itself; by default the namespace of this pod, or
    /// rukpak-system outside a pod
    #[arg(long, value_name = "NAMESPACE", value_parser = values::label, help_heading = "Cluster")]
    system_namespace: Option<String>,

    /// What this process does: bundle, instance, platform, aggregator, or none of them to serve content only
    #[arg(
        long,
        value_name = "NAMES",
        value_parser = values::controllers,
        default_value = "bundle,instance,platform,aggregator",
        help_heading = "Cluster"
    )]
    controllers: Controllers,

    /// Work only while holding the Lease core.rukpak.io of the system namespace; needed with several replicas
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        value_name = "BOOL",
        default_value_t = false,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        help_heading = "Cluster"
    )]
    leader_elect: bool,

    /// How long the Lease outlives a leader that has gone silent
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = |text: &str| values::duration(text, 1, 600),
        default_value = "15s",
        help_heading = "Cluster"
    )]
    lease_duration: Duration,

    /// Of which namespaces CatalogSources count, the first ones first; whoever may write there decides what platform
    /// operators install. By default the system namespace and openshift-marketplace; "none" for none
    #[arg(
        long,
        value_name = "NAMESPACES",
        value_delimiter = ',',
        value_parser = values::label,
        help_heading = "Platform operators"
    )]
    catalog_namespaces: Option<Vec<String>>,

    /// Who serves the catalogs of CatalogSources and writes their status: olm, own (the provisioner), or auto for OLM where
    /// its Deployment catalog-operator runs in one of its usual namespaces
    #[arg(
        long,
        value_name = "WHO",
        value_enum,
        default_value_t = values::Server::Auto,
        hide_possible_values = true,
        help_heading = "Platform operators"
    )]
    catalog_server: values::Server,
    #[command(flatten)]
    serving: Serving,

    /// This is a part of OpenShift's release payload: RELEASE_VERSION says which release the cluster runs, and the
    /// cluster-version operator makes our ClusterOperators
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        value_name = "BOOL",
        default_value_t = false,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        help_heading = "Platform operators"
    )]
    release_payload: bool,

    /// Kinds that the cluster may lack without harm, as Kind.group; replaces the built-in list
    #[arg(
        long,
        value_name = "KINDS",
        value_delimiter = ',',
        value_parser = values::optional_kind,
        help_heading = "Cluster"
    )]
    optional_kinds: Option<Vec<String>>,

    /// How many objects of one BundleInstance are applied at once
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=256),
        default_value_t = 16,
        help_heading = "Cluster"
    )]
    concurrency: u16,

    /// How often objects that nothing wakes are looked at again
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = |text: &str| values::duration(text, 10, 86_400),
        default_value = "10m",
        help_heading = "Cluster"
    )]
    resync: Duration,

    #[command(flatten)]
    room: Room,

    /// Authorities that registries, git and web servers are believed by, besides those of the system; PEM, may be
    /// repeated
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    ca_file: Vec<PathBuf>,

    /// Mirrors to ask instead of registries, as podman's registries.conf(5); read at the start
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    registries_conf: Option<PathBuf>,

    /// On OpenShift, pull as its nodes do: with the cluster's mirrors, blocked and allowed registries, authorities,
    /// proxies and pull secret, always those of the moment
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        help_heading = "Sources"
    )]
    follow_openshift: bool,

    /// Taken from the flags of rukpak, and not used: content is not fetched from the content service
    #[arg(long, value_name = "FILE", hide = true)]
    bundle_ca_file: Option<PathBuf>,

    #[command(flatten)]
    jobs: Jobs,

    /// Where the content service listens
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":8443",
        help_heading = "Content service"
    )]
    content_bind_address: Address,

    /// What contentURLs begin with; by default https://core.SYSTEM_NAMESPACE.svc
    #[arg(
        long,
        value_name = "URL",
        value_parser = values::external_address,
        help_heading = "Content service"
    )]
    http_external_address: Option<String>,

    /// A Secret of the system namespace with the certificate to show, kept by cert-manager for example; by default the
    /// service has an authority of its own
    #[arg(long, value_name = "SECRET", value_parser = values::subdomain, help_heading = "Content service")]
    content_tls_secret: Option<String>,

    /// How many uploads are taken at once
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=256),
        default_value_t = 4,
        help_heading = "Content service"
    )]
    max_uploads: u16,

    /// How many archives are handed out at once
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=1024),
        default_value_t = 32,
        help_heading = "Content service"
    )]
    max_downloads: u16,

    /// Where /healthz and /readyz are; 0 for nowhere
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":8081",
        help_heading = "Operation"
    )]
    health_probe_bind_address: Address,

    /// Where /metrics is; 0 for nowhere
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":8080",
        help_heading = "Operation"
    )]
    metrics_bind_address: Address,

    /// Where the log level can be changed (PUT /log-level), without a password and therefore from this pod only; 0 for
    /// nowhere
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8082",
        help_heading = "Operation"
    )]
    admin_bind_address: Address,

    /// json for machines, text for people
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = LogFormat::Json,
        hide_possible_values = true,
        help_heading = "Operation"
    )]
    pub(super) log_format: LogFormat,

    /// error, warn, info, debug, trace, or directives of tracing's EnvFilter
    #[arg(long, value_name = "LEVEL", value_parser = values::log_level, default_value = "info", help_heading = "Operation")]
    pub(super) log_level: String,

    /// How long what has begun may take after the first SIGTERM
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = |text: &str| values::duration(text, 0, 3600),
        default_value = "25s",
        help_heading = "Operation"
    )]
    shutdown_grace: Duration,
}

/// What the flags come to.
#[derive(Debug)]
pub(super) struct Configuration {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) settings: settings::Settings,
    pub(super) controllers: Controllers,
    /// How long the Lease lives; `None` without leader election.
    pub(super) lease: Option<Duration>,
    pub(super) storage: PathBuf,
    pub(super) budget: Budget,
    pub(super) content: content::Options,
    pub(super) probes: Option<SocketAddr>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) grace: Duration,
    /// Flags that are not used any more.
    pub(super) unused: Vec<&'static str>,
}

impl Args {
    /// Reads what flags name, and checks what they say together.
    ///
    /// # Errors
    /// When a file cannot be read, or flags contradict each other.
    pub(super) fn configuration(self) -> Result<Configuration, Error> {
        let Self {
            command: _,
            kubeconfig,
            system_namespace,
            controllers,
            leader_elect,
            lease_duration,
            catalog_namespaces,
            catalog_server,
            serving,
            release_payload,
            optional_kinds,
            concurrency,
            resync,
            room,
            ca_file,
            registries_conf,
            follow_openshift,
            bundle_ca_file,
            jobs,
            content_bind_address,
            http_external_address,
            content_tls_secret,
            max_uploads,
            max_downloads,
            health_probe_bind_address,
            metrics_bind_address,
            admin_bind_address,
            log_format: _,
            log_level: _,
            shutdown_grace,
        } = self;
        let admin = admin_bind_address.socket();
        if admin.is_some_and(|address| !address.ip().is_loopback()) {
            return Err(Error::Admin(admin_bind_address.to_string()));
        }
        let Some(bind) = content_bind_address.socket() else {
            return Err(Error::Content);
        };
        room.check()?;
        let system_namespace = system_namespace.unwrap_or_else(own_namespace);
        let external_address =
            http_external_address.unwrap_or_else(|| format!("https://core.{system_namespace}.svc"));
        let defaults = settings::Settings::default();
        let catalog_namespaces = values::catalog_namespaces(catalog_namespaces, &system_namespace);
        let settings = settings::Settings {
            catalog_server: catalog_server.into(),
            serving: serving.settings(&catalog_namespaces),
            catalog_namespaces,
            system_namespace,
            external_address,
            optional_kinds: optional_kinds.map_or(defaults.optional_kinds, BTreeSet::from_iter),
            unpack: room.unpack(),
            manifests: room.manifests(),
            access: access(&ca_file, registries_conf)?,
            follow_openshift,
            resync,
            concurrency: usize::from(concurrency),
            persistent_store: room.is_persistent(),
            jobs: jobs.settings(),
            release: release_payload.then(release).flatten(),
            release_payload,
        };
        Ok(Configuration {
            kubeconfig,
            settings,
            controllers,
            lease: leader_elect.then_some(lease_duration),
            budget: room.budget(),
            storage: room.folder(),
            content: content::Options {
                bind,
                tls_secret: content_tls_secret,
                uploads: usize::from(max_uploads),
                downloads: usize::from(max_downloads),
            },
            probes: health_probe_bind_address.socket(),
            metrics: metrics_bind_address.socket(),
            admin,
            grace: shutdown_grace,
            unused: bundle_ca_file
                .map(|_| "--bundle-ca-file")
                .into_iter()
                .collect(),
        })
    }
}

/// With what every source is reached.
fn access(authorities: &[PathBuf], mirrors: Option<PathBuf>) -> Result<unpacker::Access, Error> {
    Ok(unpacker::Access {
        trust: Trust {
            roots: values::authorities(authorities)?,
            ..Trust::default()
        },
        // Whoever may read a Bundle may not be allowed to read what an internal server says.
        quotes: Quotes::Withheld,
        mirrors: mirrors.map_or(Ok(Mirrors::default()), values::mirrors)?,
        ..unpacker::Access::default()
    })
}

/// What a release payload says of itself.
fn release() -> Option<String> {
    std::env::var("RELEASE_VERSION")
        .ok()
        .filter(|release| !release.is_empty())
}

fn own_namespace() -> String {
    let namespace = std::fs::read_to_string(NAMESPACE_FILE).unwrap_or_default();
    match namespace.trim() {
        "" => settings::Settings::default().system_namespace,
        namespace => namespace.to_owned(),
    }
}

#[cfg(test)]
mod tests;
