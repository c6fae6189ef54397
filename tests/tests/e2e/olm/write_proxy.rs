//! A proxy between a command and the API server, which interrupts the command at one of its writes.
//!
//! ```text
//!  rukpak ── http ── gate ── https, as the cluster admin ── kube-apiserver
//! ```

use std::{
    collections::BTreeSet,
    fs::File,
    io::{Read as _, Seek as _},
    net::{Ipv4Addr, TcpListener},
    process::Stdio,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

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
use tokio::sync::{Mutex, Notify, oneshot};

use super::{command::command, environment::World};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The interval at which the test checks whether the command has ended.
const MOMENT: Duration = Duration::from_millis(100);

/// The interruption of a command at the first write over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// The command is killed before the write reaches the API server.
    Kill,
    /// The API server executes the write, and all connections are cut before the answer.
    Cut,
}

/// A run through the gate.
#[derive(Debug)]
pub(crate) struct Interrupted {
    pub(crate) run: Run,
    /// False if the command ended within its limit of writes.
    pub(crate) is_interrupted: bool,
}

/// Runs a command, and interrupts it after `writes` writes. The writes of earlier runs in `done` do not count; those of this
/// run are added. Failed writes do not count.
pub(crate) fn interrupted(
    world: &World,
    namespace: &str,
    args: &[&str],
    (writes, how): (usize, Interruption),
    done: &mut BTreeSet<String>,
) -> Interrupted {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let config = world.cluster.config().clone();
    let (notify, reached) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let before = std::mem::take(done);
    // In a separate thread, because the test's thread waits for the command.
    let thread = thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        runtime.block_on(async {
            let gate = Arc::new(Gate {
                client: Client::try_from(config).unwrap(),
                how,
                notify,
                closed: Notify::new(),
                state: Mutex::new(State {
                    left: writes,
                    done: before,
                }),
            });
            tokio::select! {
                _ = stopped => (),
                () = gate.closed.notified() => (),
                () = accept(listener, Arc::clone(&gate)) => (),
            }
            std::mem::take(&mut gate.state.lock().await.done)
        })
    });

    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "gate",
        "clusters": [{"name": "gate", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": "none"}}],
    });
    std::fs::write(kubeconfig.path(), text.to_string()).unwrap();
    let [out, err] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    let mut child = command(kubeconfig.path(), namespace, args)
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(err.try_clone().unwrap())
        .spawn()
        .unwrap();
    let mut is_interrupted = false;
    let status = loop {
        match reached.recv_timeout(MOMENT) {
            Ok(()) => {
                is_interrupted = true;
                if how == Interruption::Kill {
                    child.kill().unwrap();
                }
                break child.wait().unwrap();
            }
            Err(RecvTimeoutError::Disconnected) => break child.wait().unwrap(),
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait().unwrap() {
                    break status;
                }
            }
        }
    };
    drop(stop);
    *done = thread.join().unwrap();
    let run = Run {
        code: status.code(),
        out: text_of(out),
        err: text_of(err),
    };
    Interrupted {
        run,
        is_interrupted,
    }
}

fn text_of(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

struct Gate {
    client: Client,
    how: Interruption,
    /// Notifies the thread that runs the command.
    notify: mpsc::Sender<()>,
    closed: Notify,
    state: Mutex<State>,
}

struct State {
    /// The number of writes that are still allowed.
    left: usize,
    done: BTreeSet<String>,
}

async fn accept(listener: TcpListener, gate: Arc<Gate>) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
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
        // The lock serializes the writes, so that they can be counted.
        let mut state = self.state.lock().await;
        let is_last = state.left == 0 && !state.done.contains(&write);
        if is_last && self.how == Interruption::Kill {
            drop(state);
            return self.end().await;
        }
        let answer = self.forward(Request::from_parts(head, body)).await?;
        if !answer.status().is_success() {
            return Ok(answer);
        }
        if state.done.insert(write) && !is_last {
            state.left -= 1;
        }
        drop(state);
        if is_last {
            self.closed.notify_one();
            return self.end().await;
        }
        Ok(answer)
    }

    /// Never answers.
    async fn end(&self) -> Result<Response<Body>, Failure> {
        // After the first message the receiver no longer exists.
        let _ = self.notify.send(());
        std::future::pending().await
    }

    async fn forward(&self, request: Request<Bytes>) -> Result<Response<Body>, Failure> {
        let sent = self.client.send(request.map(Body::from)).await;
        Ok(sent?)
    }
}
