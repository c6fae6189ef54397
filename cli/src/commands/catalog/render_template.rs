//! `rukpak catalog render-template`.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{self, IsTerminal as _, Read},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use catalog::{
    Limits,
    render::{Bundle, Format},
    template::{self, Template, TemplateKind},
};

use super::{
    render,
    render::reference::{AllowedKinds, ReferenceReader},
};
use crate::{
    ExitStatus,
    args::{self, RenderTemplateArgs, TemplateFormat},
    fetch::Fetcher,
    output::message,
    parallel,
    source::{self, Source},
};

pub(crate) fn run(args: &RenderTemplateArgs) -> anyhow::Result<ExitStatus> {
    let limits = Limits::from(args.reading.limits);
    let (kind, file) = parse_arguments(args.template.as_ref(), args.file.as_ref())
        .unwrap_or_else(|problem| args::usage(&problem));
    let (name, text) = read(file, args, limits.document)?;
    let mut template = Template::read(&name, &text, kind, &limits)?;
    drop(text);
    warn(args, template.take_warnings());
    let bundles = bundles(&template, args)?;
    let mut warnings = Vec::new();
    let rendered = template
        .render(bundles, &mut warnings)
        .with_context(|| format!("render template {name:?}"))?;
    let format = match args.output {
        TemplateFormat::Json => Format::Json,
        TemplateFormat::Yaml => Format::Yaml,
        TemplateFormat::Mermaid => {
            let graph = template::mermaid(&rendered, &mut warnings)?;
            warn(args, warnings);
            render::print(|out| Ok(out.write_all(graph.as_bytes())?))?;
            return Ok(ExitStatus::Done);
        }
    };
    warn(args, warnings);
    rendered.check(format)?;
    render::print(|out| Ok(rendered.write(format, out)?))?;
    Ok(ExitStatus::Done)
}

fn warn(args: &RenderTemplateArgs, warnings: Vec<String>) {
    for warning in warnings {
        if !args.quiet {
            message::warning(&warning);
        }
    }
}

/// Returns the type and the file of the template; no file means standard input. A single word that names a type is not a
/// file, as in opm.
fn parse_arguments<'a>(
    first: Option<&'a OsString>,
    second: Option<&'a OsString>,
) -> Result<(Option<TemplateKind>, Option<&'a Path>), String> {
    let kind: Option<TemplateKind> = first.and_then(|word| word.to_str()?.parse().ok());
    let file = match (first, second) {
        (Some(first), Some(_)) if kind.is_none() => {
            return Err(format!(
                "invalid template type {:?}, must be one of: {}",
                first.to_string_lossy(),
                TemplateKind::ALL.map(TemplateKind::name).join(", ")
            ));
        }
        (first, None) if kind.is_none() => first,
        (_, second) => second,
    };
    let file = file.map(Path::new);
    Ok((kind, file.filter(|path| *path != Path::new("-"))))
}

/// Returns the name of the template for error messages, and its text.
fn read(
    file: Option<&Path>,
    args: &RenderTemplateArgs,
    limit: usize,
) -> anyhow::Result<(String, Vec<u8>)> {
    let Some(path) = file else {
        if args.reading.access.reads_stdin() {
            args::usage(
                "both the template and --password-file read standard input; only one of them can",
            );
        }
        if io::stdin().is_terminal() {
            args::usage(
                "the template is read from standard input, but standard input is a terminal; specify a file, or pipe one in",
            );
        }
        let text = bounded(io::stdin().lock(), "the template", limit)?;
        return Ok(("stdin".to_owned(), text));
    };
    let name = path.display().to_string();
    let failed = || format!("failed to read the template {name}");
    let opened = fs::File::open(path).with_context(failed)?;
    let metadata = opened.metadata().with_context(failed)?;
    ensure!(
        !metadata.is_dir(),
        "{name} is a directory; specify the template in it"
    );
    let text = bounded(opened, &name, limit)?;
    Ok((name, text))
}

fn bounded(from: impl Read, name: &str, limit: usize) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    from.take(u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1))
        .read_to_end(&mut text)
        .with_context(|| format!("failed to read {name}"))?;
    ensure!(
        text.len() <= limit,
        "{name} is larger than the limit of {limit} bytes; split it, or raise the limit with --max-document-size"
    );
    Ok(text)
}

/// Renders all bundles that a template names, several at a time.
fn bundles(
    template: &Template,
    args: &RenderTemplateArgs,
) -> anyhow::Result<BTreeMap<String, Bundle>> {
    let access = &args.reading.access;
    let images = template.images();
    let sources: Vec<Source> = images
        .iter()
        .map(|text| source::from_name(text, access))
        .collect();
    let fetcher = Fetcher::new(access, &sources, args.quiet)?;
    let reader = ReferenceReader {
        fetcher: &fetcher,
        limits: args.reading.limits,
        template: args.alpha_image_ref_template.as_ref(),
        kinds: AllowedKinds::All,
        is_quiet: args.quiet,
    };
    let (mut bundles, mut problems) = (BTreeMap::new(), Vec::new());
    let work = |source: &Source| {
        ensure!(
            source.name != "-",
            "standard input cannot be a bundle of a template; use a file"
        );
        reader.bundle(source, &source.name, args.migrate_level)
    };
    let mut names = images.iter();
    parallel::each(
        &sources,
        fetcher.max_parallel(),
        work,
        |bundle| -> io::Result<()> {
            let name = names.next().copied().unwrap_or_default();
            match bundle {
                Ok(bundle) => drop(bundles.insert(name.to_owned(), bundle)),
                Err(error) => problems.push(format!("render reference {name:?}: {error:#}")),
            }
            Ok(())
        },
    )?;
    match problems.as_slice() {
        [] => Ok(bundles),
        [problem] => bail!("{problem}"),
        several => bail!(
            "{} of {} cannot be rendered\n  {}",
            several.len(),
            message::count(images.len(), "bundle"),
            several.join("\n  ")
        ),
    }
}
