//! An HTTP server for files.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use hyper::{Method, Request, Response, StatusCode};

use crate::http_server::{Site, header, plain, unauthorized};
use crate::{TestCa, User};

const NOT_FOUND: &str = "the archive of this department has no such file";

/// An HTTP server for files that tests add.
#[derive(Debug)]
pub struct FileServer {
    site: Site,
    files: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl FileServer {
    /// Starts a server: https with a certificate of the CA, http without a CA. With a user, it requires that user's password.
    pub fn start(user: Option<User>, ca: Option<&TestCa>) -> Self {
        let files = Arc::new(Mutex::new(BTreeMap::new()));
        let shared = Arc::clone(&files);
        let site = Site::start(ca, move |request| {
            let answer = answer(&request, user, &shared);
            async move { answer }
        });
        Self { site, files }
    }

    /// Adds a file, and returns its URL.
    pub fn add(&self, name: &str, content: impl Into<Bytes>) -> String {
        let path = format!("/{name}");
        let url = self.site.url(&path);
        self.files.lock().unwrap().insert(path, content.into());
        url
    }

    /// Returns `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.site.host()
    }
}

fn answer(
    request: &Request<Bytes>,
    user: Option<User>,
    files: &Mutex<BTreeMap<String, Bytes>>,
) -> Response<Bytes> {
    if user.is_some_and(|user| header(request, "Authorization") != Some(&user.basic())) {
        return unauthorized();
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        return plain(StatusCode::METHOD_NOT_ALLOWED);
    }
    if let Some(content) = files.lock().unwrap().get(request.uri().path()) {
        return Response::new(content.clone());
    }
    let mut response = Response::new(Bytes::from_static(NOT_FOUND.as_bytes()));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
