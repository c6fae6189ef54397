//! `rukpak run bundle`, `rukpak run bundle-upgrade` and `rukpak cleanup`.
//!
//! ```text
//! BUNDLE-IMAGE ─ pulling ─► bundle, facts ──┐
//! --index-image ─ pulling ─► index ─────────┼─ catalog::inject::compose ─► a valid catalog, or why there is none
//! annotations ─ history ─► earlier bundles ─┘                                    │
//! what the cluster serves ─ engine ─┬► native: one BundleInstance ◄─────────────┤
//!                                   └► olm: a CatalogSource, a Subscription ◄──┘
//! ```
//!
//! What both engines need stands here; each has a folder of its own.

mod deadline;
mod demands;
mod diagnosis;
mod engine;
pub(crate) mod install_mode;
mod native;
mod olm;
mod pulling;

use std::cell::RefCell;

use anyhow::{Context, anyhow, bail};
use catalog::inject::{
    DEFAULT_INDEX, Index,
    history::{History, INDEX_IMAGE, Mode},
};

use unpacker::source::Image;

use self::{
    deadline::Deadline,
    engine::Found,
    pulling::{PulledIndex, Puller},
};
use crate::{
    Exit,
    args::{self, CleanupArgs, RegistryArgs, RunArgs, RunBundleArgs, RunCommand, RunUpgradeArgs},
    cluster::{self, Cluster},
    message, source,
};

/// What a command works with.
struct Task<'a> {
    cluster: &'a Cluster,
    deadline: Deadline,
    /// What a signal or an error leaves behind, in words; nothing so far.
    left: &'a RefCell<Option<String>>,
}

impl Task<'_> {
    /// From now on a signal or an error leaves something behind.
    fn leaves(&self, what: String) {
        *self.left.borrow_mut() = Some(what);
    }
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    match &args.command {
        RunCommand::Bundle(args) => with(&args.registry, "Failed to run bundle", async |task| {
            Box::pin(bundle(task, args)).await
        }),
        RunCommand::BundleUpgrade(args) => {
            let failed = "Failed to run bundle upgrade";
            with(&args.registry, failed, async |task| {
                Box::pin(upgrade(task, args)).await
            })
        }
    }
}

pub(crate) fn cleanup(args: &CleanupArgs) -> anyhow::Result<Exit> {
    let left = RefCell::new(None);
    let done = cluster::run(
        &args.cluster,
        || interrupted(&left),
        async |cluster| {
            let task = Task {
                cluster,
                deadline: Deadline::after(args.timeout),
                left: &left,
            };
            let wanted = engine::Wanted {
                engine: args.engine,
                package: &args.package,
                namespace: olm::namespace(cluster, args.namespace.as_deref()),
                removed_from: args.namespace.as_deref(),
            };
            let found = engine::find(cluster, wanted);
            match task.deadline.keep("looking at the cluster", found).await? {
                Found::Native => Box::pin(native::cleanup(&task, args)).await,
                Found::Olm => Box::pin(olm::cleanup(&task, args)).await,
            }
        },
    );
    told(done, &left).context("Cleanup operator")
}

fn with(
    args: &RegistryArgs,
    failed: &'static str,
    work: impl AsyncFnOnce(&Task<'_>) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    let left = RefCell::new(None);
    let deadline = Deadline::after(args.timeout);
    let done = cluster::run(
        &args.cluster,
        || interrupted(&left),
        async |cluster| {
            let task = Task {
                cluster,
                deadline,
                left: &left,
            };
            work(&task).await
        },
    );
    told(done, &left).context(failed)
}

/// An error leaves the same behind as a signal, unless nothing was changed yet.
fn told(done: anyhow::Result<Exit>, left: &RefCell<Option<String>>) -> anyhow::Result<Exit> {
    if done.is_err()
        && let Some(left) = &*left.borrow()
    {
        message::note(left);
    }
    done
}

fn interrupted(left: &RefCell<Option<String>>) {
    let left = left.borrow();
    message::note(left.as_deref().unwrap_or("nothing was changed"));
}

async fn find(task: &Task<'_>, args: &RegistryArgs, package: &str) -> anyhow::Result<Found> {
    let wanted = engine::Wanted {
        engine: args.engine,
        package,
        namespace: olm::namespace(task.cluster, args.namespace.as_deref()),
        removed_from: None,
    };
    engine::find(task.cluster, wanted).await
}

async fn bundle(task: &Task<'_>, args: &RunBundleArgs) -> anyhow::Result<Exit> {
    let image = source::target(&args.image);
    let puller = Puller::new(&args.registry, task.deadline);
    let pulled = puller.bundle(image).await?;
    let found = find(task, &args.registry, &pulled.bundle.package);
    let found = task.deadline.keep("looking at the cluster", found).await?;
    let supported = &pulled.facts.install_modes;
    let namespace = goes_to(
        found,
        args.registry.namespace.as_deref(),
        Suggested {
            context: &task.cluster.config.default_namespace,
            bundle: &pulled.facts.install_namespace,
        },
    );
    let mode = args.install_mode.as_ref();
    install_mode::check(mode, &pulled.bundle.name, supported, namespace)?;
    let index_image = source::target(&args.index_image);
    let index_name = index_image.reference.to_string();
    let index = index(&puller, &index_name, index_image, args.registry.mode).await?;
    match found {
        Found::Native => Box::pin(native::bundle(task, args, pulled, index)).await,
        Found::Olm => Box::pin(olm::bundle(task, args, pulled, index)).await,
    }
}

/// Namespaces that nobody has asked for.
#[derive(Debug, Clone, Copy)]
struct Suggested<'a> {
    /// By the kubeconfig's context.
    context: &'a str,
    /// By the bundle.
    bundle: &'a str,
}

/// Where an operator goes.
fn goes_to<'a>(found: Found, asked: Option<&'a str>, suggested: Suggested<'a>) -> &'a str {
    asked.unwrap_or(match found {
        Found::Olm => suggested.context,
        Found::Native => suggested.bundle,
    })
}

async fn upgrade(task: &Task<'_>, args: &RunUpgradeArgs) -> anyhow::Result<Exit> {
    let image = source::target(&args.image);
    let puller = Puller::new(&args.registry, task.deadline);
    let pulled = puller.bundle(image).await?;
    let found = find(task, &args.registry, &pulled.bundle.package);
    match task.deadline.keep("looking at the cluster", found).await? {
        Found::Native => Box::pin(native::upgrade(task, args, &puller, pulled)).await,
        Found::Olm => Box::pin(olm::upgrade(task, args, &puller, pulled)).await,
    }
}

/// Reads an index, unless it is one that stands for none. A mode is for databases only.
async fn index<'n>(
    puller: &Puller,
    name: &'n str,
    image: Image,
    mode: Option<Mode>,
) -> anyhow::Result<Option<Index<'n>>> {
    let read = match Stand::of(name, &image) {
        Stand::Default => None,
        Stand::Empty => Some(PulledIndex::empty()),
        Stand::Index => {
            let told = format!("Rendering a File-Based Catalog of the Index Image {name:?}");
            message::note(&told);
            Some(puller.index(image).await?)
        }
    };
    if mode.is_some() && !read.as_ref().is_some_and(|it| it.is_database) {
        bail!(
            "specifying the bundle add mode is not supported for File-Based Catalog bundles and index images; leave out --mode"
        );
    }
    Ok(read.map(|it| Index {
        name,
        rendered: it.rendered,
    }))
}

/// What an image stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// For no index; nobody has to name it.
    Default,
    /// For none either: opm itself, which has the database of operator-sdk's earlier versions once something is added to it.
    Empty,
    /// For what is in it.
    Index,
}

// === impl Stand ===

impl Stand {
    fn of(name: &str, image: &Image) -> Self {
        let reference = &image.reference;
        match (name, reference.domain(), reference.path()) {
            (DEFAULT_INDEX, ..) => Self::Default,
            (_, "quay.io", "operator-framework/opm") => Self::Empty,
            _ => Self::Index,
        }
    }
}

/// As [`index`], from what annotations tell.
async fn index_of<'h>(
    puller: &Puller,
    history: &'h History,
    mode: Option<Mode>,
) -> anyhow::Result<Option<Index<'h>>> {
    let name = history.index_image();
    index(puller, name, remembered(name)?, mode).await
}

/// An index that nobody has named on the command line. A CatalogSource may have a template of an image, which OLM fills in.
fn remembered(name: &str) -> anyhow::Result<Image> {
    Image::parse(name).map_err(|error| {
        anyhow!(
            "the index that the cluster names cannot be read: {error}; name one that can be in the annotation {INDEX_IMAGE}"
        )
    })
}

/// A command that somebody can copy.
fn command(words: &str) -> String {
    format!("\"{} {words}\"", args::name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_olm_the_bundle_does_not_say_where_it_goes() {
        let suggested = Suggested {
            context: "here",
            bundle: "there",
        };
        ::tests::assert_rows! {
            goes_to(Found::Olm, None, suggested) => "here";
            goes_to(Found::Native, None, suggested) => "there";
            goes_to(Found::Olm, Some("asked"), suggested) => "asked";
            goes_to(Found::Native, Some("asked"), suggested) => "asked";
        }
    }

    // parity: sdk-23
    #[test]
    fn opm_itself_is_an_index_without_anything() {
        let digest = "0".repeat(64);
        let pinned = format!("quay.io/operator-framework/opm@sha256:{digest}");
        for (name, expected) in [
            ("quay.io/operator-framework/opm:latest", Stand::Default),
            ("docker://quay.io/operator-framework/opm", Stand::Default),
            ("quay.io/operator-framework/opm:v1.30.0", Stand::Empty),
            (&pinned, Stand::Empty),
            ("quay.io/operator-framework/opm/index:v1", Stand::Index),
            ("quay.io/operatorhubio/catalog:latest", Stand::Index),
            ("example.com/operator-framework/opm:v1.30.0", Stand::Index),
        ] {
            let image = Image::parse(name).unwrap();
            let name = image.reference.to_string();
            assert_eq!(Stand::of(&name, &image), expected, "{name}");
        }
        // As operator-sdk, which makes a database of it: a mode is accepted.
        assert!(PulledIndex::empty().is_database);
    }

    #[test]
    fn an_index_that_is_remembered_need_not_be_one() {
        assert!(remembered("quay.io/example/index:v1").is_ok());
        assert!(remembered(DEFAULT_INDEX).is_ok());
        for name in [
            "quay.io/example/index:v{kube_major_version}.{kube_minor_version}",
            "index",
            "a b",
            "",
            "https://example.com/x.tgz",
        ] {
            let expected = "the index that the cluster names cannot be read: *operators.operatorframework.io/index-image*";
            ::tests::table::assert_outcome(remembered(name).map(drop), Err(expected), name);
        }
    }
}
