//! Command line of the provisioner. Flags that rukpak has too keep their names.

mod convert;
mod listen_address;
mod registry_server;
mod serve;
mod storage;
mod unpack_jobs;
mod values;

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Parser;
use unpacker::{
    access::{Quotes, Trust},
    registry::Mirrors,
    store::Budget,
};

use super::Error;
use crate::{
    content,
    runtime::{log::LogFormat, settings},
};
pub(super) use convert::ConvertArgs;
use listen_address::ListenAddress;
use registry_server::RegistryServerArgs;
pub(super) use serve::{Command, CopyArgs, ServeArgs};
use storage::StorageArgs;
use unpack_jobs::UnpackJobArgs;
pub(super) use values::Controllers;

/// File in which a pod finds its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Install operator bundles, and keep their objects in the declared state.
///
/// Sources are reached through the proxies of HTTPS_PROXY, HTTP_PROXY and NO_PROXY. RELEASE_VERSION is read with
/// --release-payload. POD_NAME names this process in events and in the Lease. POD_IP is the address of catalogs for their
/// clients.
#[derive(Debug, Parser)]
#[command(
    name = "provisioner",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    args_override_self = true // as in Go: the last value wins, so that appended flags override those of a manifest
)]
pub struct Args {
    #[command(subcommand)]
    pub(super) command: Option<Command>,

    /// Path of the kubeconfig file; by default KUBECONFIG, ~/.kube/config or the configuration of the pod
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    kubeconfig: Option<PathBuf>,

    /// Namespace of the provisioner, with its Secrets, ConfigMaps and uploads; by default the namespace of this pod, or
    /// rukpak-system outside a pod
    #[arg(long, value_name = "NAMESPACE", value_parser = values::label, help_heading = "Cluster")]
    system_namespace: Option<String>,

    /// Controllers to run: bundle, instance, platform, aggregator, or none to serve content only
    #[arg(
        long,
        value_name = "NAMES",
        value_parser = values::controllers,
        default_value = "bundle,instance,platform,aggregator",
        help_heading = "Cluster"
    )]
    controllers: Controllers,

    /// Run the controllers only while holding the Lease core.rukpak.io of the system namespace; required with several
    /// replicas
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

    /// Duration of the Lease: another replica takes over this long after the last renewal
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = |text: &str| values::duration(text, 1, 600),
        default_value = "15s",
        help_heading = "Cluster"
    )]
    lease_duration: Duration,

    /// Namespaces whose CatalogSources are available to platform operators, in order of preference. A user who may write
    /// there decides which operators are installed. By default the system namespace and openshift-marketplace; "none" for
    /// none
    #[arg(
        long,
        value_name = "NAMESPACES",
        value_delimiter = ',',
        value_parser = values::label,
        action = clap::ArgAction::Set,
        help_heading = "Platform operators"
    )]
    catalog_namespaces: Option<Vec<String>>,

    /// Component that serves CatalogSources and writes their status: olm, own (the provisioner), or auto (OLM if its
    /// catalog-operator Deployment runs in a well-known namespace)
    #[arg(
        long,
        value_name = "WHO",
        value_enum,
        default_value_t = values::CatalogServerArg::Auto,
        hide_possible_values = true,
        help_heading = "Platform operators"
    )]
    catalog_server: values::CatalogServerArg,
    #[command(flatten)]
    serving: RegistryServerArgs,

    /// Run as a part of the OpenShift release payload: RELEASE_VERSION is the release of the cluster, and the
    /// cluster-version operator creates the ClusterOperators
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

    /// Kinds that the cluster need not serve, as Kind.group; replaces the built-in list
    #[arg(
        long,
        value_name = "KINDS",
        value_delimiter = ',',
        value_parser = values::optional_kind,
        action = clap::ArgAction::Set,
        help_heading = "Cluster"
    )]
    optional_kinds: Option<Vec<String>>,

    /// Maximum number of objects of one BundleInstance that are applied concurrently
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=256),
        default_value_t = 16,
        help_heading = "Cluster"
    )]
    concurrency: u16,

    /// Resync interval for objects without events
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = |text: &str| values::duration(text, 10, 86_400),
        default_value = "10m",
        help_heading = "Cluster"
    )]
    resync: Duration,

    #[command(flatten)]
    room: StorageArgs,

    /// CA certificates for registries, git and web servers, in addition to those of the system; PEM, may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    ca_file: Vec<PathBuf>,

    /// Registry mirrors in the format of podman's registries.conf(5); read at startup
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    registries_conf: Option<PathBuf>,

    /// Use the current pull configuration of the nodes on OpenShift: mirrors, blocked and allowed registries, CAs, proxies
    /// and pull secret of the cluster
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

    /// Accepted for compatibility with rukpak and ignored: content is not fetched from the content service
    #[arg(long, value_name = "FILE", hide = true)]
    bundle_ca_file: Option<PathBuf>,

    #[command(flatten)]
    jobs: UnpackJobArgs,

    /// Listen address of the content service
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":8443",
        help_heading = "Content service"
    )]
    content_bind_address: ListenAddress,

    /// Prefix of contentURLs; by default https://core.SYSTEM_NAMESPACE.svc
    #[arg(
        long,
        value_name = "URL",
        value_parser = values::external_address,
        help_heading = "Content service"
    )]
    http_external_address: Option<String>,

    /// Address at which the pods of unpack Jobs reach the content service, for a provisioner outside the cluster; by default
    /// https://core.SYSTEM_NAMESPACE.svc
    #[arg(
        long,
        value_name = "URL",
        value_parser = values::external_address,
        help_heading = "Content service"
    )]
    content_address: Option<String>,

    /// Secret of the system namespace with the serving certificate, managed for example by cert-manager; by default the
    /// service uses its own CA
    #[arg(long, value_name = "SECRET", value_parser = values::subdomain, help_heading = "Content service")]
    content_tls_secret: Option<String>,

    /// Maximum number of concurrent uploads
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=256),
        default_value_t = 4,
        help_heading = "Content service"
    )]
    max_uploads: u16,

    /// Maximum number of concurrent downloads
    #[arg(
        long,
        value_name = "NUMBER",
        value_parser = clap::value_parser!(u16).range(1..=1024),
        default_value_t = 32,
        help_heading = "Content service"
    )]
    max_downloads: u16,

    /// Listen address for /healthz and /readyz; 0 disables it
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":8081",
        help_heading = "Operation"
    )]
    health_probe_bind_address: ListenAddress,

    /// Listen address for /metrics; 0 disables it
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = ":8080",
        help_heading = "Operation"
    )]
    metrics_bind_address: ListenAddress,

    /// Listen address for changing the log level (PUT /log-level). It has no authentication, and must be a loopback
    /// address; 0 disables it
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8082",
        help_heading = "Operation"
    )]
    admin_bind_address: ListenAddress,

    /// Log format: json for machines, text for people
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = LogFormat::Json,
        hide_possible_values = true,
        help_heading = "Operation"
    )]
    pub(super) log_format: LogFormat,

    /// Log level: error, warn, info, debug, trace, or directives of tracing's EnvFilter
    #[arg(long, value_name = "LEVEL", value_parser = values::log_level, default_value = "info", help_heading = "Operation")]
    pub(super) log_level: String,

    /// Graceful shutdown timeout after the first SIGTERM
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = |text: &str| values::duration(text, 0, 3600),
        default_value = "25s",
        help_heading = "Operation"
    )]
    shutdown_grace: Duration,
}

/// Configuration of the process, derived from the flags.
#[derive(Debug)]
pub(super) struct RuntimeConfig {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) settings: settings::Settings,
    pub(super) controllers: Controllers,
    /// Duration of the Lease. `None` without leader election.
    pub(super) lease: Option<Duration>,
    pub(super) storage: PathBuf,
    pub(super) budget: Budget,
    pub(super) content: content::Options,
    pub(super) probes: Option<SocketAddr>,
    pub(super) metrics: Option<SocketAddr>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) grace: Duration,
    /// Flags that are accepted and ignored.
    pub(super) unused: Vec<&'static str>,
}

impl Args {
    /// Reads the files that flags refer to, and validates the combination of flags.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, or if flags contradict each other.
    pub(super) fn configuration(self) -> Result<RuntimeConfig, Error> {
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
            content_address,
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
        for (flag, namespaces) in [
            ("--catalog-namespaces", &catalog_namespaces),
            ("--served-namespaces", &serving.served_namespaces),
        ] {
            let names = namespaces.as_deref().unwrap_or_default();
            if names.len() > 1 && names.iter().any(|name| name == values::NONE) {
                return Err(Error::NoneInList(flag));
            }
        }
        let system_namespace = system_namespace.unwrap_or_else(own_namespace);
        let service = format!("https://core.{system_namespace}.svc");
        let defaults = settings::Settings::default();
        let catalog_namespaces = values::catalog_namespaces(catalog_namespaces, &system_namespace);
        let settings = settings::Settings {
            catalog_server: catalog_server.into(),
            serving: serving.settings(&catalog_namespaces),
            catalog_namespaces,
            system_namespace,
            external_address: http_external_address.unwrap_or_else(|| service.clone()),
            content_address: content_address.unwrap_or(service),
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
        Ok(RuntimeConfig {
            kubeconfig,
            settings,
            controllers,
            lease: leader_elect.then_some(lease_duration),
            budget: room.budget(),
            storage: room.dir(),
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

/// Returns the access settings that apply to every source.
fn access(ca_files: &[PathBuf], mirrors: Option<PathBuf>) -> Result<unpacker::Access, Error> {
    Ok(unpacker::Access {
        trust: Trust {
            roots: values::ca_certificates(ca_files)?,
            ..Trust::default()
        },
        // A reader of a Bundle may not be allowed to read responses of an internal server.
        quotes: Quotes::Withheld,
        mirrors: mirrors.map_or(Ok(Mirrors::default()), values::mirrors)?,
        ..unpacker::Access::default()
    })
}

/// Returns the release version of the release payload.
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
