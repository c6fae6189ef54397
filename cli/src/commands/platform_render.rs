//! `rukpak platform`: manifests for platform operators in a new cluster.
//!
//! ```text
//!  PACKAGE... ─ choose (catalogs, like the provisioner) ─┬─ problems: nothing is written
//!                                                        └─ objects ─ standard output, or a staged directory
//! ```

mod choose;
mod objects;

use anyhow::bail;
use convert::removed_apis::kubernetes_of;
use manifests::{api::install, object::Object, version::KubeVersion};

use super::catalog::Catalogs;
use crate::{
    ExitStatus,
    args::{ManifestFormat, PlatformArgs, PlatformCommand, PlatformRenderArgs},
    output,
    output::{
        message::{self, count},
        staged_dir::{self, ExistingPolicy, StagedDir},
    },
};

/// Prefix of the generated files in an installer's directory. File names for the cluster-version operator begin with
/// `0000_` and the level at which objects are created; operators have level 50.
const PREFIX: &str = "0000_50_rukpak_";

pub(crate) fn run(args: &PlatformArgs) -> anyhow::Result<ExitStatus> {
    match &args.command {
        PlatformCommand::Render(args) => render(args),
    }
}

fn render(args: &PlatformRenderArgs) -> anyhow::Result<ExitStatus> {
    check(args)?;
    let catalogs = Catalogs::read(&args.catalogs, &args.access, args.limits)?;
    let chosen = choose::all(args, &catalogs);
    if !chosen.problems.is_empty() {
        chosen
            .problems
            .iter()
            .for_each(|problem| message::error(problem));
        let packages = count(chosen.problems.len(), "package");
        bail!("no files written: cannot install {packages}");
    }
    for warning in &chosen.warnings {
        message::warning(warning);
    }
    let objects = objects::all(args, &catalogs, &chosen.chosen)?;
    let Some(dir) = &args.output_dir else {
        output::print_manifests(&objects, args.output)?;
        return Ok(ExitStatus::Done);
    };
    let before = if args.force {
        ExistingPolicy::Anything
    } else {
        ExistingPolicy::Unrelated
    };
    let staged = StagedDir::new(dir, before)?;
    for (position, object) in objects.iter().enumerate() {
        let name = name(position, objects.len(), object, args.output);
        staged.add_with(&name, staged_dir::FILE, |file| {
            output::write_manifest(file, object, args.output)
        })?;
    }
    let files = staged.publish(is_generated_name)?;
    message::note(&format!(
        "{} written to {}",
        count(files, "file"),
        dir.display()
    ));
    Ok(ExitStatus::Done)
}

/// Checks that the new cluster supports the manifests.
fn check(args: &PlatformRenderArgs) -> anyhow::Result<()> {
    let given = args.kubernetes_version.as_ref();
    let given = given.map(|version| KubeVersion::new(version.major, version.minor));
    let of_openshift = args.openshift_version.and_then(kubernetes_of);
    let oldest = install::OLDEST;
    if let Some(old) = given
        .into_iter()
        .chain(of_openshift)
        .find(|version| *version < oldest)
    {
        bail!(
            "no files written: the provisioner's CRDs and admission policies require Kubernetes {oldest} (OpenShift 4.17) \
             or later, but the new cluster would have Kubernetes {old}"
        );
    }
    let followed = [objects::MARKETPLACE, install::release::NAMESPACE];
    if args.release_payload
        && let Some(namespace) = &args.catalog_namespace
        && !followed.contains(&namespace.as_str())
    {
        bail!(
            "no files written: the provisioner of a release payload does not read catalogs in namespace {namespace}; set \
             --catalog-namespace to {}",
            followed.join(" or ")
        );
    }
    Ok(())
}

fn name(position: usize, of: usize, object: &Object, format: ManifestFormat) -> String {
    format!(
        "{PREFIX}{}",
        staged_dir::file_name(position, of, object, format)
    )
}

/// Reports whether a name is that of a generated file.
fn is_generated_name(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(staged_dir::is_file_name)
}
