//! `rukpak inspect`.

mod text;

use convert::{
    Class, Conversion, Finding,
    bundle_info::BundleInfo,
    permissions::{self, SubjectPermissions},
};
use manifests::{
    content::SkippedEntries,
    object::{Identity, Object},
};
use serde::Serialize;

use crate::{
    ExitStatus,
    args::{DescriptionFormat, InspectArgs},
    fetch::Fetcher,
    output, source,
};

/// Description of a bundle. The formats for programs and [`text`] show the same data.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Inspection<'a> {
    bundle: String,
    class: &'static str,
    /// `converted` or `refused`.
    outcome: &'static str,
    /// Problems that prevent the conversion.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refusals: Vec<&'a Finding>,
    facts: &'a BundleInfo,
    /// Entries that are not regular files, outside of the manifests and the metadata.
    #[serde(skip_serializing_if = "SkippedEntries::is_empty")]
    skipped: &'a SkippedEntries,
    /// Rendered objects; empty if the bundle is rejected.
    objects: Vec<Reference<'a>>,
    /// Permissions that the objects grant.
    rights: Vec<SubjectPermissions>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    api_version: &'a str,
    #[serde(flatten)]
    identity: Identity,
}

impl<'a> Reference<'a> {
    fn new(object: &'a Object) -> Self {
        Self {
            api_version: object.api_version(),
            identity: object.identity(),
        }
    }
}

pub(crate) fn run(args: &InspectArgs) -> anyhow::Result<ExitStatus> {
    let source = source::one(&args.bundle, &args.access);
    let reach = Fetcher::new(&args.access, std::slice::from_ref(&source), false)?;
    let options = args.conversion.options(args.limits)?;
    let content = reach.content(&source, &args.limits.into())?;
    let class = options.class.unwrap_or_else(|| convert::class(&content));
    let Conversion {
        objects,
        mut report,
    } = convert::plain(&content, &options);
    if objects.is_none() {
        report.locate(&content);
    }
    let rendered_objects = objects.as_deref().unwrap_or_default();
    let inspection = Inspection {
        bundle: source.name,
        class: match class {
            Class::Registry => "registry+v1",
            Class::Plain => "plain+v0",
        },
        outcome: if objects.is_some() {
            "converted"
        } else {
            "refused"
        },
        refusals: report.refusals().collect(),
        facts: &report.facts,
        skipped: &report.skipped,
        objects: rendered_objects.iter().map(Reference::new).collect(),
        rights: permissions::granted_by(rendered_objects),
    };
    match args.output {
        DescriptionFormat::Json => output::print_json(&inspection)?,
        format => match output::described(&inspection, format)? {
            Some(text) => output::print(&text)?,
            None => output::print_styled(&text::render(&inspection))?,
        },
    }
    Ok(ExitStatus::Done)
}
