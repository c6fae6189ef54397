//! `rukpak catalog render` and `rukpak catalog migrate`.

mod reference;

use std::io::{self, IsTerminal as _};

use anyhow::Context;
use catalog::render::{Format, Level, Render, check_empty};

use self::reference::Kinds;
use crate::{
    Exit,
    args::{Blobs, MigrateArgs, RenderArgs},
    message, output,
    reach::Reach,
    source,
};

pub(crate) fn run(args: &RenderArgs) -> anyhow::Result<Exit> {
    let sources = source::all(&args.references, &args.reading.access);
    let reach = Reach::new(&args.reading.access, &sources, args.quiet)?;
    let level = if args.migrate {
        Level::ALL
    } else {
        args.migrate_level
    };
    let mut render = Render::new(level);
    let reader = reference::Reader {
        reach: &reach,
        limits: args.reading.limits,
        template: args.alpha_image_ref_template.as_ref(),
        kinds: Kinds::All,
        is_quiet: args.quiet,
    };
    for (source, text) in sources.iter().zip(&args.references) {
        let text = text.to_string_lossy();
        reader
            .add(source, &text, &mut render)
            .with_context(|| format!("render reference {text:?}"))?;
    }
    drop(reach);
    let rendered = render.finish();
    // Texts in catalogs come from strangers. In JSON what moves cursors is escaped, in YAML most of it.
    let is_terminal = io::stdout().is_terminal();
    output::stream(|out| {
        if !is_terminal {
            return Ok(rendered.write(args.output.into(), out)?);
        }
        let mut text = Vec::new();
        rendered.write(args.output.into(), &mut text)?;
        for line in String::from_utf8_lossy(&text).lines() {
            writeln!(out, "{}", message::clean(line))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

pub(crate) fn migrate(args: &MigrateArgs) -> anyhow::Result<Exit> {
    // Says no before anything is fetched.
    check_empty(&args.folder)?;
    let source = source::one(&args.reference, &args.reading.access);
    let reach = Reach::new(
        &args.reading.access,
        std::slice::from_ref(&source),
        args.quiet,
    )?;
    let mut render = Render::new(args.migrate_level);
    let reader = reference::Reader {
        reach: &reach,
        limits: args.reading.limits,
        template: None,
        kinds: Kinds::Catalogs,
        is_quiet: args.quiet,
    };
    let text = args.reference.to_string_lossy();
    reader
        .add(&source, &text, &mut render)
        .with_context(|| format!("render reference {text:?}"))?;
    drop(reach);
    render
        .finish()
        .write_folder(&args.folder, args.output.into())?;
    if !args.quiet {
        let folder = args.folder.display();
        message::note(&format!("catalog written to {folder}"));
    }
    Ok(Exit::Done)
}

impl From<Blobs> for Format {
    fn from(format: Blobs) -> Self {
        match format {
            Blobs::Json => Self::Json,
            Blobs::Yaml => Self::Yaml,
        }
    }
}
