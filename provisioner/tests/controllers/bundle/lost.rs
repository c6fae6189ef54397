//! Content that the store has lost, for the conversion of an unpacked Bundle.

use std::path::PathBuf;

use manifests::api::bundle::BundleStatus;
use provisioner::{
    app,
    controllers::{
        bundle::{LoadError, convert},
        context::Context,
    },
    runtime::settings::Settings,
};
use tempfile::TempDir;
use unpacker::{Store, Tree, store::Budget};

use super::*;

/// A Bundle that was unpacked from a server, and a store without an in-memory cache.
struct Lost {
    ctx: Context,
    bundle: Bundle,
    content: Content,
    /// File of the content in the store.
    path: PathBuf,
    server: FileServer,
    _folder: TempDir,
}

impl Lost {
    async fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let budget = Budget {
            disk: 1 << 30,
            memory: 0,
        };
        let store = Store::open(dir.path(), budget).unwrap();
        let config = world().await.cluster.config().clone();
        let settings = Settings {
            follow_openshift: false,
            ..Settings::default()
        };
        let (ctx, _) = app::context(config, settings, store).unwrap();
        let content = small(name);
        let digest = ctx.store.put(&Tree::from_content(content.clone()));
        let digest = digest.unwrap().digest;
        let server = FileServer::start(None, None);
        let source = http(&server.add("bundle.tgz", archive(&content)));
        let mut bundle = bundle(name, "plain", source.clone());
        bundle.status = Some(BundleStatus {
            phase: Some(Phase::Unpacked),
            content_digest: Some(digest.to_string()),
            resolved_source: Some(source),
            ..BundleStatus::default()
        });
        let path = dir.path().join(format!("content/{}.tar", digest.hex()));
        assert!(path.exists());
        Self {
            ctx,
            bundle,
            content,
            path,
            server,
            _folder: dir,
        }
    }

    /// Converts the content to itself.
    async fn convert(&self) -> Result<Content, LoadError> {
        let work = |content: &Content, _| content.clone();
        convert(&self.ctx, &self.bundle, work).await.unwrap()
    }
}

#[tokio::test]
async fn lost_content_is_fetched_again_unless_it_changed() {
    let mut lost = Lost::new("lost").await;
    assert_eq!(lost.convert().await.unwrap(), lost.content);
    std::fs::remove_file(&lost.path).unwrap();
    assert_eq!(lost.convert().await.unwrap(), lost.content, "removed");
    assert!(lost.path.exists());
    std::fs::write(&lost.path, "damaged").unwrap();
    assert_eq!(lost.convert().await.unwrap(), lost.content, "damaged");

    // The server has other content, also if the status lacks the pinned source.
    let bundle = lost.bundle.clone();
    let foreign = archive(&small("foreign content"));
    lost.server.add("bundle.tgz", foreign);
    assert_eq!(lost.convert().await.unwrap(), lost.content, "stored");
    std::fs::remove_file(&lost.path).unwrap();
    for is_pinned in [true, false] {
        if !is_pinned {
            lost.bundle.status.as_mut().unwrap().resolved_source = None;
        }
        let error = lost.convert().await.unwrap_err();
        let LoadError::Fetch { bundle, source } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(bundle, "lost");
        let message = source.to_string();
        assert!(message.contains("this Bundle is pinned"), "{message}");
        assert!(error.is_terminal());
        assert!(!lost.path.exists());
    }

    // The server does not answer.
    lost.bundle = bundle;
    lost.server = FileServer::start(None, None);
    let error = lost.convert().await.unwrap_err();
    assert!(matches!(error, LoadError::Fetch { .. }), "{error:?}");
    lost.bundle.status.as_mut().unwrap().content_digest = None;
    let error = lost.convert().await.unwrap_err();
    assert!(matches!(error, LoadError::NotUnpacked { .. }), "{error:?}");
}
