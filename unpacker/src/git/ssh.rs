//! Git over ssh: one command on the server, whose input and output are ours.

mod login;

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
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
    known_hosts::{KnownHosts, Verdict},
    line::{self, Input},
    talk::{Talk, Way},
};
use crate::{Access, access::Verify, web::printable};
use login::Keys;

/// How much of what a server says beside its answer is kept for messages.
const BESIDE: usize = 2000;

/// What the command gives.
pub(super) struct Reader {
    channel: ChannelReadHalf,
    address: String,
    idle: Duration,
    beside: Vec<u8>,
    status: Option<u32>,
    is_refused: bool,
}

/// What the command gets. The connection lasts as long as this does.
pub(super) struct Writer {
    channel: ChannelWriteHalf<Msg>,
    handle: Handle<Check>,
    address: String,
    idle: Duration,
}

/// Where to, as whom, and what for.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    host: String,
    port: u16,
    user: String,
    command: String,
}

impl Address {
    fn new(url: &Url) -> Result<Self> {
        let decoded = |text: &str, problem| {
            let text = percent_decode_str(text).decode_utf8();
            let text = text.ok().filter(|text| !text.contains(char::is_control));
            text.map(String::from).ok_or(Problem::Address { problem })
        };
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or(Problem::Address {
            problem: "names no host",
        })?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let user = decoded(url.username(), "has a user that cannot be sent")?;
        let path = decoded(url.path(), "has a path that cannot be sent")?;
        // As git does it: `/~name/` is somebody's home folder, which the server's shell knows.
        let path = path
            .strip_prefix('/')
            .filter(|rest| rest.starts_with('~'))
            .unwrap_or(&path);
        if matches!(path, "" | "/") {
            return Err(Problem::Address {
                problem: "names no repository",
            });
        }
        // Nothing ends the quotes but the quote itself; csh takes the exclamation mark for its own within them.
        let quoted = path.replace('\'', "'\\''").replace('!', "'\\!'");
        Ok(Self {
            host: decoded(host, "has a host that cannot be sent")?.to_ascii_lowercase(),
            port: url.port().unwrap_or(22),
            user: if user.is_empty() {
                "git".to_owned()
            } else {
                user
            },
            command: format!("git-upload-pack '{quoted}'"),
        })
    }

    fn shown(&self) -> String {
        match self.port {
            22 => self.host.clone(),
            port if self.host.contains(':') => format!("[{}]:{port}", self.host),
            port => format!("{}:{port}", self.host),
        }
    }
}

/// Logs in, and starts the command.
pub(super) async fn connect(url: &Url, access: &Access) -> Result<Talk> {
    let address = Address::new(url)?;
    let shown = address.shown();
    let patience = &access.patience;
    let ssh = access.ssh.as_ref().ok_or(Problem::KeyNeeded)?;
    let keys = Keys::read(ssh)?;
    let check = Check {
        known: KnownHosts::new(&ssh.known_hosts, &address.host, address.port),
        verify: access.trust.verify,
        shown: shown.clone(),
        verdict: Arc::default(),
    };
    let verdict = Arc::clone(&check.verdict);
    let config = client::Config {
        preferred: Preferred {
            key: algorithms(&check.known).into(),
            ..Preferred::DEFAULT
        },
        nodelay: true,
        ..client::Config::default()
    };
    let failed = |error: russh::Error| {
        let found = verdict
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        found.unwrap_or_else(|| Problem::Ssh {
            host: shown.clone(),
            source: Some(error.into()),
        })
    };
    let unreachable = |source| Problem::Connect {
        host: shown.clone(),
        source,
    };
    let idle = patience.idle;
    let late = |_| Problem::Idle { idle };
    let stream = TcpStream::connect((address.host.as_str(), address.port));
    let stream = timeout(patience.connect, stream)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(unreachable)?;
    let connected = client::connect_stream(Arc::new(config), stream, check);
    let mut handle = timeout(idle, connected)
        .await
        .map_err(late)?
        .map_err(failed)?;

    let mut is_in = false;
    for (tried, (key, hash)) in keys.ways().enumerate() {
        let key = PrivateKeyWithHashAlg::new(key, hash);
        let login = timeout(idle, handle.authenticate_publickey(&address.user, key));
        is_in = match login.await.map_err(late)? {
            Ok(answer) => answer.success(),
            // A server may hang up when too many keys do not fit.
            Err(_) if tried > 0 => false,
            Err(error) => return Err(failed(error)),
        };
        if is_in || handle.is_closed() {
            break;
        }
    }
    if !is_in {
        return Err(Problem::KeyRefused {
            host: shown,
            user: printable(&address.user, 100),
            keys: keys.usable.len(),
            unread: keys.unread,
        });
    }
    let channel = timeout(idle, handle.channel_open_session());
    let channel = channel.await.map_err(late)?.map_err(failed)?;
    // Servers that do not let this through speak an older version.
    channel
        .set_env(false, "GIT_PROTOCOL", "version=2")
        .await
        .map_err(failed)?;
    channel.exec(true, address.command).await.map_err(failed)?;
    let (reader, writer) = channel.split();
    let reader = Reader {
        channel: reader,
        address: shown.clone(),
        idle,
        beside: Vec::new(),
        status: None,
        is_refused: false,
    };
    let writer = Writer {
        channel: writer,
        handle,
        address: shown,
        idle,
    };
    Talk::begin(Way::Ssh(writer), Input::Ssh(reader)).await
}

/// The algorithms of the keys that are known come first, so that the server shows one of those; SHA-1 never.
fn algorithms(known: &KnownHosts) -> Vec<Algorithm> {
    let all = Preferred::DEFAULT.key.iter().cloned();
    let all = all.filter(|algorithm| !matches!(algorithm, Algorithm::Rsa { hash: None }));
    let (mut matching, others): (Vec<_>, Vec<_>) =
        all.partition(|algorithm| known.has_kind(algorithm));
    matching.extend(others);
    matching
}

/// Looks at the server's key.
struct Check {
    known: KnownHosts,
    verify: Verify,
    shown: String,
    /// Why not, for whoever connects.
    verdict: Arc<Mutex<Option<Problem>>>,
}

impl client::Handler for Check {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        if self.verify == Verify::Never {
            return Ok(true);
        }
        // Certificates are not asked for.
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else {
            return Ok(false);
        };
        let host = self.shown.clone();
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        let problem = match self.known.check(key) {
            Verdict::Known => return Ok(true),
            Verdict::Revoked => Problem::HostRevoked { host },
            Verdict::Changed => Problem::HostChanged { host, fingerprint },
            Verdict::Unknown => Problem::HostUnknown {
                host,
                fingerprint,
                line: self.known.line(key),
            },
        };
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(problem);
        Ok(false)
    }
}

impl Reader {
    /// The next bytes of the answer; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            let idle = self.idle;
            let message = timeout(idle, self.channel.wait());
            match message.await.map_err(|_| Problem::Idle { idle })? {
                Some(ChannelMsg::Data { data }) => return Ok(Some(data)),
                Some(ChannelMsg::ExtendedData { data, .. }) => {
                    let left = BESIDE.saturating_sub(self.beside.len());
                    self.beside.extend(data.iter().take(left));
                }
                Some(ChannelMsg::ExitStatus { exit_status }) => self.status = Some(exit_status),
                Some(ChannelMsg::Failure) => {
                    self.is_refused = true;
                    return Ok(None);
                }
                // What is said beside the answer, and how it ended, may come behind its end.
                Some(ChannelMsg::Close) | None => return Ok(None),
                Some(_) => {}
            }
        }
    }

    /// Why there was no answer.
    pub(super) fn last_words(&self) -> Problem {
        let said = printable(&String::from_utf8_lossy(&self.beside), 300);
        match (self.status, said.is_empty()) {
            _ if self.is_refused => Problem::NotGit {
                found: format!("{} runs no commands", self.address),
                media_type: String::new(),
            },
            (Some(127), _) => Problem::NotGit {
                found: format!("{} has no git-upload-pack", self.address),
                media_type: String::new(),
            },
            (_, false) => line::refused(said.as_bytes()),
            _ => Problem::CutShort {
                during: "before the server said anything",
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

    /// Closes the connection in an orderly way, if the server takes part in it.
    pub(super) async fn end(mut self) {
        let _ = self.send(line::FLUSH.to_vec()).await;
        let goodbye = self.handle.disconnect(Disconnect::ByApplication, "", "");
        let _ = timeout(Duration::from_secs(1), goodbye).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_or_user_can_add_to_the_command() {
        let address = |url: &str| Address::new(&url.parse().unwrap());
        for (path, command) in ::tests::rows![
            "org/repo.git" => "'/org/repo.git'";
            "~me/repo" => "'~me/repo'";
            "a%20b" => "'/a b'";
            "a';id;'" => "'/a'\\'';id;'\\'''";
            "a%27$(id)%60id%60" => "'/a'\\''$(id)`id`'";
            "--upload-pack=x" => "'/--upload-pack=x'";
            "!x" => "'/'\\!'x'";
        ] {
            assert_rows!(address(&format!("ssh://h/{path}")).unwrap().command => format!("git-upload-pack {command}"));
        }
        for url in
            "ssh://h/a%0aid ssh://h/a%00 ssh://h/%ff ssh://h/ ssh://h ssh://a%0ab@h/r".split(' ')
        {
            assert!(address(url).is_err(), "{url}");
        }
        assert_eq!(address("ssh://h/r").unwrap().user, "git");
        let odd = address("ssh://-oProxyCommand=x@[::1]:2222/r").unwrap();
        assert_eq!(odd.user, "-oProxyCommand=x");
        assert_eq!((&*odd.host, &*odd.shown()), ("::1", "[::1]:2222"));
    }
}
