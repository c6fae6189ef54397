//! Git repositories over ssh.

use std::{
    fs,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use tempfile::TempDir;

use crate::{Repository, address, git::isolate, process::program, write_program};

/// OpenSSH's server with one authorized key, which may only fetch from the server's repositories. Dropping the value closes
/// the connections and removes the repositories.
#[derive(Debug)]
pub struct Sshd {
    dir: TempDir,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The only command of the key: a fetch from a repository below the directory. The argument of git's command is the path
/// of the URL, with a leading slash and in quotes.
const COMMAND: &str = r#"#!/bin/sh
eval "set -- $SSH_ORIGINAL_COMMAND"
[ "$1" = git-upload-pack ] || { echo "only fetching is possible here" >&2; exit 1; }
exec git upload-pack "DIRECTORY/$2"
"#;

impl Sshd {
    /// Starts a server with new keys.
    pub fn start() -> Self {
        Self::with("ed25519", "AcceptEnv GIT_PROTOCOL")
    }

    /// Starts a server with keys of this type for itself and its clients, and with one more setting.
    pub fn with(key_type: &str, setting: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("sshd-").tempdir().unwrap();
        let config = configure(dir.path(), key_type, setting);
        let listener = TcpListener::bind((address(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || accept(&listener, &config, &stopped));
        Self {
            dir,
            address,
            stop,
            thread: Some(thread),
        }
    }

    /// Creates an empty repository. Its URL is [`Sshd::url`] of the same name.
    pub fn repository(&self, name: &str) -> Repository {
        Repository::create(self.dir.path(), name)
    }

    /// Returns the URL of a repository, in the form of git.
    pub fn url(&self, name: &str) -> String {
        format!("ssh://{}@{}/{name}", user(), self.address)
    }

    /// Returns `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// Returns the private key that the server accepts.
    pub fn key(&self) -> String {
        self.read("client")
    }

    /// Returns a private key that the server does not accept.
    pub fn strange_key(&self) -> String {
        self.read("stranger")
    }

    /// Returns the line of `known_hosts` with this server's key.
    pub fn known_hosts(&self) -> String {
        self.known_as("host.pub")
    }

    /// Returns a line of `known_hosts` with the key of another server.
    pub fn mistaken_hosts(&self) -> String {
        self.known_as("stranger.pub")
    }

    fn known_as(&self, key: &str) -> String {
        let key = self.read(key);
        format!("[{}]:{} {key}", self.address.ip(), self.address.port())
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The connection wakes the thread.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().unwrap().join();
    }
}

/// Writes keys and settings into the directory, and returns the path of the settings.
fn configure(dir: &Path, key_type: &str, setting: &str) -> PathBuf {
    for name in ["host", "client", "stranger"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", key_type, "-N", "", "-C", name, "-f", name]);
        let status = command.current_dir(dir).status().unwrap();
        assert!(status.success(), "{command:?}");
    }
    // As root, sshd needs this directory, which only an installed service creates.
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        fs::create_dir_all("/run/sshd").unwrap();
    }
    let text = dir.to_str().unwrap();
    let write = |name: &str, content: String| {
        let path = dir.join(name);
        fs::write(&path, content).unwrap();
        path
    };
    write_program(&dir.join("command"), &COMMAND.replace("DIRECTORY", text));
    let key = fs::read_to_string(dir.join("client.pub")).unwrap();
    let key = format!("restrict,command=\"{text}/command\" {key}");
    write("authorized_keys", key);
    // The login shell reads the files of the home directory, which may take long.
    let config = format!(
        "HostKey {text}/host\n\
         AuthorizedKeysFile {text}/authorized_keys\n\
         AuthenticationMethods publickey\n\
         PermitRootLogin yes\n\
         StrictModes no\n\
         UsePAM no\n\
         SetEnv HOME={text}\n\
         {setting}\n\
         PidFile none\n"
    );
    write("sshd_config", config)
}

/// Starts an sshd for each connection, as inetd does, so that this process holds the port from the start.
fn accept(listener: &TcpListener, config: &Path, stop: &AtomicBool) {
    let mut children: Vec<Child> = Vec::new();
    for stream in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let input = stream.unwrap();
        let output = input.try_clone().unwrap();
        let mut command = Command::new(program("sshd"));
        isolate(&mut command)
            .args(["-i", "-e", "-f"])
            .arg(config)
            .stdin(Stdio::from(OwnedFd::from(input)))
            .stdout(Stdio::from(OwnedFd::from(output)))
            .stderr(Stdio::null());
        children.push(command.spawn().unwrap());
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }
    for mut child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Returns the user that runs the tests, the only one that sshd admits.
fn user() -> String {
    let output = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
