//! `rukpak catalog init` and `rukpak catalog dockerfile`.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use catalog::draft::{Dockerfile, Package, package};

use crate::{
    Exit,
    args::{CatalogDockerfileArgs, CatalogInitArgs},
    message, output,
};

/// Clients of catalogs take messages of 4 MiB.
const LARGEST: u64 = 4 << 20;

pub(super) fn init(args: &CatalogInitArgs) -> anyhow::Result<Exit> {
    let description = args.description.as_deref().map(|path| {
        let text = String::from_utf8(read(path)?);
        text.with_context(|| format!("description {}: write it in UTF-8", path.display()))
    });
    let icon = args.icon.as_deref().map(read).transpose()?;
    let description = description.transpose()?;
    let rendered = package(Package {
        name: &args.package,
        default_channel: &args.default_channel,
        description: description.as_deref(),
        icon: icon.as_deref(),
    })?;
    output::stream(|out| Ok(rendered.write(args.output.into(), out)?))?;
    Ok(Exit::Done)
}

/// A file that becomes a part of the blob.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("failed to read {}", path.display());
    let file = fs::File::open(path).with_context(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .with_context(failed)?;
    ensure!(
        bytes.len() as u64 <= LARGEST,
        "{} is larger than {LARGEST} bytes, which no client of a catalog takes",
        path.display()
    );
    Ok(bytes)
}

pub(super) fn dockerfile(args: &CatalogDockerfileArgs) -> anyhow::Result<Exit> {
    let folder = &args.folder;
    let Some(name) = folder.file_name().and_then(|it| it.to_str()) else {
        bail!(
            "{} has no name that can stand in a Dockerfile; name the folder from the one above it",
            folder.display()
        );
    };
    let labels: BTreeMap<String, String> = args.extra_labels.iter().cloned().collect();
    let text = Dockerfile {
        folder: name,
        base: &args.base_image,
        builder: &args.builder_image,
        labels: &labels,
    }
    .text()?;
    let about = fs::metadata(folder).with_context(|| format!("folder {}", folder.display()))?;
    ensure!(
        about.is_dir(),
        "{} is no folder; name the catalog's",
        folder.display()
    );
    let path = folder.with_file_name(format!("{name}.Dockerfile"));
    let failed = || format!("failed to write {}", path.display());
    let file = fs::File::options().write(true).create_new(true).open(&path);
    let mut file = match file {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} is there already; remove it first", path.display())
        }
        file => file.with_context(failed)?,
    };
    file.write_all(text.as_bytes()).with_context(failed)?;
    message::note(&format!("{} written", path.display()));
    Ok(Exit::Done)
}
