//! Git over ssh: runs one command on the server and uses its standard input and output.

mod keys;

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use russh::{
    ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Disconnect, Preferred,
    client::{self, Handle, Msg},
    keys::{Algorithm, HashAlg, PrivateKeyWithHashAlg, PublicKeyOrCertificate},
};
use tokio::{net::TcpStream, time::timeout};
use url::Url;

use super::{
    error::{Problem, Result},
    known_hosts::{KeyCheck, KnownHosts},
    pkt_line::{self, ByteSource},
    protocol::{GitConnection, Transport},
};
use crate::{Access, http_client::printable, trust::Verify};
use keys::Keys;

/// Maximum number of bytes of standard error that are stored for messages.
const MAX_STDERR: usize = 2000;

/// The standard output of the command.
pub(super) struct Reader {
    channel: ChannelReadHalf,
    address: String,
    idle: Duration,
    stderr: Vec<u8>,
    status: Option<u32>,
    is_refused: bool,
}

/// The standard input of the command. The connection lasts until it is dropped.
pub(super) struct Writer {
    channel: ChannelWriteHalf<Msg>,
    handle: Handle<HostKeyCheck>,
    address: String,
    idle: Duration,
}

/// The server, the user, and the command to run.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
    user: String,
    command: String,
}

impl Address {
    fn new(url: &Url) -> Result<Self> {
        let decode = |text: &str, problem| {
            let text = percent_decode_str(text).decode_utf8();
            let text = text.ok().filter(|text| !text.contains(char::is_control));
            text.map(String::from).ok_or(Problem::Address { problem })
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or(Problem::Address {
            problem: "has no host",
        })?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let user = decode(url.username(), "has an invalid user name")?;
        let path = decode(url.path(), "has an invalid path")?;
        // As in git, `/~name/` is a home directory, which the shell of the server expands.
        let path = path
            .strip_prefix('/')
            .filter(|path| path.starts_with('~'))
            .unwrap_or(&path);
        if matches!(path, "" | "/") {
            return Err(Problem::Address {
                problem: "has no repository path",
            });
        }
        // Only a quote ends a quoted string, but csh interprets the exclamation mark within quotes.
        let quoted = path.replace('\'', "'\\''").replace('!', "'\\!'");
        Ok(Self {
            host: decode(host, "has an invalid host")?.to_ascii_lowercase(),
            port: url.port().unwrap_or(22),
            user: if user.is_empty() {
                "git".to_owned()
            } else {
                user
            },
            command: format!("git-upload-pack '{quoted}'"),
        })
    }

    fn host_and_port(&self) -> String {
        match self.port {
            22 => self.host.clone(),
            port if self.host.contains(':') => format!("[{}]:{port}", self.host),
            port => format!("{}:{port}", self.host),
        }
    }
}

/// Logs in and starts the command.
pub(super) async fn connect(url: &Url, access: &Access) -> Result<GitConnection> {
    let address = Address::new(url)?;
    let host = address.host_and_port();
    let timeouts = &access.timeouts;
    let ssh = access.ssh.as_ref().ok_or(Problem::KeyNeeded)?;
    let keys = Keys::read(ssh)?;
    let check = HostKeyCheck {
        known: KnownHosts::new(&ssh.known_hosts, &address.host, address.port),
        verify: access.trust.verify,
        host: host.clone(),
        problem: Arc::default(),
    };
    let key_problem = Arc::clone(&check.problem);
    let config = client::Config {
        preferred: Preferred {
            key: algorithms(&check.known).into(),
            ..Preferred::DEFAULT
        },
        nodelay: true,
        ..client::Config::default()
    };
    let failed = |error: russh::Error| {
        let problem = key_problem.lock().take();
        problem.unwrap_or_else(|| Problem::Ssh {
            host: host.clone(),
            source: Some(error.into()),
        })
    };
    let unreachable = |source| Problem::Connect {
        host: host.clone(),
        source,
    };
    let idle = timeouts.idle;
    let timed_out = |_| Problem::Idle { idle };
    let stream = TcpStream::connect((address.host.as_str(), address.port));
    let stream = timeout(timeouts.connect, stream)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(unreachable)?;
    let connected = client::connect_stream(Arc::new(config), stream, check);
    let mut handle = timeout(idle, connected)
        .await
        .map_err(timed_out)?
        .map_err(failed)?;

    let mut is_logged_in = false;
    for (attempt, (key, hash)) in keys.auth_methods().enumerate() {
        let key = PrivateKeyWithHashAlg::new(key, hash);
        let login = timeout(idle, handle.authenticate_publickey(&address.user, key));
        is_logged_in = match login.await.map_err(timed_out)? {
            Ok(answer) => answer.success(),
            // Some servers close the connection after several rejected keys.
            Err(_) if attempt > 0 => false,
            Err(error) => return Err(failed(error)),
        };
        if is_logged_in || handle.is_closed() {
            break;
        }
    }
    if !is_logged_in {
        return Err(Problem::KeyRefused {
            host,
            user: printable(&address.user, 100),
            keys: keys.loaded.len(),
            unread: keys.load_error,
        });
    }
    let channel = timeout(idle, handle.channel_open_session());
    let channel = channel.await.map_err(timed_out)?.map_err(failed)?;
    // Servers that do not accept this variable use an older version of the protocol.
    channel
        .set_env(false, "GIT_PROTOCOL", "version=2")
        .await
        .map_err(failed)?;
    channel.exec(true, address.command).await.map_err(failed)?;
    let (reader, writer) = channel.split();
    let reader = Reader {
        channel: reader,
        address: host.clone(),
        idle,
        stderr: Vec::new(),
        status: None,
        is_refused: false,
    };
    let writer = Writer {
        channel: writer,
        handle,
        address: host,
        idle,
    };
    GitConnection::connect(Transport::Ssh(writer), ByteSource::Ssh(reader)).await
}

/// Returns the host key algorithms. Those of known keys come first, so that the server presents a known key. SHA-1 is
/// never used.
fn algorithms(known_hosts: &KnownHosts) -> Vec<Algorithm> {
    let supported = Preferred::DEFAULT.key.iter().cloned();
    let supported =
        supported.filter(|algorithm| !matches!(algorithm, Algorithm::Rsa { hash: None }));
    let (mut matching, others): (Vec<_>, Vec<_>) =
        supported.partition(|algorithm| known_hosts.has_kind(algorithm));
    matching.extend(others);
    matching
}

/// A check of the host key.
struct HostKeyCheck {
    known: KnownHosts,
    verify: Verify,
    host: String,
    /// Reason for a rejected host key, for the error of the connection.
    problem: Arc<Mutex<Option<Problem>>>,
}

impl client::Handler for HostKeyCheck {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        if self.verify == Verify::Never {
            return Ok(true);
        }
        // The client does not request certificates.
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else {
            return Ok(false);
        };
        let host = self.host.clone();
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        let problem = match self.known.check(key) {
            KeyCheck::KnownKey => return Ok(true),
            KeyCheck::Revoked => Problem::HostRevoked { host },
            KeyCheck::Changed => Problem::HostChanged { host, fingerprint },
            KeyCheck::Unknown => Problem::HostUnknown {
                host,
                fingerprint,
                line: self.known.line(key),
            },
        };
        *self.problem.lock() = Some(problem);
        Ok(false)
    }
}

impl Reader {
    /// Returns the next bytes of the output, or `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let idle = self.idle;
            let message = timeout(idle, self.channel.wait());
            match message.await.map_err(|_| Problem::Idle { idle })? {
                Some(ChannelMsg::Data { data }) => return Ok(Some(data)),
                Some(ChannelMsg::ExtendedData { data, .. }) => {
                    let remaining = MAX_STDERR.saturating_sub(self.stderr.len());
                    self.stderr.extend(data.iter().take(remaining));
                }
                Some(ChannelMsg::ExitStatus { exit_status }) => self.status = Some(exit_status),
                Some(ChannelMsg::Failure) => {
                    self.is_refused = true;
                    return Ok(None);
                }
                // Standard error and the exit status may arrive after the end of the output, so only the end of the
                // channel ends the loop.
                Some(ChannelMsg::Close) | None => return Ok(None),
                Some(_) => {}
            }
        }
    }

    /// Returns the error for a command without output.
    pub(super) fn remote_message(&self) -> Problem {
        let message = printable(&String::from_utf8_lossy(&self.stderr), 300);
        match (self.status, message.is_empty()) {
            _ if self.is_refused => Problem::NotGit {
                found: format!("{} does not run commands", self.address),
                media_type: String::new(),
            },
            (Some(127), _) => Problem::NotGit {
                found: format!("{} has no git-upload-pack", self.address),
                media_type: String::new(),
            },
            (_, false) => pkt_line::refused(message.as_bytes()),
            _ => Problem::Disconnected {
                during: "before the server sent anything",
            },
        }
    }
}

impl Writer {
    pub(super) async fn send(&mut self, bytes: Vec<u8>) -> Result<()> {
        let idle = self.idle;
        let sent = timeout(idle, self.channel.data_bytes(bytes)).await;
        let sent = sent.map_err(|_| Problem::Idle { idle })?;
        sent.map_err(|error| Problem::Ssh {
            host: self.address.clone(),
            source: Some(error.into()),
        })
    }

    /// Closes the connection in an orderly way if the server cooperates.
    pub(super) async fn end(mut self) {
        let _ = self.send(pkt_line::FLUSH.to_vec()).await;
        let disconnect = self.handle.disconnect(Disconnect::ByApplication, "", "");
        let _ = timeout(Duration::from_secs(1), disconnect).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_or_user_can_add_to_the_command() {
        let address = |url: &str| Address::new(&url.parse().unwrap());
        assert_each!(|path, command| address(&format!("ssh://h/{path}")).unwrap().command => format!("git-upload-pack {command}");
            "org/repo.git" => "'/org/repo.git'";
            "~me/repo" => "'~me/repo'";
            "a%20b" => "'/a b'";
            "a';id;'" => "'/a'\\'';id;'\\'''";
            "a%27$(id)%60id%60" => "'/a'\\''$(id)`id`'";
            "--upload-pack=x" => "'/--upload-pack=x'";
            "!x" => "'/'\\!'x'";
        );
        for url in
            "ssh://h/a%0aid ssh://h/a%00 ssh://h/%ff ssh://h/ ssh://h ssh://a%0ab@h/r".split(' ')
        {
            assert!(address(url).is_err(), "{url}");
        }
        assert_eq!(address("ssh://h/r").unwrap().user, "git");
        let odd = address("ssh://-oProxyCommand=x@[::1]:2222/r").unwrap();
        assert_rows!((&*odd.user, &*odd.host, &*odd.host_and_port()) => ("-oProxyCommand=x", "::1", "[::1]:2222"));
    }
}
