//! Client configuration from kubeconfigs, by the rules of kubectl.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use http::{HeaderValue, Uri, header::USER_AGENT};
use kube::{
    Config,
    config::{ExecAuthCluster, Kubeconfig, KubeconfigError},
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use unpacker::http_client::Proxies;

use crate::args::ClusterArgs;

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads the configuration that flags and environment variables select.
pub(super) fn read(args: &ClusterArgs) -> anyhow::Result<Config> {
    let (mut config, proxy_url) = match files(args)? {
        Some(file) => select(&file, args)?,
        None if args.context.is_some() || args.cluster.is_some() || args.user.is_some() => bail!(
            "--context, --cluster and --user select entries of a kubeconfig, but none was found; set --kubeconfig or \
             $KUBECONFIG"
        ),
        None => {
            let config = Config::incluster().map_err(|_| {
                anyhow!(
                    "no kubeconfig found; set --kubeconfig or $KUBECONFIG, or create ~/.kube/config"
                )
            });
            (config?, None)
        }
    };
    let variable = |name: &str| env::var(name).ok();
    config.proxy_url = proxy(proxy_url.as_deref(), variable, &config.cluster_url)?;
    // Like kubectl, ignore the line break at the end of a token file. The client rejects it.
    if config.auth_info.token.is_none()
        && let Some(path) = &config.auth_info.token_file
        && let Ok(token) = fs::read_to_string(path)
        && token.trim() != token
    {
        config.auth_info.token = Some(token.trim().into());
    }
    let agent = HeaderValue::from_static(concat!("rukpak/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let timeout = Some(args.request_timeout).filter(|timeout| !timeout.is_zero());
    config.read_timeout = timeout;
    config.write_timeout = timeout;
    // Idle time before a request does not count for the read timeout.
    config.reset_reader_on_write = true;
    if let Some(user) = &args.as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups =
            Some(args.as_groups.clone()).filter(|groups| !groups.is_empty());
    }
    Ok(config)
}

/// Reads and merges all kubeconfigs; `None` if no file exists.
fn files(args: &ClusterArgs) -> anyhow::Result<Option<Kubeconfig>> {
    if let Some(path) = &args.kubeconfig {
        return read_file(path).map(Some);
    }
    let listed: Vec<PathBuf> = env::var_os("KUBECONFIG")
        .map(|value| env::split_paths(&value).collect())
        .unwrap_or_default();
    let mut paths: Vec<PathBuf> = listed
        .into_iter()
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if paths.is_empty() {
        let home = env::home_dir().filter(|home| !home.as_os_str().is_empty());
        paths.extend(home.map(|home| home.join(".kube/config")));
    }
    let mut merged: Option<Kubeconfig> = None;
    // Like in kubectl, some of several files may be missing.
    for path in paths.iter().filter(|path| path.exists()) {
        let file = read_file(path)?;
        merged = Some(match merged {
            Some(before) => before.merge(file).context("failed to merge kubeconfigs")?,
            None => file,
        });
    }
    if merged.is_none() && env::var_os("KUBECONFIG").is_some_and(|value| !value.is_empty()) {
        bail!("none of the files in $KUBECONFIG exists; correct the variable, or set --kubeconfig");
    }
    Ok(merged)
}

fn read_file(path: &Path) -> anyhow::Result<Kubeconfig> {
    let mut file = Kubeconfig::read_from(path).map_err(|error| explain(error, path))?;
    // An empty name would hide the current context of the next file.
    file.current_context = file.current_context.filter(|name| !name.is_empty());
    Ok(file)
}

/// Returns the configuration of the selected entries, and the `proxy-url` of the cluster. The function of kube is not used:
/// it compares `$NO_PROXY` with the address of the proxy, and rejects values that kubectl accepts.
fn select(file: &Kubeconfig, args: &ClusterArgs) -> anyhow::Result<(Config, Option<String>)> {
    let name = args.context.as_ref().or(file.current_context.as_ref());
    let name = name.with_context(|| {
        let available = available_contexts(file);
        format!("the kubeconfig has no current context; set --context (available: {available})")
    })?;
    let named = file.contexts.iter().find(|entry| entry.name == *name);
    let context = named.and_then(|entry| entry.context.as_ref());
    let context = context.with_context(|| {
        let available = available_contexts(file);
        format!(
            "the kubeconfig has no context {name:?}; set another --context (available: {available})"
        )
    })?;
    let name = args.cluster.as_ref().unwrap_or(&context.cluster);
    let named = file.clusters.iter().find(|entry| entry.name == *name);
    let cluster = named.and_then(|entry| entry.cluster.as_ref());
    let cluster = cluster.with_context(|| {
        format!(
            "the kubeconfig has no cluster {name:?}; correct the kubeconfig, or set another --cluster"
        )
    })?;
    let user_name = args.user.as_ref().or(context.user.as_ref());
    let mut users = file.auth_infos.iter();
    let named = users.find(|entry| Some(&entry.name) == user_name);
    // As in kubectl, only the flag requires that the user exists. Without credentials, requests are anonymous.
    if let (None, Some(name)) = (named, &args.user) {
        bail!("the kubeconfig has no user {name:?}; correct the kubeconfig, or set another --user");
    }
    let user = named.and_then(|entry| entry.auth_info.clone());
    let mut user = user.unwrap_or_default();

    let server = cluster.server.as_deref().unwrap_or_default();
    let server = server.parse::<Uri>().with_context(|| {
        format!("cluster {name:?} of the kubeconfig has no valid server URL; use https://HOST:PORT")
    })?;
    let mut config = Config::new(server);
    // As in kubectl, empty values are unset.
    if let Some(namespace) = context.namespace.as_ref().filter(|name| !name.is_empty()) {
        config.default_namespace.clone_from(namespace);
    }
    let mut cluster = cluster.clone();
    for field in [
        &mut cluster.tls_server_name,
        &mut cluster.certificate_authority_data,
        &mut cluster.proxy_url,
    ] {
        field.take_if(|value| value.is_empty());
    }
    let info = ExecAuthCluster::try_from(&cluster).map_err(|error| {
        anyhow!("invalid cluster {name:?} of the kubeconfig: {error}; correct the kubeconfig")
    })?;
    if let Some(authority) = &info.certificate_authority_data {
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authority)
            .map(|root| root.map(|root| root.to_vec()))
            .collect();
        let roots = roots.with_context(|| {
            format!(
                "the certificate authority of cluster {name:?} in the kubeconfig is not valid PEM; correct the kubeconfig"
            )
        })?;
        config.root_cert = Some(roots);
    }
    if let Some(exec) = user.exec.as_mut().filter(|exec| exec.provide_cluster_info) {
        exec.cluster = Some(info);
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or_default();
    config.disable_compression = cluster.disable_compression.unwrap_or_default();
    config.tls_server_name = cluster.tls_server_name;
    config.auth_info = user;
    Ok((config, cluster.proxy_url))
}

fn available_contexts(file: &Kubeconfig) -> String {
    let contexts = file.contexts.iter();
    let names: Vec<&str> = contexts.map(|context| context.name.as_str()).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Returns the proxy for requests to a server, as in kubectl: `proxy-url` of the kubeconfig, or the proxy of the environment
/// unless `$NO_PROXY` lists the server.
fn proxy(
    proxy_url: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
    server: &Uri,
) -> anyhow::Result<Option<Uri>> {
    // Errors do not contain the address, because it may contain a password.
    if let Some(address) = proxy_url {
        let problem = "the kubeconfig has an invalid proxy-url; use http://HOST:PORT, or the scheme https or socks5";
        return proxy_address(address).context(problem).map(Some);
    }
    let value = |name: &str| {
        let lower_case = name.to_ascii_lowercase();
        let values = [name, &*lower_case].into_iter().filter_map(&variable);
        values
            .map(|value| value.trim().to_owned())
            .find(|value| !value.is_empty())
    };
    let name = match server.scheme_str() {
        Some("https") => "HTTPS_PROXY",
        _ => "HTTP_PROXY",
    };
    let (Some(address), Ok(url)) = (value(name), server.to_string().parse()) else {
        return Ok(None); // the first request reports an invalid server
    };
    // By the rules of Go: `.example.com` does not match `example.com`.
    let no_proxy = value("NO_PROXY").unwrap_or_default();
    if Proxies::of_cluster("", "", &no_proxy).is_direct(&url) {
        return Ok(None);
    }
    let address = if address.contains("://") {
        address
    } else {
        format!("http://{address}")
    };
    let problem =
        || format!("invalid proxy in ${name}; use http://HOST:PORT, or the scheme https or socks5");
    proxy_address(&address).with_context(problem).map(Some)
}

/// Parses the address of a proxy. As in Go, `socks5h` is `socks5`, with the default port 1080.
fn proxy_address(address: &str) -> Option<Uri> {
    let address = match address.strip_prefix("socks5h://") {
        Some(rest) => format!("socks5://{rest}"),
        None => address.to_owned(),
    };
    let proxy: Uri = address.parse().ok()?;
    match proxy.scheme_str()? {
        "http" | "https" => Some(proxy),
        "socks5" if proxy.port().is_some() => Some(proxy),
        "socks5" => format!("socks5://{}:1080", proxy.authority()?).parse().ok(),
        _ => None,
    }
}

fn explain(error: KubeconfigError, path: &Path) -> anyhow::Error {
    let path = path.display();
    match error {
        KubeconfigError::ReadConfig(error, _) => {
            anyhow!("failed to read the kubeconfig {path}: {error}")
        }
        // The lines around the problem may contain credentials.
        KubeconfigError::Parse(error) => {
            anyhow!("invalid kubeconfig {path}: {}", error.without_snippet())
        }
        error => anyhow!("invalid kubeconfig {path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use ::tests::assert_rows;
    use serde_json::{Value, json};

    use super::*;

    const SERVER: &str = "https://api.example.com:6443";

    fn chosen(
        proxy_url: Option<&str>,
        variables: &[(&str, &str)],
        server: &'static str,
    ) -> anyhow::Result<Option<String>> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let proxy = proxy(proxy_url, variable, &Uri::from_static(server))?;
        Ok(proxy.map(|proxy| proxy.to_string()))
    }

    #[test]
    fn proxy_is_chosen_as_in_kubectl() {
        ::tests::assert_each!(|proxy_url, variables, server, expected| chosen(proxy_url, variables, server).unwrap().as_deref()
            => expected;
            None, &[][..], SERVER => None;
            None, &[("HTTPS_PROXY", "http://p:1")], SERVER => Some("http://p:1/");
            None, &[("https_proxy", "p:1")], SERVER => Some("http://p:1/");
            None, &[("HTTPS_PROXY", "socks5://p:1")], SERVER => Some("socks5://p:1/");
            None, &[("https_proxy", "socks5://p:1")], SERVER => Some("socks5://p:1/");
            None, &[("HTTPS_PROXY", "socks5h://p")], SERVER => Some("socks5://p:1080/");
            None, &[("HTTPS_PROXY", " "), ("https_proxy", "socks5://p:1")], SERVER => Some("socks5://p:1/");
            None, &[("ALL_PROXY", "http://p:1")], SERVER => None;
            None, &[("HTTP_PROXY", "http://p:1")], SERVER => None;
            None, &[("HTTP_PROXY", "http://p:1"), ("HTTPS_PROXY", "ftp://p")], "http://h" => Some("http://p:1/");
            None, &[("HTTPS_PROXY", "http://p:1")], "https://127.0.0.1:6443" => None;
            // NO_PROXY lists servers, not proxies.
            None, &[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "p")], SERVER => Some("http://p:1/");
            None, &[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", ",.example.com,")], SERVER => None;
            None, &[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", ".api.example.com")], SERVER => Some("http://p:1/");
            None, &[("HTTPS_PROXY", "socks5://p:1"), ("no_proxy", "169.254/16,example.com")], SERVER => None;
            // The kubeconfig precedes the environment.
            Some("http://q:1"), &[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "*")], SERVER => Some("http://q:1/");
            Some("socks5://q"), &[("NO_PROXY", ",q")], SERVER => Some("socks5://q:1080/");
        );
    }

    #[test]
    fn entries_are_read_as_in_kubectl() {
        let file = |cluster: Value, context: Value| {
            let file = json!({
                "current-context": "c",
                "contexts": [{"name": "c", "context": context}],
                "clusters": [{"name": "k", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            });
            let args = crate::testing::parse(&[]).unwrap();
            select(&serde_json::from_value(file).unwrap(), &args).unwrap()
        };
        let empty = json!({"server": SERVER, "tls-server-name": "", "proxy-url": ""});
        let (config, proxy_url) = file(empty, json!({"cluster": "k", "namespace": ""}));
        assert_rows! {
            config.default_namespace => "default";
            (config.tls_server_name, proxy_url) => (None, None);
            (config.accept_invalid_certs, config.auth_info.token.is_none()) => (false, true);
        }
        let full = json!({"server": SERVER, "tls-server-name": "s", "insecure-skip-tls-verify": true, "proxy-url": "http://q:1"});
        let context = json!({"cluster": "k", "user": "u", "namespace": "n"});
        let (config, proxy_url) = file(full, context);
        assert_rows! {
            config.default_namespace => "n";
            (config.tls_server_name.as_deref(), proxy_url.as_deref()) => (Some("s"), Some("http://q:1"));
            (config.accept_invalid_certs, config.auth_info.token.is_some()) => (true, true);
        }
    }

    #[test]
    fn invalid_proxies_are_rejected_without_their_passwords() {
        for (proxy_url, variables) in [
            (Some("ftp://u:word@h:1"), &[][..]),
            (Some("u:word@h"), &[]),
            (None, &[("HTTPS_PROXY", "ftp://u:word@h:1")]),
            (None, &[("HTTPS_PROXY", "socks4://u:word@h:1")]),
        ] {
            let error = chosen(proxy_url, variables, SERVER).unwrap_err();
            let text = format!("{error:#}");
            ::tests::assert_has(&text, "invalid proxy");
            assert!(!text.contains("word"), "{text}");
        }
    }
}
