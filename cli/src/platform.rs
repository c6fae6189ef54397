//! `rukpak platform`: what a new cluster needs for platform operators.
//!
//! ```text
//!  PACKAGE... ─ choosing (catalogs, as the provisioner chooses) ─┬─ problems: nothing is written
//!                                                                └─ objects ─ standard output, or a staged folder
//! ```

mod choosing;
mod near;
mod objects;

use anyhow::bail;
use convert::removal::kubernetes_of;
use manifests::{api::install, object::Object, version::KubeVersion};

use crate::{
    Exit,
    args::{Manifests, PlatformArgs, PlatformCommand, PlatformRenderArgs},
    catalogs::Catalogs,
    folder::{self, Before, Staged},
    message::{self, count},
    output,
};

/// What the files are called that are ours in an installer's folder. Those of the cluster-version operator begin so, with
/// the level at which things are created; operators have 50.
const PREFIX: &str = "0000_50_rukpak_";

pub(crate) fn run(args: &PlatformArgs) -> anyhow::Result<Exit> {
    match &args.command {
        PlatformCommand::Render(args) => render(args),
    }
}

fn render(args: &PlatformRenderArgs) -> anyhow::Result<Exit> {
    check(args)?;
    let catalogs = Catalogs::read(&args.catalogs, &args.access, args.limits)?;
    let chosen = choosing::all(args, &catalogs);
    if !chosen.problems.is_empty() {
        chosen.problems.iter().for_each(|it| message::error(it));
        let packages = count(chosen.problems.len(), "package");
        bail!("nothing is written: {packages} cannot be installed");
    }
    for warning in &chosen.warnings {
        message::warning(warning);
    }
    let objects = objects::all(args, &catalogs, &chosen.found)?;
    let Some(folder) = &args.output_dir else {
        output::print_manifests(&objects, args.output)?;
        return Ok(Exit::Done);
    };
    let before = if args.force {
        Before::Anything
    } else {
        Before::Others
    };
    let staged = Staged::new(folder, before)?;
    for (position, object) in objects.iter().enumerate() {
        let name = name(position, objects.len(), object, args.output);
        staged.add_with(&name, folder::FILE, |file| {
            output::write_manifest(file, object, args.output)
        })?;
    }
    let files = staged.publish(is_ours)?;
    message::note(&format!(
        "{} written to {}",
        count(files, "file"),
        folder.display()
    ));
    Ok(Exit::Done)
}

/// Whether the new cluster could take what would be written.
fn check(args: &PlatformRenderArgs) -> anyhow::Result<()> {
    let given = args.kubernetes_version.as_ref();
    let given = given.map(|it| KubeVersion::new(it.major, it.minor));
    let of_openshift = args.openshift_version.and_then(kubernetes_of);
    let oldest = install::OLDEST;
    if let Some(old) = given
        .into_iter()
        .chain(of_openshift)
        .find(|it| *it < oldest)
    {
        bail!(
            "nothing is written: the provisioner's definitions and admission policies need Kubernetes {oldest}, which OpenShift \
             4.17 has, or a later one, and the new cluster would have Kubernetes {old}"
        );
    }
    let followed = [objects::MARKETPLACE, install::release::NAMESPACE];
    if args.release_payload
        && let Some(namespace) = &args.catalog_namespace
        && !followed.contains(&namespace.as_str())
    {
        bail!(
            "nothing is written: the provisioner of a release payload takes no catalog from namespace {namespace}; choose {} for \
             --catalog-namespace",
            followed.join(" or ")
        );
    }
    Ok(())
}

fn name(position: usize, of: usize, object: &Object, format: Manifests) -> String {
    format!(
        "{PREFIX}{}",
        folder::file_name(position, of, object, format)
    )
}

/// Whether an earlier run wrote it.
fn is_ours(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(folder::is_file_name)
}
