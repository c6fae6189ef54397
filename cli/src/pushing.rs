//! `rukpak push`.

use anyhow::Context;
use convert::{Level, Report};
use manifests::{
    content::{self, Content, Limits, SkippedEntries},
    image::Reference,
};
use serde::Serialize;
use unpacker::{Options, Selection, registry::BundleImage};

use crate::{
    Exit,
    args::{self, PushArgs},
    message::{self, count},
    output,
    reach::Reach,
    source::{self, Source},
};

const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";

/// The part of a bundle that belongs into its image.
struct Bundle {
    content: Content,
    /// Entries of its directories that are not regular files.
    skipped: SkippedEntries,
}

/// What was published.
#[derive(Serialize)]
struct Published {
    /// As asked for.
    image: String,
    digest: String,
    /// Names the same image for good.
    reference: String,
}

pub(crate) fn run(args: &PushArgs) -> anyhow::Result<Exit> {
    let source = source::one(&args.bundle, &args.access);
    if source.is_remote() {
        args::usage(
            "push publishes what is on this machine; unpack the bundle into a folder first",
        );
    }
    let to = source::target(&args.image);
    let reference = to.reference.clone();
    let target = Source {
        name: reference.to_string(),
        place: Ok(unpacker::Source::Image(to)),
    };
    let targets: &[Source] = if args.dry_run { &[] } else { &[target] };
    let reach = Reach::new(&args.access, targets, args.quiet)?;
    let Bundle { content, skipped } = bundle(&source, &reach, &args.limits.into())
        .with_context(|| format!("failed to make an image of {}", source.text()))?;
    let image = BundleImage::new(&content)
        .with_context(|| format!("failed to make an image of {}", source.text()))?;
    if !args.quiet {
        if !skipped.is_empty() {
            message::warning(&format!(
                "the image is made without {skipped} of the bundle; put regular files in their place if they belong to it"
            ));
        }
        warn(
            &source,
            &convert::validate(&content, &convert::Options::default()),
        );
    }
    let digest = if args.dry_run {
        image.digest()
    } else {
        reach.push(&reference, &image)?
    };
    let published = Published {
        image: reference.to_string(),
        digest: digest.to_string(),
        reference: pinned(&reference, &digest),
    };
    match output::described(&published, args.output)? {
        Some(text) => output::print(&text)?,
        None => output::print(&format!("{}\n", published.reference))?,
    }
    Ok(Exit::Done)
}

fn pinned(image: &Reference, digest: &unpacker::Digest) -> String {
    format!("{}/{}@{digest}", image.domain(), image.path())
}

/// The files that belong into the image: what the annotations call manifests and metadata, and tests. Whatever else lies
/// beside them stays where it is.
fn bundle(source: &Source, reach: &Reach, options: &Options) -> anyhow::Result<Bundle> {
    let read = |options: &Options| -> unpacker::Result<_> {
        let tree = reach.fetch(source, options)?.tree;
        tree.ensure_regular()?;
        tree.into_content()
    };
    let only = |folders: &[&str]| Options {
        select: Selection::Only(folders.iter().map(|&folder| folder.to_owned()).collect()),
        ..options.clone()
    };
    // A folder may hold a whole repository; an archive can be read only once.
    let is_folder = source.is_folder();
    let content = if is_folder {
        read(&only(&["metadata"]))?
    } else {
        read(options)?
    };
    let image = BundleImage::new(&content)?;
    let named = |key, usual: &str| {
        let named = image
            .labels()
            .get(key)
            .map(|folder| folder.trim_matches('/'));
        let named = named.filter(|folder| !folder.is_empty());
        named.unwrap_or(usual).to_owned()
    };
    let manifests = named(MANIFESTS, "manifests");
    let metadata = named(METADATA, "metadata");
    let folders = ["metadata", &metadata, &manifests, "tests"];
    let content = if is_folder {
        read(&only(&folders))?
    } else {
        content
    };
    let entries = content.irregular();
    let skipped = SkippedEntries::count(entries.filter(|(path, _)| is_in(path, &folders)));
    let content = within(&content, &folders, options.limits)?;
    if !content.has_folder(&manifests) {
        anyhow::bail!(
            "the bundle has no files in {manifests}/; put its manifests there, or set the annotation {MANIFESTS} to their directory"
        );
    }
    Ok(Bundle { content, skipped })
}

/// Reports whether a path is one of the directories or below one.
fn is_in(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| {
        path.strip_prefix(*folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// The part of the content that is in these folders.
fn within(content: &Content, folders: &[&str], limits: Limits) -> Result<Content, content::Error> {
    let mut builder = content::Builder::new(limits);
    for (path, file) in content.files() {
        if is_in(path, folders) {
            builder.add(path, file.mode, &mut file.bytes.as_ref())?;
        }
    }
    Ok(builder.finish())
}

/// Other tools can install what this one refuses to convert, so that nothing here keeps a bundle from being published.
fn warn(source: &Source, report: &Report) {
    let number = |level| report.of(level).count();
    let (errors, warnings) = (number(Level::Error), number(Level::Warning));
    let hint = format!("{} validate {}", args::name(), source.text());
    if errors > 0 {
        let problems = count(errors, "problem");
        message::warning(&format!(
            "validation of the bundle fails with {problems}: {hint}"
        ));
    } else if warnings > 0 {
        message::note(&format!("{}: {hint}", count(warnings, "warning")));
    }
}
