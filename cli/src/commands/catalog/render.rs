//! `rukpak catalog render` and `rukpak catalog migrate`.

pub(crate) mod reference;

use std::io::{self, IsTerminal as _, Write};

use anyhow::Context;
use catalog::render::{Format, Level, Render, ensure_empty};

use self::reference::AllowedKinds;
use crate::{
    ExitStatus,
    args::{BlobFormat, MigrateArgs, RenderArgs},
    fetch::Fetcher,
    output,
    output::{
        message,
        staged_dir::{self, ExistingPolicy, StagedDir},
    },
    source,
};

pub(crate) fn run(args: &RenderArgs) -> anyhow::Result<ExitStatus> {
    let sources = source::all(&args.references, &args.reading.access);
    let fetcher = Fetcher::new(&args.reading.access, &sources, args.quiet)?;
    let level = if args.migrate {
        Level::ALL
    } else {
        args.migrate_level
    };
    let mut render = Render::new(level);
    let reader = reference::ReferenceReader {
        fetcher: &fetcher,
        limits: args.reading.limits,
        template: args.alpha_image_ref_template.as_ref(),
        kinds: AllowedKinds::All,
        is_quiet: args.quiet,
    };
    for (source, text) in sources.iter().zip(&args.references) {
        let text = text.to_string_lossy();
        reader
            .add(source, &text, &mut render)
            .with_context(|| format!("render reference {text:?}"))?;
    }
    drop(fetcher);
    let rendered = render.finish();
    let format = args.output.into();
    rendered.check(format)?;
    print(|out| Ok(rendered.write(format, out)?))?;
    Ok(ExitStatus::Done)
}

/// Prints catalog data. Texts in catalogs are untrusted: JSON escapes all characters that move the cursor, YAML most of
/// them. The rest is removed for a terminal.
pub(super) fn print(write: impl Fn(&mut dyn Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    output::stream(|out| {
        if !is_terminal {
            return write(out);
        }
        let mut text = Vec::new();
        write(&mut text)?;
        for line in String::from_utf8_lossy(&text).lines() {
            writeln!(out, "{}", message::sanitize(line))?;
        }
        Ok(())
    })
}

pub(crate) fn migrate(args: &MigrateArgs) -> anyhow::Result<ExitStatus> {
    // Fails before anything is fetched.
    ensure_empty(&args.folder)?;
    let source = source::one(&args.reference, &args.reading.access);
    let fetcher = Fetcher::new(
        &args.reading.access,
        std::slice::from_ref(&source),
        args.quiet,
    )?;
    let mut render = Render::new(args.migrate_level);
    let reader = reference::ReferenceReader {
        fetcher: &fetcher,
        limits: args.reading.limits,
        template: None,
        kinds: AllowedKinds::Catalogs,
        is_quiet: args.quiet,
    };
    let text = args.reference.to_string_lossy();
    reader
        .add(&source, &text, &mut render)
        .with_context(|| format!("render reference {text:?}"))?;
    drop(fetcher);
    let rendered = render.finish();
    let files = rendered.files(args.output.into())?;
    let staged = StagedDir::new(&args.folder, ExistingPolicy::Empty)?;
    for file in &files {
        staged.add_with(&file.path, staged_dir::FILE, |out| file.write(out))?;
    }
    staged.publish(|_| false)?;
    if !args.quiet {
        let directory = args.folder.display();
        message::note(&format!("catalog written to {directory}"));
    }
    Ok(ExitStatus::Done)
}

impl From<BlobFormat> for Format {
    fn from(format: BlobFormat) -> Self {
        match format {
            BlobFormat::Json => Self::Json,
            BlobFormat::Yaml => Self::Yaml,
        }
    }
}
