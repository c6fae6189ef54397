//! Output of data: formatting, and writing to standard output or files.

pub(crate) mod confirm;
pub(crate) mod interrupt;
pub(crate) mod message;
pub(crate) mod progress;
pub(crate) mod staged_dir;
pub(crate) mod suggest;
pub(crate) mod table;

use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use anyhow::Context;
use kube::ResourceExt as _;
use manifests::{
    api::{GROUP, bundle_instance::BundleInstance},
    object::{Object, is_unprintable},
    yaml,
};
use serde::Serialize;

use crate::{
    args::{ChangeFormat, DescriptionFormat, DryRunMode, ManifestFormat},
    output::interrupt::CleanupGuard,
};

/// Maximum number of symbolic links that lead to a file, as in Linux.
const MAX_LINKS: usize = 40;

/// Marks a failure to write to standard output.
#[derive(Debug)]
struct Stdout;

impl std::fmt::Display for Stdout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("failed to write to standard output")
    }
}

/// Writes data to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    to_stdout(|| io::stdout().lock(), text)
}

/// Writes data with styles, which are removed unless standard output is a terminal.
pub(crate) fn print_styled(text: &str) -> anyhow::Result<()> {
    to_stdout(|| anstream::stdout().lock(), text)
}

/// Calls a function that writes data to standard output, without terminal styles.
pub(crate) fn stream(
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    write(&mut out)
        .and_then(|()| Ok(out.flush()?))
        .context(Stdout)
}

/// Writes objects to standard output as one text.
pub(crate) fn print_manifests(objects: &[Object], format: ManifestFormat) -> anyhow::Result<()> {
    progress::suspend(|| stream(|out| Ok(write_manifests(out, objects, format)?)))
}

/// Writes a value to standard output as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    progress::suspend(|| stream(|out| Ok(write_json(out, value)?)))
}

fn to_stdout<W: Write>(open: impl FnOnce() -> W, text: &str) -> anyhow::Result<()> {
    let write = || {
        let mut out = open();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    progress::suspend(write).context(Stdout)
}

/// Reports whether an error only means that the reader of standard output has closed it.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    };
    error.is::<Stdout>() && error.chain().any(is_pipe)
}

/// Ignores the error of a closed standard output, for a command that continues without a reader.
pub(crate) fn unless_closed(printed: anyhow::Result<()>) -> anyhow::Result<()> {
    match printed {
        Err(error) if is_closed(&error) => Ok(()),
        printed => printed,
    }
}

/// Writes a file atomically. A device, a pipe or a standard stream is written directly.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let failed = || format!("failed to write {}", path.display());
    let mut draft = AtomicFile::new(path)?;
    draft.write_all(text.as_bytes()).with_context(failed)?;
    draft.publish()
}

/// Writes a value to a file as JSON, atomically.
pub(crate) fn write_json_file(path: &Path, value: &impl Serialize) -> anyhow::Result<()> {
    let mut draft = io::BufWriter::new(AtomicFile::new(path)?);
    write_json(&mut draft, value)
        .and_then(|()| draft.flush())
        .with_context(|| format!("failed to write {}", path.display()))?;
    let (draft, _) = draft.into_parts();
    draft.publish()
}

/// A file with a temporary name that gets its final name when it is complete, and is deleted otherwise. The file takes over the
/// mode of a file that it replaces, and symbolic links to that file are kept.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    file: fs::File,
    path: PathBuf,
    /// Temporary name; `None` for a device, a pipe or a standard stream, which is written directly.
    hidden: Option<(PathBuf, CleanupGuard)>,
}

impl AtomicFile {
    pub(crate) fn new(path: &Path) -> anyhow::Result<Self> {
        let failed = || format!("failed to write {}", path.display());
        if let Some(file) = open_directly(path) {
            return Ok(Self {
                file: file.with_context(failed)?,
                path: path.to_owned(),
                hidden: None,
            });
        }
        let path = link_target(path);
        let name = path
            .file_name()
            .with_context(|| format!("{} is not a file name", path.display()))?;
        let mut prefix = OsString::from(".");
        prefix.push(name);
        prefix.push(".");
        let directory = path.parent().unwrap_or(Path::new(""));
        let (temporary, (file, guard)) =
            interrupt::create_unique(directory, &prefix, CleanupGuard::file)
                .with_context(failed)?;
        if let Ok(replaced) = fs::metadata(&path) {
            file.set_permissions(replaced.permissions())
                .with_context(failed)?;
        }
        Ok(Self {
            file,
            path,
            hidden: Some((temporary, guard)),
        })
    }

    /// Renames the file to its final name.
    pub(crate) fn publish(self) -> anyhow::Result<()> {
        if let Some((hidden, guard)) = self.hidden {
            fs::rename(&hidden, &self.path)
                .with_context(|| format!("failed to write {}", self.path.display()))?;
            guard.commit();
        }
        Ok(())
    }
}

/// Follows the symbolic links of a path, and returns the path of the target. The target may not exist.
fn link_target(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path.set_file_name(target);
    }
    path
}

/// Opens a device, a pipe or a standard stream; `None` for another file.
fn open_directly(path: &Path) -> Option<io::Result<fs::File>> {
    let stream = match path.to_str() {
        // A stream may be a file. Its position is shared with all other output.
        Some("/dev/stdout") => io::stdout().as_fd().try_clone_to_owned(),
        Some("/dev/stderr") => io::stderr().as_fd().try_clone_to_owned(),
        _ if fs::metadata(path).is_ok_and(|found| !found.is_file()) => {
            return Some(fs::OpenOptions::new().write(true).open(path));
        }
        _ => return None,
    };
    Some(stream.map(fs::File::from))
}

impl Write for AtomicFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes several objects as one text.
pub(crate) fn write_manifests(
    out: &mut dyn Write,
    objects: &[Object],
    format: ManifestFormat,
) -> io::Result<()> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        api_version: &'static str,
        items: &'a [Object],
        kind: &'static str,
    }
    match format {
        ManifestFormat::Yaml => {
            for (at, object) in objects.iter().enumerate() {
                if at > 0 {
                    out.write_all(b"---\n")?;
                }
                write_manifest(out, object, format)?;
            }
            Ok(())
        }
        ManifestFormat::Json => write_json(
            out,
            &List {
                api_version: "v1",
                items: objects,
                kind: "List",
            },
        ),
    }
}

/// Writes one object.
pub(crate) fn write_manifest(
    out: &mut dyn Write,
    object: &Object,
    format: ManifestFormat,
) -> io::Result<()> {
    match format {
        ManifestFormat::Yaml => yaml::write_to(out, object.value()),
        ManifestFormat::Json => write_json(out, object),
    }
}

/// Formats a description for programs; `None` for the text format.
pub(crate) fn described(
    value: &impl Serialize,
    format: DescriptionFormat,
) -> anyhow::Result<Option<String>> {
    Ok(match format {
        DescriptionFormat::Text => None,
        DescriptionFormat::Json => Some(json(value)?),
        DescriptionFormat::Yaml => {
            Some(yaml::to_string(value).context("failed to write the description as YAML")?)
        }
    })
}

/// Formats an action, and marks it if it was a dry run.
pub(crate) fn print_dry_run(done: &str, dry_run: impl Into<DryRunMode>) -> String {
    match dry_run.into() {
        DryRunMode::None => done.to_owned(),
        DryRunMode::Client => format!("{done} (dry run)"),
        DryRunMode::Server => format!("{done} (server dry run)"),
    }
}

/// Prints a changed instance like kubectl. Objects are printed without `managedFields`.
pub(crate) fn print_changed(
    instance: &BundleInstance,
    done: &str,
    format: ChangeFormat,
) -> anyhow::Result<()> {
    let object = || {
        let mut object = instance.clone();
        object.metadata.managed_fields = None;
        object
    };
    print_instance(&instance.name_any(), done, format, object)
}

/// Prints a BundleInstance like kubectl. `object` is called for the formats that show the object.
pub(crate) fn print_instance<T: Serialize>(
    name: &str,
    done: &str,
    format: ChangeFormat,
    object: impl FnOnce() -> T,
) -> anyhow::Result<()> {
    let name = format!("bundleinstance.{GROUP}/{name}");
    print(&match format {
        ChangeFormat::Text => format!("{name} {done}\n"),
        ChangeFormat::Name => format!("{name}\n"),
        ChangeFormat::Json => json(&object())?,
        ChangeFormat::Yaml => {
            yaml::to_string(&object()).context("failed to write the BundleInstance as YAML")?
        }
    })
}

/// Formats a value as JSON, like [`write_json`].
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let mut text = Vec::new();
    write_json(&mut text, value).context("failed to write JSON")?;
    String::from_utf8(text).context("failed to write JSON")
}

/// Writes a value as JSON. Texts in it are untrusted: characters that move the cursor or change the text direction are
/// escaped.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    // The serializer writes many small chunks.
    let mut out = io::BufWriter::new(out);
    serde_json::to_writer_pretty(Escaping(&mut out), value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Writer that escapes JSON. `serde_json` writes complete characters.
struct Escaping<'a>(&'a mut dyn Write);

impl Write for Escaping<'_> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let text = str::from_utf8(json).map_err(io::Error::other)?;
        escape(self.0, text)?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Escapes unprintable characters. Except for line ends, they occur only in strings of JSON, and none of them is above
/// `U+FFFF`.
fn escape(out: &mut dyn Write, json: &str) -> io::Result<()> {
    let is_special = |c: char| c != '\n' && is_unprintable(c);
    let mut remaining = json;
    while let Some((at, c)) = remaining.char_indices().find(|(_, c)| is_special(*c)) {
        let (before, after) = remaining.split_at(at);
        out.write_all(before.as_bytes())?;
        write!(out, "\\u{:04x}", u32::from(c))?;
        remaining = after.get(c.len_utf8()..).unwrap_or_default();
    }
    out.write_all(remaining.as_bytes())
}

/// A JSON array whose elements are printed as soon as they are available.
#[derive(Debug)]
pub(crate) struct Elements {
    /// The indentation of the array.
    indent: &'static str,
    is_empty: bool,
}

impl Elements {
    pub(crate) fn begin(indent: &'static str) -> anyhow::Result<Self> {
        print("[")?;
        Ok(Self {
            indent,
            is_empty: true,
        })
    }

    /// Prints further elements.
    pub(crate) fn print(
        &mut self,
        values: impl IntoIterator<Item = impl Serialize>,
    ) -> anyhow::Result<()> {
        let end = format!("\n{}  ", self.indent);
        let mut text = String::new();
        for value in values {
            text.push_str(if self.is_empty { "" } else { "," });
            self.is_empty = false;
            text.push_str(&end);
            // Line ends in strings are escaped.
            text.push_str(&json(&value)?.trim_end().replace('\n', &end));
        }
        print(&text)
    }

    pub(crate) fn end(self) -> anyhow::Result<()> {
        if !self.is_empty {
            print(&format!("\n{}", self.indent))?;
        }
        print("]")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use serde_json::json;

    use super::*;

    #[test]
    fn replaced_file_keeps_its_mode_and_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("dir/file"), "").unwrap();
        fs::set_permissions(at("dir/file"), fs::Permissions::from_mode(0o600)).unwrap();
        symlink("file", at("dir/relative")).unwrap();
        symlink(at("dir/relative"), at("chain")).unwrap();
        symlink("dir/new", at("dangling")).unwrap();
        for (path, target) in ::tests::rows![
            "dir/file" => "dir/file";
            "dir/relative" => "dir/file";
            "chain" => "dir/file";
            "dangling" => "dir/new";
            "other" => "other";
        ] {
            let was_link = at(path).is_symlink();
            write(&at(path), path).unwrap();
            ::tests::assert_rows! {
                fs::read_to_string(at(target)).unwrap() => path, "{path}";
                at(path).is_symlink() => was_link, "{path}";
            }
        }
        let mode = fs::metadata(at("dir/file")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn untrusted_text_is_escaped_and_round_trips() {
        let evil =
            "a\u{1b}[2J\u{7f}\u{9b}b\u{202e}c\u{2066}d\u{61c}\u{200f}\u{2028}e\n\"שלום\u{1f600}";
        let value = json!({"k\u{202e}": [evil, evil.replace('\n', ""), "one\n\u{202e}two\n"]});
        let json = super::json(&value).unwrap();
        let yaml = yaml::to_string(&value).unwrap();
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read, value);
        ::tests::assert_rows!(yaml::documents(yaml.as_bytes()).next().unwrap().unwrap() => value);
        for text in [json, yaml] {
            let is_order = |letter| letter != '\n' && is_unprintable(letter);
            assert!(!text.contains(is_order), "{text:?}");
            assert!(text.contains("שלום\u{1f600}"), "{text:?}");
        }
    }
}
