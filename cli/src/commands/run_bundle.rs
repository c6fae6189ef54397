//! `rukpak run bundle`, `rukpak run bundle-upgrade` and `rukpak cleanup`.
//!
//! ```text
//! BUNDLE-IMAGE ─ images ─► bundle and its info ─┐
//! --index-image ─ images ─► index ──────────────┼─ catalog::compose::compose ─► a valid catalog, or an error
//! annotations ─ history ─► earlier bundles ─────┘                                    │
//! APIs of the cluster ───── engine ─┬► native: one BundleInstance ◄──────────────────┤
//!                                   └► olm: a CatalogSource, a Subscription ◄────────┘
//! ```
//!
//! This module has the code that both engines share. Each engine has a module with its own code.

mod constraints;
mod deadline;
mod diagnostics;
mod engine;
mod images;
mod native;
mod olm;

use std::{cell::RefCell, time::Duration};

use anyhow::{Context, anyhow, bail};
use catalog::compose::{
    DEFAULT_INDEX, Index,
    history::{History, INDEX_IMAGE, Mode},
};

use unpacker::source::Image;

use self::{
    deadline::Deadline,
    engine::DetectedEngine,
    images::{ImagePuller, PulledIndex},
};
use crate::{
    ExitStatus,
    args::{
        self, CleanupArgs, ClusterArgs, RegistryArgs, RunArgs, RunBundleArgs, RunCommand,
        RunUpgradeArgs,
    },
    cluster::{self, Cluster},
    output::message,
    source,
};

/// Context of one command.
struct RunContext<'a> {
    cluster: &'a Cluster,
    deadline: Deadline,
    /// Note about the state that an error or a signal leaves in the cluster; `None` until the first change.
    pending_cleanup: &'a RefCell<Option<String>>,
}

impl RunContext<'_> {
    /// Sets the note about the state that an error or a signal leaves from now on.
    fn set_interrupt_message(&self, note: String) {
        *self.pending_cleanup.borrow_mut() = Some(note);
    }
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<ExitStatus> {
    match &args.command {
        RunCommand::Bundle(args) => {
            let (registry, failed) = (&args.registry, "Failed to run bundle");
            with(&registry.cluster, registry.timeout, failed, async |task| {
                Box::pin(bundle(task, args)).await
            })
        }
        RunCommand::BundleUpgrade(args) => {
            let (registry, failed) = (&args.registry, "Failed to run bundle upgrade");
            with(&registry.cluster, registry.timeout, failed, async |task| {
                Box::pin(upgrade(task, args)).await
            })
        }
    }
}

pub(crate) fn cleanup(args: &CleanupArgs) -> anyhow::Result<ExitStatus> {
    let failed = "Cleanup operator";
    with(&args.cluster, args.timeout, failed, async |task| {
        let request = engine::EngineRequest {
            engine: args.engine,
            package: &args.package,
            namespace: olm::namespace(task.cluster, args.namespace.as_deref()),
            removed_from: args.namespace.as_deref(),
        };
        let found = engine::find(task.cluster, request);
        match task.deadline.read_cluster(found).await? {
            DetectedEngine::Native => Box::pin(native::cleanup(task, args)).await,
            DetectedEngine::Olm => Box::pin(olm::cleanup(task, args)).await,
        }
    })
}

/// Runs a command with a deadline, which includes the time for connecting to the cluster.
fn with(
    args: &ClusterArgs,
    timeout: Duration,
    failed: &'static str,
    work: impl AsyncFnOnce(&RunContext<'_>) -> anyhow::Result<ExitStatus>,
) -> anyhow::Result<ExitStatus> {
    let pending_cleanup = RefCell::new(None);
    let deadline = Deadline::after(timeout);
    let on_signal = || interrupted(&pending_cleanup);
    let done = cluster::block_on(on_signal, async {
        let connecting = Cluster::connect(args);
        let doing = "connecting to the cluster";
        let cluster = deadline.run_to_end(doing, connecting).await?;
        let task = RunContext {
            cluster: &cluster,
            deadline,
            pending_cleanup: &pending_cleanup,
        };
        work(&task).await
    });
    with_resume_hint(done, &pending_cleanup).context(failed)
}

/// Prints the note about the remaining state if the command failed. Without a change, it prints nothing.
fn with_resume_hint(
    done: anyhow::Result<ExitStatus>,
    pending_cleanup: &RefCell<Option<String>>,
) -> anyhow::Result<ExitStatus> {
    if done.is_err()
        && let Some(pending_cleanup) = &*pending_cleanup.borrow()
    {
        message::note(pending_cleanup);
    }
    done
}

fn interrupted(pending_cleanup: &RefCell<Option<String>>) {
    let pending_cleanup = pending_cleanup.borrow();
    message::note(pending_cleanup.as_deref().unwrap_or("no changes were made"));
}

async fn find(
    task: &RunContext<'_>,
    args: &RegistryArgs,
    package: &str,
) -> anyhow::Result<DetectedEngine> {
    let request = engine::EngineRequest {
        engine: args.engine,
        package,
        namespace: olm::namespace(task.cluster, args.namespace.as_deref()),
        removed_from: None,
    };
    engine::find(task.cluster, request).await
}

async fn bundle(task: &RunContext<'_>, args: &RunBundleArgs) -> anyhow::Result<ExitStatus> {
    let image = source::target(&args.image);
    let index_image = source::target(&args.index_image);
    let puller = ImagePuller::new(&args.registry, task.deadline);
    let pulled = puller.bundle(image).await?;
    let found = find(task, &args.registry, &pulled.bundle.package);
    let found = task.deadline.read_cluster(found).await?;
    let supported = &pulled.facts.install_modes;
    let namespace = target_namespace(
        found,
        args.registry.namespace.as_deref(),
        SuggestedNamespaces {
            context: &task.cluster.config.default_namespace,
            bundle: &pulled.facts.install_namespace,
        },
    );
    let mode = args.install_mode.as_ref();
    crate::args::install_mode::check(mode, &pulled.bundle.name, supported, namespace)?;
    let index_name = index_image.reference.to_string();
    let index = index(&puller, &index_name, index_image, args.registry.mode).await?;
    match found {
        DetectedEngine::Native => Box::pin(native::bundle(task, args, pulled, index)).await,
        DetectedEngine::Olm => Box::pin(olm::bundle(task, args, pulled, index)).await,
    }
}

/// Suggested namespaces, for a command without `--namespace`.
#[derive(Debug, Clone, Copy)]
struct SuggestedNamespaces<'a> {
    /// Namespace of the kubeconfig's context.
    context: &'a str,
    /// Namespace that the bundle suggests.
    bundle: &'a str,
}

/// Returns the namespace of an operator.
fn target_namespace<'a>(
    found: DetectedEngine,
    requested: Option<&'a str>,
    suggested: SuggestedNamespaces<'a>,
) -> &'a str {
    requested.unwrap_or(match found {
        DetectedEngine::Olm => suggested.context,
        DetectedEngine::Native => suggested.bundle,
    })
}

async fn upgrade(task: &RunContext<'_>, args: &RunUpgradeArgs) -> anyhow::Result<ExitStatus> {
    let image = source::target(&args.image);
    let puller = ImagePuller::new(&args.registry, task.deadline);
    let pulled = puller.bundle(image).await?;
    let found = find(task, &args.registry, &pulled.bundle.package);
    match task.deadline.read_cluster(found).await? {
        DetectedEngine::Native => Box::pin(native::upgrade(task, args, &puller, pulled)).await,
        DetectedEngine::Olm => Box::pin(olm::upgrade(task, args, &puller, pulled)).await,
    }
}

/// Reads an index image, unless it stands for no index or for an empty one. Only a database index supports a mode.
async fn index<'n>(
    puller: &ImagePuller,
    name: &'n str,
    image: Image,
    mode: Option<Mode>,
) -> anyhow::Result<Option<Index<'n>>> {
    let read = match IndexKind::new(name, &image) {
        IndexKind::Default => None,
        IndexKind::Empty => Some(PulledIndex::empty()),
        IndexKind::Index => {
            let note = format!("Rendering a File-Based Catalog of the Index Image {name:?}");
            message::note(&note);
            Some(puller.index(image).await?)
        }
    };
    if mode.is_some() && !read.as_ref().is_some_and(|index| index.is_database) {
        bail!(
            "specifying the bundle add mode is not supported for File-Based Catalog bundles and index images; leave out --mode"
        );
    }
    Ok(read.map(|index| Index {
        name,
        rendered: index.rendered,
    }))
}

/// Kind of an index image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IndexKind {
    /// The default of the flag, which means no index.
    Default,
    /// opm itself, which means an empty index: the database of operator-sdk's earlier versions as soon as a bundle is
    /// added.
    Empty,
    /// Image with a catalog.
    Index,
}

// === impl IndexKind ===

impl IndexKind {
    fn new(name: &str, image: &Image) -> Self {
        let reference = &image.reference;
        match (name, reference.domain(), reference.path()) {
            (DEFAULT_INDEX, ..) => Self::Default,
            (_, "quay.io", "operator-framework/opm") => Self::Empty,
            _ => Self::Index,
        }
    }
}

/// Reads the index that the annotations name, like [`index`].
async fn index_of<'h>(
    puller: &ImagePuller,
    history: &'h History,
    mode: Option<Mode>,
) -> anyhow::Result<Option<Index<'h>>> {
    let name = history.index_image();
    index(puller, name, recorded_index(name)?, mode).await
}

/// Parses the name of an index that the cluster records. The image of a CatalogSource may be a template, which OLM fills
/// in.
fn recorded_index(name: &str) -> anyhow::Result<Image> {
    Image::parse(name).map_err(|error| {
        anyhow!(
            "failed to read the index image recorded in the cluster: {error}; set annotation {INDEX_IMAGE} to a readable \
             image"
        )
    })
}

/// Returns a command in quotes, for the user to copy.
fn command(arguments: &str) -> String {
    format!("\"{} {arguments}\"", args::name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn olm_ignores_the_namespace_that_the_bundle_suggests() {
        let [context, bundle, requested] = ["context", "bundle", "requested"];
        let suggested = SuggestedNamespaces { context, bundle };
        ::tests::assert_rows! {
            target_namespace(DetectedEngine::Olm, None, suggested) => context;
            target_namespace(DetectedEngine::Native, None, suggested) => bundle;
            target_namespace(DetectedEngine::Olm, Some(requested), suggested) => requested;
            target_namespace(DetectedEngine::Native, Some(requested), suggested) => requested;
        }
    }

    // parity: sdk-23
    #[test]
    fn opm_image_is_an_empty_index() {
        let digest = "0".repeat(64);
        for (name, expected) in ::tests::rows![
            "quay.io/operator-framework/opm:latest" => IndexKind::Default;
            "docker://quay.io/operator-framework/opm" => IndexKind::Default;
            "quay.io/operator-framework/opm:v1.30.0" => IndexKind::Empty;
            &format!("quay.io/operator-framework/opm@sha256:{digest}") => IndexKind::Empty;
            "quay.io/operator-framework/opm/index:v1" => IndexKind::Index;
            "quay.io/operatorhubio/catalog:latest" => IndexKind::Index;
            "example.com/operator-framework/opm:v1.30.0" => IndexKind::Index;
        ] {
            let image = Image::parse(name).unwrap();
            let name = image.reference.to_string();
            assert_eq!(IndexKind::new(&name, &image), expected, "{name}");
        }
        // operator-sdk creates a database for this index, so it accepts a mode.
        assert!(PulledIndex::empty().is_database);
    }

    #[test]
    fn malformed_recorded_index_is_rejected() {
        assert!(recorded_index("quay.io/example/index:v1").is_ok());
        assert!(recorded_index(DEFAULT_INDEX).is_ok());
        for name in [
            "quay.io/example/index:v{kube_major_version}.{kube_minor_version}",
            "index",
            "a b",
            "",
            "https://example.com/x.tgz",
        ] {
            let expected = "failed to read the index image recorded in the cluster: \
                            *operators.operatorframework.io/index-image*";
            ::tests::table::assert_outcome(recorded_index(name).map(drop), Err(expected), name);
        }
    }
}
