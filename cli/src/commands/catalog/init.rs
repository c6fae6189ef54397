//! `rukpak catalog init` and `rukpak catalog dockerfile`.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read as _, Write as _},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use catalog::init::{Dockerfile, PackageTemplate, package};

use crate::{
    ExitStatus,
    args::{CatalogDockerfileArgs, CatalogInitArgs},
    output,
    output::message,
};

/// Maximum size of an icon or a description: clients of catalogs accept messages of up to 4 MiB.
const MAX_PART_SIZE: u64 = 4 << 20;

pub(super) fn init(args: &CatalogInitArgs) -> anyhow::Result<ExitStatus> {
    let description = args.description.as_deref().map(|path| {
        let text = String::from_utf8(read(path)?);
        text.with_context(|| {
            format!(
                "description {} is not valid UTF-8; convert the file to UTF-8",
                path.display()
            )
        })
    });
    let icon = args.icon.as_deref().map(read).transpose()?;
    let description = description.transpose()?;
    let rendered = package(PackageTemplate {
        name: &args.package,
        default_channel: &args.default_channel,
        description: description.as_deref(),
        icon: icon.as_deref(),
    })?;
    output::stream(|out| Ok(rendered.write(args.output.into(), out)?))?;
    Ok(ExitStatus::Done)
}

/// Reads a file that becomes a part of the blob.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("failed to read {}", path.display());
    let file = fs::File::open(path).with_context(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_PART_SIZE + 1)
        .read_to_end(&mut bytes)
        .with_context(failed)?;
    ensure!(
        bytes.len() as u64 <= MAX_PART_SIZE,
        "{} exceeds {MAX_PART_SIZE} bytes, the limit of catalog clients; use a smaller file",
        path.display()
    );
    Ok(bytes)
}

pub(super) fn dockerfile(args: &CatalogDockerfileArgs) -> anyhow::Result<ExitStatus> {
    let directory = &args.dir;
    let Some(name) = directory.file_name().and_then(|name| name.to_str()) else {
        bail!(
            "{} has no name that a Dockerfile can use; run the command in the parent directory, and specify the \
             directory by name",
            directory.display()
        );
    };
    let labels: BTreeMap<String, String> = args.extra_labels.iter().cloned().collect();
    let text = Dockerfile {
        dir: name,
        base: &args.base_image,
        builder: &args.builder_image,
        labels: &labels,
    }
    .text()?;
    let metadata =
        fs::metadata(directory).with_context(|| format!("directory {}", directory.display()))?;
    ensure!(
        metadata.is_dir(),
        "{} is not a directory; specify the directory of the catalog",
        directory.display()
    );
    let path = directory.with_file_name(format!("{name}.Dockerfile"));
    let failed = || format!("failed to write {}", path.display());
    let file = fs::File::options().write(true).create_new(true).open(&path);
    let mut file = match file {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} already exists; remove it first", path.display())
        }
        file => file.with_context(failed)?,
    };
    file.write_all(text.as_bytes()).with_context(failed)?;
    message::note(&format!("{} written", path.display()));
    Ok(ExitStatus::Done)
}
