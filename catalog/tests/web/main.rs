//! The HTTP API of catalogs over real connections, with clients that stall or disconnect.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests fail by panicking
#![allow(clippy::indexing_slicing, clippy::missing_panics_doc)]

#[macro_use(assert_rows, with)]
extern crate tests;

#[path = "../../src/testing.rs"]
mod testing;

mod answers;
mod readers;
mod storage;

use std::{fs, net::SocketAddr};

use catalog::{
    Limits, Source,
    http::{self, ContentStore, PutOutcome},
};
use reqwest::{Client, Method, RequestBuilder, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

struct Site {
    shelf: ContentStore,
    dir: TempDir,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    client: Client,
}

/// A response that was read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Site {
    async fn start() -> Self {
        // The client requires a TLS provider, although this connection is not encrypted.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let shelf = ContentStore::open(&dir.path().join("shelf")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = http::serve(listener, shelf.clone(), async {
            let _ = stopped.await;
        });
        Self {
            shelf,
            dir,
            address,
            stop: Some(stop),
            task: tokio::spawn(serving),
            client: Client::builder().no_proxy().build().unwrap(),
        }
    }

    async fn with(text: &str) -> Self {
        let site = Self::start().await;
        site.put("operators", text);
        site
    }

    fn put(&self, name: &str, text: &str) -> PutOutcome {
        let dir = tempfile::tempdir_in(&self.dir).unwrap();
        fs::write(dir.path().join("catalog.json"), text).unwrap();
        let (source, limits) = (Source::Directory(dir.path()), Limits::default());
        self.shelf.put(name, None, source, &limits).unwrap()
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.request(Method::GET, path)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client
            .request(method, format!("http://{}{path}", self.address))
    }

    async fn all(&self) -> Answer {
        answer(self.get("/catalogs/operators/api/v1/all")).await
    }
}

impl Answer {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the names of all blobs in their order.
    fn names(&self) -> Vec<String> {
        let name = |line: &str| {
            let blob: Value = serde_json::from_str(line).unwrap();
            let [schema, name] = ["schema", "name"].map(|key| blob[key].as_str().unwrap_or("-"));
            format!("{schema} {name}")
        };
        self.text().lines().map(name).collect()
    }
}

async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    Answer {
        status: response.status(),
        headers: response.headers().clone(),
        body: response.bytes().await.unwrap().to_vec(),
    }
}

/// Two packages with two bundles each; the keys of the blobs are not sorted.
fn catalog() -> String {
    let blob = |package: &str, schema: &str, name: &str| {
        let names = format!(r#""schema": "{schema}", "package": "{package}", "name": "{name}""#);
        format!("{{{names}, \"z\": 1, \"a\": \"<&>\"}}\n")
    };
    testing::list([("etcd", 0), ("vault", 2)], |(package, first)| {
        let channel = testing::package(package, "stable");
        let name = |at| format!("{package}.v{at}");
        let bundles = [first, first + 1].map(|at| blob(package, "olm.bundle", &name(at)));
        let stable = blob(package, "olm.channel", "stable");
        format!("{channel}\n{stable}{}", bundles.concat())
    })
}

/// A blob that is larger than the minimum for compression.
fn large(text: &str) -> String {
    json!({"schema": "custom", "name": text, "text": text.repeat(5000)}).to_string()
}
