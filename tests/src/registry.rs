//! An image registry: the reference implementation.

use std::{fmt::Write as _, fs, net::SocketAddr, path::Path};

use crate::{OWNER, TENANT, TestCa, TokenServer, User, address, process::Process};

/// A real registry (Debian's `docker-registry`). Dropping the value stops the registry and removes its images.
#[derive(Debug)]
pub struct Registry {
    _run: Process,
    host: String,
}

/// The authentication of a registry.
#[derive(Debug, Clone, Copy)]
pub enum Auth<'a> {
    /// Every client, without authentication.
    Anonymous,
    /// A name and a password with every request.
    Basic,
    /// A token of this server.
    Token(&'a TokenServer),
}

impl Registry {
    /// Starts a registry: https with a certificate of the CA, http without a CA.
    pub fn start(auth: Auth<'_>, ca: Option<&TestCa>) -> Self {
        let dir = tempfile::Builder::new().prefix("registry-").tempdir();
        let dir = dir.unwrap();
        let config = config(dir.path(), auth, ca);
        fs::write(dir.path().join("config.yml"), config).unwrap();
        let run = Process::start(dir, "docker-registry", &["serve", "config.yml"]);
        // The registry logs this line when it listens.
        let host = run.wait_for(|line| {
            let (_, rest) = line.split_once("listening on ")?;
            Some(rest.split([',', '"']).next()?.to_owned())
        });
        Self { _run: run, host }
    }

    /// Starts a registry without authentication and TLS.
    pub fn plain() -> Self {
        Self::start(Auth::Anonymous, None)
    }

    /// Returns `127.0.0.1:PORT`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns an image reference in this registry.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.host)
    }

    /// Returns the `config.json` that `docker login` writes for this registry.
    pub fn docker_config(&self, user: User) -> String {
        docker_config(&[(&self.host, user)])
    }
}

/// Returns a `config.json` with users of registries or repositories.
pub fn docker_config(logins: &[(&str, User)]) -> String {
    let logins = logins.iter().map(|(registry, user)| {
        let auth = user.basic();
        let auth = auth.trim_start_matches("Basic ");
        ((*registry).to_owned(), serde_json::json!({"auth": auth}))
    });
    let logins: serde_json::Map<_, _> = logins.collect();
    serde_json::json!({"auths": logins}).to_string()
}

fn config(dir: &Path, auth: Auth<'_>, ca: Option<&TestCa>) -> String {
    let file = |name: &str, text: String| {
        let path = dir.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let data = dir.join("data");
    let mut config = format!(
        "version: 0.1\n\
         log: {{level: info, formatter: text, accesslog: {{disabled: true}}}}\n\
         storage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}\n\
         http:\n  addr: {}\n  secret: tests\n",
        data.display(),
        SocketAddr::new(address(), 0)
    );
    if let Some(ca) = ca {
        let identity = ca.identity();
        let certificate = file("tls.crt", identity.certificate.pem());
        let key = file("tls.key", identity.key.serialize_pem());
        let _ = writeln!(config, "  tls: {{certificate: {certificate}, key: {key}}}");
    }
    match auth {
        Auth::Anonymous => {}
        Auth::Basic => {
            let users = [OWNER, TENANT].map(|user| format!("{}:{}\n", user.name, user.bcrypt));
            let users = file("htpasswd", users.concat());
            let auth = format!("{{htpasswd: {{realm: tests, path: {users}}}}}");
            let _ = writeln!(config, "auth: {auth}");
        }
        Auth::Token(server) => {
            let roots = file("tokens.crt", server.certificate());
            let _ = writeln!(
                config,
                "auth: {{token: {{realm: \"{}\", service: {}, issuer: {}, rootcertbundle: {roots}}}}}",
                server.realm(),
                TokenServer::SERVICE,
                TokenServer::ISSUER,
            );
        }
    }
    config
}
