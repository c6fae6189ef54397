//! Where bundles come from, and what they are called.

mod name;

use std::{
    ffi::OsString,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
};

use unpacker::source::{Image, Local};

use crate::args::{self, AccessArgs};

/// A bundle that was named on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// Tells it from the others.
    pub(crate) name: String,
    /// Where it is; an error if there is no such thing.
    pub(crate) place: Result<unpacker::Source, unpacker::source::Error>,
}

/// Understands and names the bundles; ends the process when that cannot be done, or when one of them would have to be
/// typed.
pub(crate) fn all(texts: &[OsString], access: &AccessArgs) -> Vec<Source> {
    let places: Vec<_> = texts.iter().map(|text| place(text, access)).collect();
    let names = name::all(texts, &places).unwrap_or_else(|problem| args::usage(&problem));
    let reads_stdin = |place: &Result<_, _>| *place == Ok(unpacker::Source::Local(Local::Stdin));
    if places.iter().any(reads_stdin) {
        if access.reads_stdin() {
            args::usage(
                "both the bundle and --password-file are \"-\"; standard input can be only one of them",
            );
        }
        if io::stdin().is_terminal() {
            args::usage(
                "\"-\" reads a tar from standard input, which is a terminal; pipe one into it",
            );
        }
    }
    let named = names.into_iter().zip(places);
    named.map(|(name, place)| Source { name, place }).collect()
}

/// The only bundle of a command that takes one.
pub(crate) fn one(text: &OsString, access: &AccessArgs) -> Source {
    let Some(source) = all(std::slice::from_ref(text), access).pop() else {
        args::usage("name a bundle"); // there is one
    };
    source
}

/// A bundle that something else than the command line names, where standard input is no bundle.
pub(crate) fn named(text: &str, access: &AccessArgs) -> Source {
    let place = unpacker::Source::parse(text, Path::exists);
    Source {
        name: text.to_owned(),
        place: place.map(|it| on_platform(it, access)),
    }
}

/// An image that is to be published; ends the process if the text names none. Not a parser of the flags' library,
/// which would repeat a text with a password in it.
pub(crate) fn target(text: &str) -> Image {
    Image::parse(text).unwrap_or_else(|error| args::usage(&error.to_string()))
}

fn place(
    text: &OsString,
    access: &AccessArgs,
) -> Result<unpacker::Source, unpacker::source::Error> {
    let Some(text) = text.to_str() else {
        // Whatever is not UTF-8 can only be a path.
        return Ok(unpacker::Source::Local(Local::Path(text.into())));
    };
    match unpacker::Source::parse(text, Path::exists) {
        Ok(place) => Ok(on_platform(place, access)),
        // A path that is mistyped fails as one that cannot be read; everything else is no command line.
        Err(error) if text.contains(':') => args::usage(&error.to_string()),
        Err(error) => Err(error),
    }
}

/// Of an image for several platforms, that of the one that is asked for.
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
    /// Whether a network is needed for it.
    pub(crate) fn is_remote(&self) -> bool {
        self.place
            .as_ref()
            .is_ok_and(|place| !matches!(place, unpacker::Source::Local(_)))
    }

    /// The folder or archive, if it is one.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        match &self.place {
            Ok(unpacker::Source::Local(Local::Path(path))) => Some(path),
            _ => None,
        }
    }

    /// Whether files of the bundle can be found in the file system.
    pub(crate) fn is_folder(&self) -> bool {
        self.path().is_some_and(|path| path.is_dir())
    }

    /// The address of what is not in the file system.
    pub(crate) fn uri(&self) -> Option<String> {
        match self.place.as_ref().ok()? {
            unpacker::Source::Image(image) => Some(format!("docker://{}", image.reference)),
            unpacker::Source::Local(_) => None,
            // A query may be a secret.
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

    /// As one could write it in another command.
    pub(crate) fn text(&self) -> String {
        match &self.place {
            Ok(place) => place.to_string(),
            Err(_) => self.name.clone(),
        }
    }
}
