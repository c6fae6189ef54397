//! Sources of bundles, and their display names.

mod display_name;

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use unpacker::source::{Image, Local};

use crate::args::{self, AccessArgs};

/// A bundle from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Display name, unique within the command line.
    pub(crate) name: String,
    /// Location of the bundle, or an error if the text is not a valid location.
    pub(crate) location: Result<unpacker::Source, unpacker::source::Error>,
}

/// Parses and names the bundles. Exits the process if a text is invalid, or if a bundle would be read from a terminal.
pub(crate) fn all(texts: &[OsString], access: &AccessArgs) -> Vec<Source> {
    let places: Vec<_> = texts.iter().map(|text| locate(text, access)).collect();
    let names = display_name::all(texts, &places).unwrap_or_else(|problem| args::usage(&problem));
    let reads_stdin = |place: &Result<_, _>| *place == Ok(unpacker::Source::Local(Local::Stdin));
    if places.iter().any(reads_stdin) {
        if access.reads_stdin() {
            args::usage(
                "both the bundle and --password-file are \"-\"; only one of them can read standard input",
            );
        }
        if io::stdin().is_terminal() {
            args::usage(
                "\"-\" reads a tar from standard input, but standard input is a terminal; pipe one in",
            );
        }
    }
    let named = names.into_iter().zip(places);
    named
        .map(|(name, place)| Source {
            name,
            location: place,
        })
        .collect()
}

/// Parses the bundle of a command with a single one.
pub(crate) fn one(text: &OsString, access: &AccessArgs) -> Source {
    let Some(source) = all(std::slice::from_ref(text), access).pop() else {
        args::usage("specify a bundle"); // unreachable: `all` returns a source for each text
    };
    source
}

/// Parses a bundle that is not from the command line. Standard input is not a valid source.
pub(crate) fn from_name(text: &str, access: &AccessArgs) -> Source {
    let place = unpacker::Source::parse(text, Path::exists);
    Source {
        name: text.to_owned(),
        location: place.map(|source| on_platform(source, access)),
    }
}

/// Parses the target image of a push; exits the process if it is invalid. This is not a parser of the argument library,
/// which would print a text with a password in it.
pub(crate) fn target(text: &str) -> Image {
    Image::parse(text).unwrap_or_else(|error| args::usage(&error.to_string()))
}

fn locate(
    text: &OsString,
    access: &AccessArgs,
) -> Result<unpacker::Source, unpacker::source::Error> {
    let Some(text) = text.to_str() else {
        // A text that is not UTF-8 can only be a path.
        return Ok(unpacker::Source::Local(Local::Path(text.into())));
    };
    match unpacker::Source::parse(text, Path::exists) {
        Ok(place) => Ok(on_platform(place, access)),
        // A misspelled path fails later, when it is read. Every other invalid text is a usage error.
        Err(error) if text.contains(':') => args::usage(&error.to_string()),
        Err(error) => Err(error),
    }
}

/// Selects the requested platform of an image.
fn on_platform(place: unpacker::Source, access: &AccessArgs) -> unpacker::Source {
    match place {
        unpacker::Source::Image(image) => unpacker::Source::Image(unpacker::source::Image {
            platform: access.platform.clone(),
            ..image
        }),
        place => place,
    }
}

impl Source {
    /// Reports whether the source needs a network.
    pub(crate) fn is_remote(&self) -> bool {
        self.location
            .as_ref()
            .is_ok_and(|place| !matches!(place, unpacker::Source::Local(_)))
    }

    /// Returns the path of a local directory or archive; `None` for other sources.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match &self.location {
            Ok(unpacker::Source::Local(Local::Path(path))) => Some(path),
            _ => None,
        }
    }

    /// Reports whether the source is a directory.
    pub(crate) fn is_folder(&self) -> bool {
        self.path().is_some_and(|path| path.is_dir())
    }

    /// Returns the URI of a remote source; `None` for a local one.
    pub(crate) fn uri(&self) -> Option<String> {
        match self.location.as_ref().ok()? {
            unpacker::Source::Image(image) => Some(format!("docker://{}", image.reference)),
            unpacker::Source::Local(_) => None,
            // A query may contain a secret.
            unpacker::Source::Http(http) => {
                let mut url = http.url.clone();
                url.set_query(None);
                let digest = http.sha256.map(|digest| digest.to_string());
                url.set_fragment(digest.as_deref());
                Some(url.into())
            }
            place @ unpacker::Source::Git(_) => Some(place.to_string()),
        }
    }

    /// Returns the source in the form of a command line argument.
    pub(crate) fn text(&self) -> String {
        match &self.location {
            Ok(place) => place.to_string(),
            Err(_) => self.name.clone(),
        }
    }
}
