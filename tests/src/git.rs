//! Git repositories, and an HTTP server for them.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bytes::Bytes;
use hyper::{Request, Response, StatusCode};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;

use crate::http_server::{Site, header, plain, unauthorized};
use crate::{TestCa, User};

/// A bare repository in a directory of repositories, created by git. Equal content results in equal commits.
#[derive(Debug)]
pub struct Repository {
    path: PathBuf,
}

/// Git's `http-backend` behind a web server. Dropping the value stops the server and removes its repositories.
#[derive(Debug)]
pub struct GitServer {
    dir: TempDir,
    site: Site,
}

/// Makes git ignore the configuration of the machine and the user, and commit with a fixed time.
pub(crate) fn isolate(command: &mut Command) -> &mut Command {
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "tests")
            .env(format!("GIT_{role}_EMAIL"), "tests@localhost")
            .env(format!("GIT_{role}_DATE"), "2026-01-01T00:00:00Z");
    }
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
}

impl Repository {
    pub(crate) fn create(dir: &Path, name: &str) -> Self {
        let path = dir.join(name);
        let repository = Self { path };
        let text = repository.path.to_str().unwrap();
        let init = ["init", "--quiet", "--bare", "--initial-branch=main", text];
        git(Path::new("/"), &init);
        // Clients may fetch commits by hash, as the large public servers allow.
        repository.git(&["config", "uploadpack.allowReachableSHA1InWant", "true"]);
        repository.git(&["config", "uploadpack.allowFilter", "true"]);
        repository
    }

    /// Returns the path of the repository.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Commits all files of a directory to a branch, and returns the commit's hash.
    pub fn commit(&self, branch: &str, content: &Path) -> String {
        let index = tempfile::tempdir().unwrap();
        let run = |args: &[&str]| {
            let mut command = Command::new("git");
            isolate(&mut command)
                .env("GIT_DIR", &self.path)
                .env("GIT_WORK_TREE", content)
                .env("GIT_INDEX_FILE", index.path().join("index"))
                .args(args);
            output(&mut command)
        };
        run(&["add", "--all", "--force", "."]);
        let tree = run(&["write-tree"]);
        let parent = format!("refs/heads/{branch}");
        let mut args = vec!["commit-tree", "-m", "Another state", &tree];
        if !run(&["for-each-ref", &parent]).is_empty() {
            args.extend(["-p", &parent]);
        }
        let commit = run(&args);
        run(&["update-ref", &parent, &commit]);
        commit
    }

    /// Runs git in the repository, and returns its standard output.
    pub fn git(&self, args: &[&str]) -> String {
        git(&self.path, args)
    }
}

fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    isolate(&mut command).current_dir(dir);
    output(command.args(args))
}

fn output(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

impl GitServer {
    /// Starts a server: https with a certificate of the CA, http without a CA. With a user, it requires that user's password.
    pub fn start(user: Option<User>, ca: Option<&TestCa>) -> Self {
        let dir = tempfile::Builder::new().prefix("git-").tempdir().unwrap();
        let root = dir.path().to_owned();
        let site = Site::start(ca, move |request| {
            let root = root.clone();
            async move {
                if user.is_some_and(|user| header(&request, "Authorization") != Some(&user.basic()))
                {
                    return unauthorized();
                }
                backend(&root, request).await
            }
        });
        Self { dir, site }
    }

    /// Creates an empty repository. Its URL is [`GitServer::url`] of the same name.
    pub fn repository(&self, name: &str) -> Repository {
        Repository::create(self.dir.path(), name)
    }

    /// Returns the URL of a repository, in the form of git.
    pub fn url(&self, name: &str) -> String {
        self.site.url(&format!("/{name}"))
    }

    /// Returns `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.site.host()
    }
}

async fn backend(root: &Path, request: Request<Bytes>) -> Response<Bytes> {
    let mut command = Command::new("git");
    isolate(&mut command)
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", request.method().as_str())
        .env("PATH_INFO", request.uri().path())
        .env("QUERY_STRING", request.uri().query().unwrap_or_default())
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("CONTENT_LENGTH", request.body().len().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for (variable, name) in [
        ("CONTENT_TYPE", "Content-Type"),
        ("HTTP_CONTENT_ENCODING", "Content-Encoding"),
        ("GIT_PROTOCOL", "Git-Protocol"),
    ] {
        if let Some(value) = header(&request, name) {
            command.env(variable, value);
        }
    }
    let mut child = tokio::process::Command::from(command).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let body = request.into_body();
    // The program may end before it has read the whole body.
    let feed = tokio::spawn(async move {
        let _ = stdin.write_all(&body).await;
    });
    let output = child.wait_with_output().await.unwrap().stdout;
    let _ = feed.await;
    parse(&output).unwrap_or_else(|| plain(StatusCode::INTERNAL_SERVER_ERROR))
}

/// Parses the output of a CGI program: headers, an empty line, the body.
fn parse(output: &[u8]) -> Option<Response<Bytes>> {
    let end = output.windows(4).position(|four| four == b"\r\n\r\n")?;
    let mut response = Response::builder();
    for line in std::str::from_utf8(&output[..end]).ok()?.lines() {
        let (name, value) = line.split_once(": ")?;
        response = match name {
            "Status" => response.status(value.get(..3)?),
            _ => response.header(name, value),
        };
    }
    let body = Bytes::copy_from_slice(&output[end + 4..]);
    response.body(body).ok()
}
