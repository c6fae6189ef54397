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
    ExitStatus,
    args::{self, PushArgs},
    fetch::Fetcher,
    output,
    output::message::{self, count},
    source::{self, Source},
};

const MANIFESTS: &str = "operators.operatorframework.io.bundle.manifests.v1";
const METADATA: &str = "operators.operatorframework.io.bundle.metadata.v1";

/// Content of a bundle that belongs in its image.
struct Bundle {
    content: Content,
    /// Entries of its directories that are not regular files.
    skipped: SkippedEntries,
}

/// Published image.
#[derive(Serialize)]
struct PushResult {
    /// Reference as given on the command line.
    image: String,
    digest: String,
    /// Reference that is pinned to the digest.
    reference: String,
}

pub(crate) fn run(args: &PushArgs) -> anyhow::Result<ExitStatus> {
    let source = source::one(&args.bundle, &args.access);
    if source.is_remote() {
        args::usage(
            "push publishes only bundles on this machine; unpack the bundle into a directory first",
        );
    }
    let to = source::target(&args.image);
    let reference = to.reference.clone();
    let target = Source {
        name: reference.to_string(),
        location: Ok(unpacker::Source::Image(to)),
    };
    let targets: &[Source] = if args.dry_run { &[] } else { &[target] };
    let reach = Fetcher::new(&args.access, targets, args.quiet)?;
    let Bundle { content, skipped } = bundle(&source, &reach, &args.limits.into())
        .with_context(|| format!("failed to create an image of {}", source.text()))?;
    let image = BundleImage::new(&content)
        .with_context(|| format!("failed to create an image of {}", source.text()))?;
    if !args.quiet {
        if !skipped.is_empty() {
            message::warning(&format!(
                "the image does not contain {skipped} of the bundle; replace them with regular files if they are needed"
            ));
        }
        warn_skipped(
            &source,
            &convert::validate(&content, &convert::Options::default()),
        );
    }
    let digest = if args.dry_run {
        image.digest()
    } else {
        reach.push(&reference, &image)?
    };
    let result = PushResult {
        image: reference.to_string(),
        digest: digest.to_string(),
        reference: pinned(&reference, &digest),
    };
    match output::described(&result, args.output)? {
        Some(text) => output::print(&text)?,
        None => output::print(&format!("{}\n", result.reference))?,
    }
    Ok(ExitStatus::Done)
}

fn pinned(image: &Reference, digest: &unpacker::Digest) -> String {
    format!("{}/{}@{digest}", image.domain(), image.path())
}

/// Returns the files for the image: the directories that the annotations declare as manifests and metadata, and the tests.
/// Other files are not included.
fn bundle(source: &Source, reach: &Fetcher, options: &Options) -> anyhow::Result<Bundle> {
    let read = |options: &Options| -> unpacker::Result<_> {
        let tree = reach.fetch(source, options)?.tree;
        tree.ensure_regular()?;
        tree.into_content()
    };
    let selecting = |directories: &[&str]| Options {
        select: Selection::Only(directories.iter().map(|&name| name.to_owned()).collect()),
        ..options.clone()
    };
    // A directory may contain a whole repository; an archive can be read only once.
    let is_folder = source.is_folder();
    let content = if is_folder {
        read(&selecting(&["metadata"]))?
    } else {
        read(options)?
    };
    let image = BundleImage::new(&content)?;
    let directory = |key, default: &str| {
        let directory = image.labels().get(key).map(|name| name.trim_matches('/'));
        let directory = directory.filter(|name| !name.is_empty());
        directory.unwrap_or(default).to_owned()
    };
    let manifests = directory(MANIFESTS, "manifests");
    let metadata = directory(METADATA, "metadata");
    let directories = ["metadata", &metadata, &manifests, "tests"];
    let content = if is_folder {
        read(&selecting(&directories))?
    } else {
        content
    };
    let entries = content.irregular();
    let skipped = SkippedEntries::count(entries.filter(|(path, _)| is_in(path, &directories)));
    let content = select_directories(&content, &directories, options.limits)?;
    if !content.has_folder(&manifests) {
        anyhow::bail!(
            "the bundle has no files in {manifests}/; put its manifests there, or set the annotation {MANIFESTS} to their directory"
        );
    }
    Ok(Bundle { content, skipped })
}

/// Reports whether a path is one of the directories or below one.
fn is_in(path: &str, directories: &[&str]) -> bool {
    directories.iter().any(|directory| {
        path.strip_prefix(*directory)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Returns the part of the content in these directories.
fn select_directories(
    content: &Content,
    directories: &[&str],
    limits: Limits,
) -> Result<Content, content::Error> {
    let mut builder = content::Builder::new(limits);
    for (path, file) in content.files() {
        if is_in(path, directories) {
            builder.add(path, file.mode, &mut file.bytes.as_ref())?;
        }
    }
    Ok(builder.finish())
}

/// Reports the result of the validation. It never prevents the push, because other tools can install bundles that this one
/// rejects.
fn warn_skipped(source: &Source, report: &Report) {
    let number = |level| report.with_level(level).count();
    let (errors, warnings) = (number(Level::Error), number(Level::Warning));
    let bundle = message::shell_word(&source.text());
    let hint = format!("{} validate {bundle}", args::name());
    if errors > 0 {
        let problems = count(errors, "problem");
        message::warning(&format!(
            "validation of the bundle failed with {problems}: {hint}"
        ));
    } else if warnings > 0 {
        message::note(&format!("{}: {hint}", count(warnings, "warning")));
    }
}
