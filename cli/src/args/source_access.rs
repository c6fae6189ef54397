//! Credentials, trust and timeouts for registries, git and web servers.

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs,
    io::{self, IsTerminal, Read},
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use clap::{ArgAction, Args, ValueHint};
use manifests::image::Reference;
use serde_json::{Value, json};
use unpacker::{
    Access, Source,
    access::{Basic, Secret, Ssh, Trust, Verify},
    http_client::Timeouts,
    registry::{Credentials, Mirrors},
};

use super::{duration, usage};

/// Environment variable for a password that is not in a file.
const PASSWORD_ENV: &str = "RUKPAK_PASSWORD";

/// Maximum size of a file with credentials. A larger file is not one.
const MAX_FILE_SIZE: u64 = 4 << 20;

/// Access to servers. None of it is read if all bundles are on this machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access to registries, git and web servers")]
pub(crate) struct AccessArgs {
    /// Platform to select from a multi-platform image: linux/amd64, linux/arm64/v8 and the like.
    #[arg(long, value_name = "OS/ARCH", value_parser = platform)]
    pub(crate) platform: Option<String>,
    /// Verify servers by certificate or known host key. With false, registries may also use plain HTTP; in URLs, http:// is
    /// for that.
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = true, default_missing_value = "true")]
    tls_verify: bool,
    /// PEM file with CA certificates to trust in addition to those of the system; may be repeated.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    cacert: Vec<PathBuf>,
    /// Mirrors of registries, in the format of podman's registries.conf(5). Default: podman's file of the user, else of the
    /// system, and the files in their registries.conf.d.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    registries_conf: Option<PathBuf>,
    /// JSON file with credentials for registries. Default: $REGISTRY_AUTH_FILE, the files of podman and docker, and their
    /// credential helpers.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    authfile: Option<PathBuf>,
    /// User name for the registry, for git over https, or for the web server; only one of them gets the password.
    #[arg(long, value_name = "NAME", conflicts_with = "authfile")]
    username: Option<String>,
    /// File with the password or token of that user, "-" for standard input. Default: $RUKPAK_PASSWORD.
    #[arg(long, value_name = "FILE", requires = "username", value_hint = ValueHint::FilePath)]
    password_file: Option<PathBuf>,
    /// Private key for git over ssh. Default: ~/.ssh/id_ed25519, id_ecdsa and id_rsa, one after the other. Neither
    /// ssh-agent nor ~/.ssh/config is used.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ssh_key: Option<PathBuf>,
    /// File with the passphrase of that key.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ssh_passphrase_file: Option<PathBuf>,
    /// Known host keys of ssh servers; may be repeated. Default: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    known_hosts: Vec<PathBuf>,
    /// Timeout of one transfer; 0 means no timeout.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration::read)]
    timeout: Duration,
}

impl AccessArgs {
    /// Returns the defaults of all other flags, for commands without these flags.
    pub(crate) fn with_defaults(tls_verify: bool, timeout: Duration) -> Self {
        Self {
            platform: None,
            tls_verify,
            cacert: Vec::new(),
            registries_conf: None,
            authfile: None,
            username: None,
            password_file: None,
            ssh_key: None,
            ssh_passphrase_file: None,
            known_hosts: Vec::new(),
            // At least one second, because messages show the timeout in whole seconds.
            timeout: Duration::from_secs(timeout.as_secs().max(1)),
        }
    }

    /// Reads all files that these sources need. Ends the process if a user has no password.
    ///
    /// # Errors
    /// Returns an error if a named file cannot be read, or the password in it is empty.
    pub(crate) fn read(&self, sources: &[&Source]) -> anyhow::Result<Access> {
        let Self {
            tls_verify,
            cacert,
            timeout,
            ..
        } = self;
        if self.username.is_some() {
            self.guard(sources)
                .unwrap_or_else(|problem| usage(&problem));
        }
        let basic = self.basic()?;
        let images: Vec<&Reference> = sources.iter().filter_map(|source| image(source)).collect();
        let (registries, mirrors) = if images.is_empty() {
            Default::default()
        } else {
            (self.registries(basic.as_ref(), &images)?, self.mirrors()?)
        };
        let is_ssh = |source: &&Source| matches!(source, Source::Git(git) if git.repository.scheme() == "ssh");
        let ssh = if sources.iter().any(is_ssh) {
            Some(self.ssh()?)
        } else {
            None
        };
        let mut roots = String::new();
        for path in cacert {
            roots.push_str(&text(path, "certificates")?);
            roots.push('\n');
        }
        let total = if timeout.is_zero() {
            duration::MAX_DURATION
        } else {
            *timeout
        };
        let default = Timeouts::default();
        Ok(Access {
            basic,
            ssh,
            trust: Trust {
                roots,
                verify: if *tls_verify {
                    Verify::Always
                } else {
                    Verify::Never
                },
            },
            timeouts: Timeouts {
                connect: default.connect.min(total),
                idle: default.idle.min(total),
                total,
                ..default
            },
            registries,
            mirrors,
            ..Access::default()
        })
    }

    /// Checks that the password is sent to one server only, and not unencrypted.
    fn guard(&self, sources: &[&Source]) -> Result<(), String> {
        let mut servers: Vec<String> = Vec::new();
        for source in sources {
            let url = match source {
                Source::Image(image) => {
                    servers.push(image.reference.domain().to_owned());
                    continue;
                }
                Source::Git(git) if git.repository.scheme() != "ssh" => &git.repository,
                Source::Http(http) => &http.url,
                _ => continue,
            };
            let host = url.host_str().unwrap_or_default();
            let server = match url.port() {
                Some(port) => format!("{host}:{port}"),
                None => host.to_owned(),
            };
            if url.scheme() == "http" && self.tls_verify && !is_loopback(host) {
                return Err(format!(
                    "the password would be sent to {server} unencrypted; use https://, or set --tls-verify=false to send it \
                     anyway"
                ));
            }
            servers.push(server);
        }
        servers.sort();
        servers.dedup();
        if servers.len() < 2 {
            return Ok(());
        }
        Err(format!(
            "--username applies to one server, but the sources are on {} servers: {}; specify bundles of one server at \
             a time, or log in to the registries instead",
            servers.len(),
            servers.join(", ")
        ))
    }

    /// Reports whether the password comes from standard input, so that a bundle cannot.
    pub(crate) fn reads_stdin(&self) -> bool {
        self.password_file.as_deref() == Some(Path::new("-"))
    }

    fn basic(&self) -> anyhow::Result<Option<Basic>> {
        let Some(username) = &self.username else {
            return Ok(None);
        };
        let password = match &self.password_file {
            Some(_) if self.reads_stdin() => stdin()?,
            Some(path) => line(&text(path, "the password")?),
            None => {
                let password = std::env::var(PASSWORD_ENV).unwrap_or_default();
                if password.is_empty() {
                    usage(&format!(
                        "--username has no password; set --password-file or ${PASSWORD_ENV}"
                    ));
                }
                password
            }
        };
        if password.is_empty() {
            anyhow::bail!("the password from --password-file is empty; provide a password");
        }
        Ok(Some(Basic {
            username: username.clone(),
            password: Secret::from(password),
        }))
    }

    /// Returns the credentials for registries. A user of --username applies to the registries of these images. Without one,
    /// the user's own credentials are used.
    fn registries(
        &self,
        basic: Option<&Basic>,
        images: &[&Reference],
    ) -> anyhow::Result<Credentials> {
        if let Some(Basic { username, password }) = basic {
            let auth = json!({"username": username, "password": password.reveal()});
            let auths: BTreeMap<&str, &Value> =
                images.iter().map(|image| (image.domain(), &auth)).collect();
            return Ok(Credentials::from_docker_config(
                json!({"auths": auths}).to_string().as_bytes(),
            )?);
        }
        Ok(match &self.authfile {
            Some(path) => Credentials::from_user_file(path)?,
            None => Credentials::from_user_environment()?,
        })
    }

    /// Reads the mirrors. Of two rules for one registry, the first one applies here, and the last one in podman's files, so
    /// that users and drop-in directories can override.
    fn mirrors(&self) -> anyhow::Result<Mirrors> {
        let files = match &self.registries_conf {
            Some(path) => vec![path.clone()],
            None => registries_confs(),
        };
        let lists = files.iter().rev().map(|path| {
            Mirrors::from_registries_conf(&text(path, "mirrors")?).with_context(|| {
                format!(
                    "invalid registries configuration {}; fix it, or set another file with --registries-conf",
                    path.display()
                )
            })
        });
        lists.collect()
    }

    /// Reads the ssh credentials. Keys and hosts that flags name must exist; the default ones may be missing.
    fn ssh(&self) -> anyhow::Result<Ssh> {
        let home = std::env::home_dir().map(|home| home.join(".ssh"));
        let own = |name: &str| home.as_ref().map(|home| home.join(name));
        let key = if let Some(path) = &self.ssh_key {
            text(path, "the ssh key")?
        } else {
            let keys = ["id_ed25519", "id_ecdsa", "id_rsa"].iter();
            let keys = keys.filter_map(|name| text(&own(name)?, "the ssh key").ok());
            keys.collect::<Vec<_>>().join("\n")
        };
        let mut known_hosts = String::new();
        for path in &self.known_hosts {
            known_hosts.push_str(&text(path, "known hosts")?);
            known_hosts.push('\n');
        }
        if self.known_hosts.is_empty() {
            let defaults = [own("known_hosts"), Some("/etc/ssh/ssh_known_hosts".into())];
            for path in defaults.iter().flatten() {
                known_hosts.push_str(&text(path, "known hosts").unwrap_or_default());
                known_hosts.push('\n');
            }
        }
        let passphrase = self
            .ssh_passphrase_file
            .as_ref()
            .map(|path| Ok::<_, anyhow::Error>(line(&text(path, "the passphrase")?).into()));
        Ok(Ssh {
            key: key.into(),
            passphrase: passphrase.transpose()?,
            known_hosts,
        })
    }
}

fn image(source: &Source) -> Option<&Reference> {
    match source {
        Source::Image(image) => Some(&image.reference),
        _ => None,
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Returns the files that podman reads, in its order.
fn registries_confs() -> Vec<PathBuf> {
    let named = std::env::var_os("CONTAINERS_REGISTRIES_CONF").filter(|name| !name.is_empty());
    if let Some(named) = named {
        return vec![named.into()];
    }
    let config = match std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()) {
        Some(config) => Some(PathBuf::from(config)),
        None => std::env::home_dir().map(|home| home.join(".config")),
    };
    let roots = ["/etc".into()].into_iter().chain(config);
    let roots: Vec<PathBuf> = roots.map(|root: PathBuf| root.join("containers")).collect();
    let mains = roots.iter().map(|root| root.join("registries.conf"));
    let mut files: Vec<PathBuf> = mains.filter(|path| path.is_file()).collect();
    // The user's file replaces the system's; the files in the directories are added.
    files.drain(..files.len().saturating_sub(1));
    for root in &roots {
        let entries = fs::read_dir(root.join("registries.conf.d"))
            .into_iter()
            .flatten();
        let mut more: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        more.retain(|path| path.extension().is_some_and(|ending| ending == "conf"));
        more.sort();
        files.append(&mut more);
    }
    files
}

fn platform(text: &str) -> Result<String, &'static str> {
    let is_word = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
    };
    let parts: Vec<&str> = text.split('/').collect();
    if matches!(parts.len(), 2 | 3) && parts.into_iter().all(is_word) {
        Ok(text.to_owned())
    } else {
        Err("use OS/ARCH or OS/ARCH/VARIANT, such as linux/amd64")
    }
}

fn text(path: &Path, subject: impl Display) -> anyhow::Result<String> {
    let failed = || format!("failed to read {subject} from {}", path.display());
    let file = fs::File::open(path).with_context(failed)?;
    bounded(file).with_context(failed)
}

fn stdin() -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        anyhow::bail!(
            "--password-file - reads standard input, but standard input is a terminal and would show the password; pipe the \
             password in"
        );
    }
    let text =
        bounded(io::stdin().lock()).context("failed to read the password from standard input")?;
    Ok(line(&text))
}

fn bounded(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(MAX_FILE_SIZE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_SIZE {
        return Err(io::Error::other(
            "too large; check that this is the right file",
        ));
    }
    Ok(text)
}

/// Removes the line break that editors add at the end of a file, and that is not part of a password.
fn line(text: &str) -> String {
    text.trim_end_matches(['\r', '\n']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(flags: &str) -> AccessArgs {
        let flags: Vec<&str> = flags.split_whitespace().collect();
        crate::testing::parse(&flags).unwrap()
    }

    fn sources(names: &[&str]) -> Vec<Source> {
        let sources = names
            .iter()
            .map(|name| Source::parse(name, |_| false).unwrap());
        sources.collect()
    }

    #[test]
    fn access_flags_set_trust_and_credentials() {
        let dir = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = dir.path().join(text);
            fs::write(&path, format!("{text}\n")).unwrap();
            path.display().to_string()
        };
        let [one, two, key, hosts, more, word] =
            ["one", "two", "key", "known", "more", "word"].map(file);
        let flags = format!(
            "--cacert {one} --cacert {two} --ssh-key {key} --known-hosts {hosts} --known-hosts {more} --ssh-passphrase-file {word} \
             --username me --password-file {word} --tls-verify=false --timeout 1"
        );
        let sources = sources(&["git+ssh://git@h.example/repo", "quay.io/a/b:v1"]);
        let found = args(&flags).read(&sources.iter().collect::<Vec<_>>());
        let found = found.unwrap();
        let secret = |text: &str| Secret::from(text.to_owned());
        let (roots, hosts) = ("one\n\ntwo\n\n", "known\n\nmore\n\n");
        let basic = Basic {
            username: "me".to_owned(),
            password: secret("word"),
        };
        let login = br#"{"auths": {"quay.io": {"username": "me", "password": "word"}}}"#;
        ::tests::assert_rows! {
            found.trust => ::tests::with!(Trust::default() => roots: roots.to_owned(), verify: Verify::Never);
            found.ssh => Some(::tests::with!(Ssh::default() =>
                key: secret("key\n"), passphrase: Some(secret("word")), known_hosts: hosts.to_owned()
            ));
            found.basic => Some(basic);
            found.registries => Credentials::from_docker_config(login).unwrap();
        }
        assert_eq!(found.timeouts.total, Duration::from_secs(1));
        let auth = dir.path().join("auth.json");
        let login = br#"{"auths": {"quay.io": {"auth": "bWU6d29yZA=="}}}"#;
        fs::write(&auth, login).unwrap();
        let found = args(&format!("--authfile {}", auth.display())).read(&[&sources[1]]);
        ::tests::assert_rows!(found.unwrap().registries => Credentials::from_user_file(&auth).unwrap());
        let empty = dir.path().join("empty");
        fs::write(&empty, "\n").unwrap();
        let flags = format!("--username me --password-file {}", empty.display());
        let refused = args(&flags).read(&[]).unwrap_err().to_string();
        ::tests::assert_rows!(refused => "the password from --password-file is empty; provide a password");

        let place =
            crate::source::from_name("quay.io/a/b:v1", &args("--platform linux/arm64")).location;
        let Ok(Source::Image(image)) = place else {
            panic!("{place:?}");
        };
        assert_eq!(image.platform.as_deref(), Some("linux/arm64"));
    }

    #[test]
    fn timeouts_are_durations_or_seconds() {
        let default = Timeouts::default().total.as_secs();
        ::tests::assert_each!(|flags, expected| args(flags).read(&[]).unwrap().timeouts.total.as_secs() => expected;
            "" => default;
            "--timeout 90" => 90;
            "--timeout 1m30s" => 90;
            "--timeout 0" => duration::MAX_DURATION.as_secs();
        );
    }

    #[test]
    fn password_goes_to_one_server_and_is_encrypted() {
        let image = "localhost:5000/tide:v1";
        let two = |other: &str| {
            Err(format!(
                "--username applies to one server, but the sources are on 2 servers: {other}, localhost:5000; specify \
                 bundles of one server at a time, or log in to the registries instead"
            ))
        };
        let plain = Err(
            "the password would be sent to h.example unencrypted; use https://, or set --tls-verify=false to send it anyway"
                .to_owned(),
        );
        ::tests::assert_each!(|names, flags, expected| args(flags).guard(&sources(names).iter().collect::<Vec<_>>()) => expected;
            &[image, "localhost:5000/wave:v1"][..], "" => Ok(());
            &[image, "http://localhost:5000/tide.tgz"], "" => Ok(());
            &[image, "git+ssh://git@h.example/repo", "oci:layout"], "" => Ok(());
            &["https://h.example/tide.tgz"], "" => Ok(());
            &["http://h.example/tide.tgz"], "--tls-verify=false" => Ok(());
            &[image, "http://127.0.0.2/tide.tgz"], "" => two("127.0.0.2");
            &[image, "git+http://127.0.0.2/tide.git"], "" => two("127.0.0.2");
            &[image, "127.0.0.2:80/tide:v1"], "" => two("127.0.0.2:80");
            &["http://h.example/tide.tgz?k=hidden"], "" => plain.clone();
            &["git+http://h.example/r"], "" => plain.clone();
        );
    }
}
