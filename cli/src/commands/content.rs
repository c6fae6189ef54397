//! `rukpak content`.

use std::io::{self, IsTerminal as _, Read as _, Write};

use anyhow::{Context, bail};
use manifests::{
    api::{
        bundle::{Bundle, Phase},
        condition,
    },
    content::Limits,
};
use unpacker::{Options, Selection, Tree};

use super::{
    diff,
    unpack::{Destination, is_terminal},
};
use crate::{
    ExitStatus,
    args::{self, ContentArgs},
    cluster::{self, Cluster, content_service::ContentService, revisions},
    output,
    output::message::{self, count},
};

/// Prefix of every error, like in rukpak.
const ERROR_PREFIX: &str = "content command failed";

pub(crate) fn run(args: &ContentArgs) -> anyhow::Result<ExitStatus> {
    if let Some(number) = args.revision {
        return cluster::run(
            &args.cluster,
            || {},
            async |cluster| print_revision(cluster, args, number).await,
        );
    }
    let destination = args.output.as_deref().map(Destination::from_flag);
    if destination == Some(Destination::Stdout) && is_terminal() {
        args::usage(
            "--output - writes an archive, but standard output is a terminal; redirect it to a file or a pipe",
        );
    }
    cluster::run(
        &args.cluster,
        || {},
        async |cluster| {
            let tree = fetch(cluster, args).await.context(ERROR_PREFIX)?;
            match destination {
                Some(destination) => write(&tree, destination, args)?,
                None => output::stream(|out| print(&tree, out))?,
            }
            Ok(ExitStatus::Done)
        },
    )
}

/// Prints the recorded objects of a revision, with the values of Secrets masked.
async fn print_revision(
    cluster: &Cluster,
    args: &ContentArgs,
    number: i64,
) -> anyhow::Result<ExitStatus> {
    let instance = cluster.instance(&args.name).await?;
    let mut objects = revisions::read(cluster, &instance, number).await?.objects;
    let mut masked = 0;
    for object in &mut objects {
        if diff::report::is_secret(&object.identity()) {
            diff::report::mask_secret(object.value_mut());
            masked += 1;
        }
    }
    if masked > 0 {
        message::warning(&format!(
            "the values of {} are masked; do not apply them",
            count(masked, "Secret")
        ));
    }
    output::print_manifests(&objects, args.format.unwrap_or_default())?;
    Ok(ExitStatus::Done)
}

fn write(tree: &Tree, destination: Destination, args: &ContentArgs) -> anyhow::Result<()> {
    let path = match &destination {
        Destination::Stdout => None,
        Destination::File(path, _) | Destination::Directory(path) => Some(path.clone()),
    };
    destination.prepare(args.force)?.write(tree)?;
    if let Some(path) = path {
        let files = count(tree.len(), "file");
        message::note(&format!("{files} written to {}", path.display()));
    }
    Ok(())
}

async fn fetch(cluster: &Cluster, args: &ContentArgs) -> anyhow::Result<Tree> {
    let name = &args.name;
    let bundle = match cluster.bundles().get(name).await {
        Ok(bundle) => bundle,
        Err(error) if Cluster::is_absent(&error) => bail!("{}", not_found(cluster, name).await),
        Err(error) => {
            return Err(cluster.explain(format!("failed to read Bundle {name}"), error));
        }
    };
    if let Some(problem) = unavailable_reason(&bundle) {
        bail!("error: url is not available: Bundle {name} {problem}");
    }
    let service = ContentService::new(cluster, &args.service).await?;
    let archive = service.download(name, args.original).await?;
    // The provisioner has already enforced its limits on this content.
    let options = Options {
        select: Selection::All,
        limits: Limits {
            total: u64::MAX,
            file: u64::MAX,
            ..Limits::default()
        },
        ..Options::default()
    };
    let (tree, _) = unpacker::stream_tree(archive.as_ref(), &options)
        .with_context(|| format!("failed to read the content of Bundle {name}"))?;
    Ok(tree)
}

/// Describes a missing Bundle, and hints at a BundleInstance of the same name.
async fn not_found(cluster: &Cluster, name: &str) -> String {
    let mut text = format!("bundles.core.rukpak.io {name:?} not found");
    if let Ok(Some(instance)) = cluster.get_instance_opt(name).await {
        let installed = instance
            .status
            .and_then(|status| status.installed_bundle_name);
        text.push_str("; a BundleInstance with this name exists");
        if let Some(installed) = installed {
            text.push_str(", and its Bundle is ");
            text.push_str(&installed);
        }
    }
    text
}

/// Returns the reason why a Bundle has no content; `None` if it is available.
fn unavailable_reason(bundle: &Bundle) -> Option<String> {
    let status = bundle.status.clone().unwrap_or_default();
    if status.content_url.is_some() && status.phase == Some(Phase::Unpacked) {
        return None;
    }
    let phase = status.phase.map_or_else(
        || "not reconciled yet".to_owned(),
        |phase| format!("{phase:?}"),
    );
    let message = status
        .conditions
        .into_iter()
        .find(|condition| condition.type_ == condition::UNPACKED);
    let message = message
        .map(|condition| condition.message)
        .filter(|message| !message.is_empty());
    Some(match message {
        Some(message) => format!("is {phase}: {message}"),
        None => format!("is {phase}"),
    })
}

/// Writes all manifests as one stream of YAML documents, each with its file name. Terminal control characters are removed
/// on a terminal; they are not valid in YAML either.
fn print(tree: &Tree, out: &mut dyn Write) -> anyhow::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    for (path, _) in tree.files() {
        let is_manifest = [".yaml", ".yml", ".json"]
            .iter()
            .any(|end| path.to_ascii_lowercase().ends_with(end));
        if !is_manifest {
            continue;
        }
        let Some(mut reader) = tree.read(path) else {
            continue;
        };
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes)?;
        writeln!(out, "---\n# {}", message::sanitize(path))?;
        if is_terminal {
            let text = String::from_utf8_lossy(&bytes);
            for line in text.lines() {
                writeln!(out, "{}", message::sanitize(line))?;
            }
            continue;
        }
        // The separator at the beginning of the file was already written.
        let bytes = bytes.strip_prefix(b"---\n").unwrap_or(&bytes);
        out.write_all(bytes)?;
        if !bytes.ends_with(b"\n") {
            writeln!(out)?;
        }
    }
    Ok(())
}
