//! A proxy between a command and the API server, which interrupts the command at one of its writes.
//!
//! ```text
//!  rukpak ── http ── gate ── https, as the cluster admin ── kube-apiserver
//! ```

use std::{collections::BTreeSet, mem, net::Ipv4Addr, process::Stdio, sync::Arc};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{
    Method, Request, Response, body::Incoming, header::HOST, server::conn::http1::Builder,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tests::Run;
use tokio::{
    net::TcpListener,
    process::Command,
    sync::{Mutex, mpsc},
    task::JoinSet,
};

use super::{super::restart::kill, command::Space};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The interruption of a command at the first write over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The command is killed before the write reaches the API server.
    Kill,
    /// The API server executes the write, and all connections are cut before the answer.
    Cut,
}

/// Runs a command, and interrupts it after `writes` writes. The writes of earlier runs in `done` do not count; those of this run
/// are added to `done`. Failed writes do not count. Returns an error if the command did not end within its limit of writes.
pub(crate) async fn interrupted(
    space: &Space,
    args: &[&str],
    (writes, how): (usize, Interruption),
    done: &mut BTreeSet<String>,
) -> Result<Run, Run> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (notify, mut reached) = mpsc::unbounded_channel();
    let state = State {
        left: writes,
        done: mem::take(done),
    };
    let gate = Arc::new(Gate {
        client: space.world.client(),
        how,
        notify,
        state: Mutex::new(state),
    });
    let server = tokio::spawn(accept(listener, Arc::clone(&gate)));

    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "gate",
        "clusters": [{"name": "gate", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": "none"}}],
    });
    std::fs::write(kubeconfig.path(), text.to_string()).unwrap();
    let mut command = Command::from(space.command(kubeconfig.path(), args));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id().unwrap();
    let mut output = std::pin::pin!(child.wait_with_output());
    let (output, is_interrupted) = tokio::select! {
        output = &mut output => (output, false),
        _ = reached.recv() => {
            match how {
                Interruption::Kill => kill(id),
                Interruption::Cut => server.abort(),
            }
            (output.await, true)
        }
    };
    server.abort();
    *done = mem::take(&mut gate.state.lock().await.done);
    let run = Run::from(output.unwrap());
    if is_interrupted { Err(run) } else { Ok(run) }
}

struct Gate {
    client: Client,
    how: Interruption,
    /// Notifies the test, which runs the command.
    notify: mpsc::UnboundedSender<()>,
    state: Mutex<State>,
}

struct State {
    /// The number of writes that are still allowed.
    left: usize,
    done: BTreeSet<String>,
}

/// Serves connections. Aborting the task cuts all of them.
async fn accept(listener: TcpListener, gate: Arc<Gate>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let gate = Arc::clone(&gate);
        connections.spawn(async move {
            let service = service_fn(|request| gate.pass(request));
            // A killed command does not close its connections.
            let _ = Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

impl Gate {
    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Body>, Failure> {
        let (mut head, body) = request.into_parts();
        head.headers.remove(HOST);
        let body = body.collect().await?.to_bytes();
        if matches!(head.method, Method::GET | Method::HEAD) {
            return self.forward(Request::from_parts(head, body)).await;
        }
        // The path of a creation has no name; the content has it.
        let content: Value = serde_json::from_slice(&body).unwrap_or_default();
        let name = content["metadata"]["name"].as_str().unwrap_or_default();
        let path = head.uri.path();
        let write = match head.method {
            Method::POST => format!("POST {path}/{name}"),
            _ => format!("{} {path}", head.method),
        };
        // The lock serializes the writes, so that they can be counted. An interruption never releases the lock.
        let mut state = self.state.lock().await;
        let is_last = state.left == 0 && !state.done.contains(&write);
        if is_last && self.how == Interruption::Kill {
            return self.end().await;
        }
        let answer = self.forward(Request::from_parts(head, body)).await?;
        if !answer.status().is_success() {
            return Ok(answer);
        }
        if state.done.insert(write) && !is_last {
            state.left -= 1;
        }
        if is_last {
            return self.end().await;
        }
        Ok(answer)
    }

    /// Never answers.
    async fn end(&self) -> Result<Response<Body>, Failure> {
        // The receiver does not exist after the end of the command.
        let _ = self.notify.send(());
        std::future::pending().await
    }

    async fn forward(&self, request: Request<Bytes>) -> Result<Response<Body>, Failure> {
        let sent = self.client.send(request.map(Body::from)).await;
        Ok(sent?)
    }
}
