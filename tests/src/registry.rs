//! A registry for images: the one that most others are measured against.

use std::{fmt::Write as _, fs, net::SocketAddr, path::Path};

use crate::{Authority, OWNER, TENANT, TokenServer, User, address, process::Process};

/// A real registry (`docker-registry` of Debian). Dropping it ends it and removes what was pushed.
#[derive(Debug)]
pub struct Registry {
    process: Process,
    host: String,
}

/// Who may use a registry.
#[derive(Debug, Clone, Copy)]
pub enum Auth<'a> {
    /// Everybody.
    Anonymous,
    /// Whoever sends a name and a password with every request.
    Basic,
    /// Whoever has a token of this server.
    Token(&'a TokenServer),
}

impl Registry {
    /// A registry that serves https with a certificate of that authority, and http without one.
    pub fn start(auth: Auth<'_>, authority: Option<&Authority>) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("registry-")
            .tempdir()
            .unwrap();
        let config = config(folder.path(), auth, authority);
        fs::write(folder.path().join("config.yml"), config).unwrap();
        let process = Process::start(folder, "docker-registry", &["serve", "config.yml"]);
        // It says so once it listens.
        let host = process.wait_for(|line| {
            let (_, rest) = line.split_once("listening on ")?;
            Some(rest.split([',', '"']).next()?.to_owned())
        });
        Self { process, host }
    }

    /// A registry for everybody, without TLS.
    pub fn plain() -> Self {
        Self::start(Auth::Anonymous, None)
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// An image reference in this registry.
    pub fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.host)
    }

    /// What `docker login` leaves behind for this registry.
    pub fn docker_config(&self, user: User) -> String {
        docker_config(&[(&self.host, user)])
    }

    /// The folder with everything that was pushed.
    pub fn folder(&self) -> std::path::PathBuf {
        self.process.folder().join("data")
    }
}

/// A `config.json` with these registries or repositories and users.
pub fn docker_config(logins: &[(&str, User)]) -> String {
    let logins = logins.iter().map(|(place, user)| {
        let auth = user.basic();
        let auth = auth.trim_start_matches("Basic ");
        ((*place).to_owned(), serde_json::json!({"auth": auth}))
    });
    let logins: serde_json::Map<_, _> = logins.collect();
    serde_json::json!({"auths": logins}).to_string()
}

fn config(folder: &Path, auth: Auth<'_>, authority: Option<&Authority>) -> String {
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let data = folder.join("data");
    let mut config = format!(
        "version: 0.1\n\
         log: {{level: info, formatter: text, accesslog: {{disabled: true}}}}\n\
         storage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}\n\
         http:\n  addr: {}\n  secret: tests\n",
        data.display(),
        SocketAddr::new(address(), 0)
    );
    if let Some(authority) = authority {
        let identity = authority.identity();
        let certificate = file("tls.crt", identity.certificate.pem());
        let key = file("tls.key", identity.key.serialize_pem());
        let _ = writeln!(config, "  tls: {{certificate: {certificate}, key: {key}}}");
    }
    match auth {
        Auth::Anonymous => {}
        Auth::Basic => {
            let users = [OWNER, TENANT].map(|user| format!("{}:{}\n", user.name, user.bcrypt));
            let users = file("htpasswd", users.concat());
            let _ = writeln!(
                config,
                "auth: {{htpasswd: {{realm: tests, path: {users}}}}}"
            );
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
