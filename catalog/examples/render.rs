//! Prints a catalog like `opm render`, for measurements without other work: `render FOLDER [yaml]`.

use std::{env, error::Error, io, path::Path};

use catalog::{
    Limits, Source,
    render::{Format, Level, Render},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args().skip(1);
    let dir = args.next().ok_or("render FOLDER [yaml]")?;
    let format = match args.next().as_deref() {
        Some("yaml") => Format::Yaml,
        _ => Format::Json,
    };
    let mut render = Render::new(Level::None);
    render.catalog(Source::Directory(Path::new(&dir)), &Limits::default())?;
    render.finish().write(format, &mut io::stdout().lock())?;
    Ok(())
}
