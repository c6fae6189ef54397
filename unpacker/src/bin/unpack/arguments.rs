//! Parser of the command-line arguments.

use std::{ffi::OsString, fmt, path::PathBuf, time::Duration};

use lexopt::{Arg, ValueExt as _};
use manifests::byte_size;
use unpacker::{
    Options, Selection,
    job::{Address, Receiver},
};

use crate::report::TerminationLog;

pub(crate) const HELP: &str = "\
Upload the bundle in a directory as a tar.gz stream.

Usage: unpack --bundle-dir DIR --to URL|- [OPTIONS]
       unpack --install DIR

  --bundle-dir DIR           directory of the bundle, or / for a whole image
  --to URL                   URL of the receiver, https:// or http:// (PUT)
  --to -                     write to standard output
  --only PATH                path to upload, relative to DIR; can be repeated
                             [default: manifests, metadata and tests]
  --all                      upload all files
  --token-file FILE          file of the bearer token, read again for each attempt
  --ca-file FILE             trusted CA bundle [default: the system's, or $SSL_CERT_FILE]
  --tries N                  maximum number of attempts [default: 6]
  --timeout SECONDS          timeout for all attempts together [default: 600]
  --idle-timeout SECONDS     timeout without transferred data [default: 60]
  --termination-message FILE file for the failure message [default: /dev/termination-log]
  --max-size SIZE            size of all files, in bytes or as 64Ki, 32Mi, 1Gi [default: 32Mi]
  --max-file-size SIZE       size of one file [default: 16Mi]
  --max-entries N            number of files, directories and links [default: 10000]
  --max-path-length BYTES    length of a path [default: 1024]
  --max-path-depth N         number of path components [default: 32]
  --install DIR              copy this program to DIR/unpack, and exit
  --help, --version

Exit code: 0 success, 1 failure, 2 usage error, 143 or 130 stopped by a signal.
";

/// The command to run.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Version,
    Install(PathBuf),
    Unpack(Box<Unpack>),
}

/// Options of an upload.
#[derive(Debug)]
pub(crate) struct Unpack {
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) target: Target,
    pub(crate) report: TerminationLog,
}

/// Destination of the archive.
#[derive(Debug)]
pub(crate) enum Target {
    Stdout,
    Receiver(Receiver),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("standard output"),
            Self::Receiver(receiver) => write!(f, "{}", receiver.address),
        }
    }
}

pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let (mut dir, mut to) = (None, None);
    let (mut token_file, mut ca_file) = (None, None);
    let (mut attempts, mut total, mut idle) = (6, 600, 60);
    let mut only: Vec<String> = Vec::new();
    let mut all = false;
    let mut options = Options::default();
    let mut report = TerminationLog::default();
    while let Some(argument) = parser.next()? {
        let Arg::Long(name) = argument else {
            return Err(argument.unexpected());
        };
        match name {
            "help" => return Ok(Command::Help),
            "version" => return Ok(Command::Version),
            "install" => return Ok(Command::Install(parser.value()?.into())),
            "bundle-dir" => dir = Some(PathBuf::from(parser.value()?)),
            "to" => to = Some(parser.value()?.string()?),
            "only" => only.push(parser.value()?.string()?),
            "all" => all = true,
            "token-file" => token_file = Some(parser.value()?.into()),
            "ca-file" => ca_file = Some(parser.value()?.into()),
            "tries" => attempts = parser.value()?.parse_with(positive)?,
            "timeout" => total = parser.value()?.parse_with(positive)?,
            "idle-timeout" => idle = parser.value()?.parse_with(positive)?,
            "termination-message" => report.file = Some(parser.value()?.into()),
            "max-size" => options.limits.total = parser.value()?.parse_with(byte_size::bytes)?,
            "max-file-size" => {
                options.limits.file = parser.value()?.parse_with(byte_size::bytes)?;
            }
            "max-entries" => options.limits.entries = parser.value()?.parse()?,
            "max-path-length" => options.limits.path = parser.value()?.parse()?,
            "max-path-depth" => options.limits.depth = parser.value()?.parse()?,
            _ => return Err(argument.unexpected()),
        }
    }
    let dir = dir.ok_or("--bundle-dir is missing")?;
    let to = to.ok_or("--to is missing")?;
    options.select = match (all, only.is_empty()) {
        (true, false) => return Err("--all and --only cannot be used together".into()),
        (true, true) => Selection::All,
        (false, false) => Selection::Only(only),
        (false, true) => Selection::Only(
            ["manifests", "metadata", "tests"]
                .map(str::to_owned)
                .to_vec(),
        ),
    };
    let target = if to != "-" {
        let address: Address = to
            .parse()
            .map_err(|error| lexopt::Error::Custom(Box::new(error)))?;
        Target::Receiver(Receiver {
            address,
            token_file,
            ca_file,
            attempts,
            total: Duration::from_secs(total.into()),
            idle: Duration::from_secs(idle.into()),
        })
    } else if crate::shows_output() {
        return Err(
            "--to - would write the archive to a terminal; redirect standard output".into(),
        );
    } else {
        Target::Stdout
    };
    Ok(Command::Unpack(Box::new(Unpack {
        dir,
        options,
        target,
        report,
    })))
}

fn positive(text: &str) -> Result<u32, &'static str> {
    match text.parse() {
        Ok(0) | Err(_) => Err("use a whole number above 0"),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_or_rejected_with_a_reason() {
        for (line, problem) in ::tests::rows![
            "--bundle-dir / --to http://h/x" => "";
            "--bundle-dir=/ --to=http://h/x --only a --only b/c" => "";
            "--bundle-dir / --to http://h --all --tries 1 --timeout 1 --max-size 1Gi" => "";
            "--help --nonsense" => "";
            "--to -" => "--bundle-dir is missing";
            "--bundle-dir /" => "--to is missing";
            "--bundle-dir / --to x" => "is not a URL with a scheme";
            "--bundle-dir / --to http://h --all --only a" => "cannot be used together";
            "--bundle-dir / --to http://h --tries 0" => "above 0";
            "--bundle-dir / --to http://h --max-size 1Ti" => "Ki, Mi, Gi";
            "--bundle-dir / --to http://h extra" => "extra";
            "--bundle-dir / --to http://h --token x" => "--token";
            "--install" => "--install";
        ] {
            let found = parse(line.split(' ').map(OsString::from)).err();
            let found = found.map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found.is_empty(), problem.is_empty(), "{line}: {found}");
            ::tests::assert_has(&found, problem);
        }
    }
}
