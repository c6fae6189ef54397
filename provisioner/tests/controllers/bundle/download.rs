//! Content over the network, from the shipped program.

use reqwest::{Client, Method};

use super::*;
use crate::content::support;

/// A client with roles of the install file.
pub(super) struct Reader<'a> {
    world: &'a World,
    browser: Client,
    base: String,
    token: String,
}

impl<'a> Reader<'a> {
    pub(super) async fn new(roles: &[&str]) -> Self {
        Self::with_roles(world().await, roles).await
    }

    pub(super) async fn with_roles(world: &'a World, roles: &[&str]) -> Self {
        let (browser, base) = support::visit(world.client(), world.provisioner().await).await;
        support::apply_roles(world.cluster).await;
        let (_, token) = support::account(world.cluster, SYSTEM, roles).await;
        Self {
            world,
            browser,
            base,
            token,
        }
    }

    async fn send(&self, method: Method, path: &str, body: Vec<u8>) -> (StatusCode, Vec<u8>) {
        let url = format!("{}/{path}", self.base);
        let request = self.browser.request(method, url).bearer_auth(&self.token);
        let response = request.body(body).send().await.unwrap();
        (response.status(), response.bytes().await.unwrap().to_vec())
    }

    /// Returns the response from `status.contentURL`.
    pub(super) async fn get(&self, bundle: &Bundle) -> Vec<u8> {
        let url = bundle.status.as_ref().unwrap().content_url.clone().unwrap();
        let (_, path) = url.trim_start_matches("https://").split_once('/').unwrap();
        let (status, body) = self.send(Method::GET, path, Vec::new()).await;
        assert_eq!(status, StatusCode::OK, "{}", String::from_utf8_lossy(&body));
        body
    }

    /// Uploads an archive for a new Bundle. Returns its name, and the response.
    pub(super) async fn put(&self, archive: Vec<u8>) -> (String, StatusCode, Vec<u8>) {
        let name = unique("upload");
        self.world.bundle(&name, "plain", upload(None)).await;
        let path = format!("uploads/{name}.tgz");
        let (status, body) = self.send(Method::PUT, &path, archive).await;
        (name, status, body)
    }
}

pub(super) fn files(archive: &[u8]) -> Vec<String> {
    let unpacked = unpacker::stream(archive, &unpacker::Options::default()).unwrap();
    let paths = unpacked.content.files().map(|(path, _)| path.to_owned());
    paths.collect()
}
