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
    template::{self, Kind, Template},
};

use super::rendering::{
    self,
    reference::{Kinds, Reader},
};
use crate::{
    Exit,
    args::{self, RenderTemplateArgs, Templated},
    message, parallel,
    reach::Reach,
    source::{self, Source},
};

pub(crate) fn run(args: &RenderTemplateArgs) -> anyhow::Result<Exit> {
    let limits = Limits::from(args.reading.limits);
    let (kind, file) = named(&args.template).unwrap_or_else(|problem| args::usage(&problem));
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
        Templated::Json => Format::Json,
        Templated::Yaml => Format::Yaml,
        Templated::Mermaid => {
            let graph = template::mermaid(&rendered, &mut warnings)?;
            warn(args, warnings);
            rendering::print(|out| Ok(out.write_all(graph.as_bytes())?))?;
            return Ok(Exit::Done);
        }
    };
    warn(args, warnings);
    rendered.check(format)?;
    rendering::print(|out| Ok(rendered.write(format, out)?))?;
    Ok(Exit::Done)
}

fn warn(args: &RenderTemplateArgs, warnings: Vec<String>) {
    for warning in warnings {
        if !args.quiet {
            message::warning(&warning);
        }
    }
}

/// The kind and the file that are meant; none is standard input. A single word that names a kind is no file, as in opm.
fn named(words: &[OsString]) -> Result<(Option<Kind>, Option<&Path>), String> {
    let kind = |word: &OsString| word.to_str().and_then(|it| it.parse::<Kind>().ok());
    let file = |word| Some(Path::new(word)).filter(|it| *it != Path::new("-"));
    match words {
        [] => Ok((None, None)),
        [word] => Ok(match kind(word) {
            Some(kind) => (Some(kind), None),
            None => (None, file(word)),
        }),
        [first, word, ..] => match kind(first) {
            Some(kind) => Ok((Some(kind), file(word))),
            None => Err(format!(
                "invalid template type {:?}, must be one of: {}",
                first.to_string_lossy(),
                Kind::ALL.map(Kind::name).join(", ")
            )),
        },
    }
}

/// What errors call the template, and its text.
fn read(
    file: Option<&Path>,
    args: &RenderTemplateArgs,
    limit: usize,
) -> anyhow::Result<(String, Vec<u8>)> {
    let Some(path) = file else {
        if args.reading.access.reads_stdin() {
            args::usage(
                "both the template and --password-file are standard input; it can be only one of them",
            );
        }
        if io::stdin().is_terminal() {
            args::usage(
                "the template is read from standard input, which is a terminal; name a file or pipe one into it",
            );
        }
        let text = bounded(io::stdin().lock(), "the template", limit)?;
        return Ok(("stdin".to_owned(), text));
    };
    let name = path.display().to_string();
    let failed = || format!("failed to read the template {name}");
    let opened = fs::File::open(path).with_context(failed)?;
    let about = opened.metadata().with_context(failed)?;
    ensure!(
        !about.is_dir(),
        "{name} is a folder; name the template in it"
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
        .map(|text| source::named(text, access))
        .collect();
    let reach = Reach::new(access, &sources, args.quiet)?;
    let reader = Reader {
        reach: &reach,
        limits: args.reading.limits,
        template: args.alpha_image_ref_template.as_ref(),
        kinds: Kinds::All,
        is_quiet: args.quiet,
    };
    let (mut bundles, mut problems) = (BTreeMap::new(), Vec::new());
    let work = |source: &Source| {
        ensure!(
            source.name != "-",
            "standard input is no bundle here; name a file"
        );
        reader.bundle(source, &source.name, args.migrate_level)
    };
    let mut names = images.iter();
    parallel::each(&sources, reach.width(), work, |bundle| -> io::Result<()> {
        let name = names.next().copied().unwrap_or_default();
        match bundle {
            Ok(bundle) => drop(bundles.insert(name.to_owned(), bundle)),
            Err(error) => problems.push(format!("render reference {name:?}: {error:#}")),
        }
        Ok(())
    })?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_a_kind_a_file_or_both() {
        let stdin = None;
        for (words, expected) in ::tests::rows![
            &[][..] => Ok((None, stdin));
            &["semver"] => Ok((Some(Kind::Semver), stdin));
            &["-"] => Ok((None, stdin));
            &["a.yaml"] => Ok((None, Some("a.yaml")));
            &["basic", "-"] => Ok((Some(Kind::Basic), stdin));
            &["substitutes", "semver"] => Ok((Some(Kind::Substitutes), Some("semver")));
            &["Basic", "a"] => Err("*invalid template type \"Basic\"*");
            &["a", "b"] => Err("*basic, semver, substitutes*");
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let expected = expected.map(|(kind, path)| (kind, path.map(Path::new)));
            ::tests::table::assert_outcome(named(&words), expected, &words);
        }
    }
}
