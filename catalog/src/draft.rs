//! What the author of a catalog begins with: the blob of a package, and the Dockerfile of an image with the catalog.
//!
//! The blob has the bytes that `opm init` prints. The Dockerfile has the instructions of `opm generate dockerfile`, one by one;
//! what goes into them is checked, so that no text of it can become an instruction.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt::Write as _};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use manifests::{content, image::Reference, names};
use serde_json::json;

use crate::{
    render::{self, Level, Render, Rendered},
    source::{Limits, Source},
};

/// What serves catalogs, and is expected in the image below one.
pub const OPM: &str = "quay.io/operator-framework/opm:latest";
/// The base of an image that has no program.
pub const SCRATCH: &str = "scratch";

/// Why there is no beginning.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The package's name.
    #[error("invalid package name {name:?}: {problem}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The icon is of none of the types that are known.
    #[error("the icon is no image; it may be SVG, PNG, JPEG, GIF, WebP, BMP, TIFF or ICO")]
    Icon,
    /// The blob itself.
    #[error(transparent)]
    Render(#[from] render::Error),
    /// A file of the blob cannot be kept.
    #[error(transparent)]
    Content(#[from] content::Error),
    /// An image is no reference, or cannot be there.
    #[error("invalid {what} image {image:?}: {problem}")]
    Image {
        /// What it is for.
        what: &'static str,
        /// As it was written.
        image: String,
        /// What is wrong.
        problem: String,
    },
    /// The name of the folder means something else in a Dockerfile.
    #[error(
        "the folder's name {0:?} cannot stand in a Dockerfile; rename it, without spaces, quotes and any of $ \\ * ? ["
    )]
    Folder(String),
    /// A label would end before its end.
    #[error(
        "invalid label {0:?}: neither its name nor its value may have quotes, backslashes or line breaks"
    )]
    Label(String),
}

/// A package that there is no catalog of yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Package<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its default channel, empty if it is not known yet.
    pub default_channel: &'a str,
    /// What it is, in Markdown.
    pub description: Option<&'a str>,
    /// An image.
    pub icon: Option<&'a [u8]>,
}

/// The blob of a package.
///
/// # Errors
/// When its name is none, or its icon no image.
pub fn package(package: Package<'_>) -> Result<Rendered, Error> {
    let name = package.name;
    names::dns_label(name).map_err(|problem| Error::Name {
        name: name.chars().take(100).collect(),
        problem,
    })?;
    let icon = package.icon.map(|icon| {
        let type_ = media_type(icon).ok_or(Error::Icon)?;
        Ok::<_, Error>(json!({"base64data": BASE64_STANDARD.encode(icon), "mediatype": type_}))
    });
    // What is null is not there.
    let blob = json!({
        "schema": "olm.package",
        "name": name,
        "defaultChannel": package.default_channel,
        "icon": icon.transpose()?,
        "description": package.description,
    });
    let mut files = content::Builder::new(content::Limits::default());
    files.add("package.json", 0o644, &mut blob.to_string().as_bytes())?;
    let mut render = Render::new(Level::None);
    render.catalog(Source::Content(&files.finish()), &Limits::default())?;
    Ok(render.finish())
}

/// What kind of image this is. opm goes by the same first bytes, and knows no SVG.
fn media_type(image: &[u8]) -> Option<&'static str> {
    const STARTS: [(&[u8], &str); 7] = [
        (b"\x89PNG", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF", "image/gif"),
        (b"BM", "image/bmp"),
        (b"II*\0", "image/tiff"),
        (b"MM\0*", "image/tiff"),
        (b"\0\0\x01\0", "image/vnd.microsoft.icon"),
    ];
    let known = STARTS.iter().find(|(start, _)| image.starts_with(start));
    if let Some((_, type_)) = known {
        return Some(type_);
    }
    if image.starts_with(b"RIFF") && image.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    // XML may say more before its root: instructions, comments, and a type with entities in brackets.
    let text = std::str::from_utf8(image).ok()?;
    let mut text = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let ends = [("<?", "?>"), ("<!--", "-->"), ("<!", ">")];
        let Some((_, end)) = ends.iter().find(|(start, _)| text.starts_with(start)) else {
            return text.starts_with("<svg").then_some("image/svg+xml");
        };
        let rest = |c: char| c.is_whitespace() || c == ']' || c == '>';
        text = text.split_once(end)?.1.trim_start_matches(rest);
    }
}

/// An image with a catalog.
#[derive(Debug, Clone)]
pub struct Dockerfile<'a> {
    /// The name of the catalog's folder, beside the Dockerfile.
    pub folder: &'a str,
    /// What the image is made from: [`SCRATCH`], or one that can serve catalogs.
    pub base: &'a str,
    /// What makes the cache.
    pub builder: &'a str,
    /// Labels besides the one that says where the catalog is.
    pub labels: &'a BTreeMap<String, String>,
}

// === impl Dockerfile ===

impl Dockerfile<'_> {
    /// Its text.
    ///
    /// # Errors
    /// When something cannot stand where it is to stand.
    pub fn text(&self) -> Result<String, Error> {
        self.check()?;
        let Self {
            folder,
            base,
            builder,
            labels,
        } = self;
        let mut text = format!(
            "# /bin/opm of this image makes the cache\n\
             FROM {builder} as builder\n\
             \n\
             # The catalog, and what would have to be made of it whenever it is served\n\
             ADD {folder} /configs\n\
             RUN [\"/bin/opm\", \"serve\", \"/configs\", \"--cache-dir=/tmp/cache\", \"--cache-only\"]\n\
             \n\
             FROM {base}\n"
        );
        text.push_str(if *base == SCRATCH {
            "# Nothing in here serves it: the CatalogSource needs spec.grpcPodConfig.extractContent, with the catalogDir\n\
             # /configs and the cacheDir /tmp/cache\n"
        } else {
            "# It has /bin/opm, and /bin/grpc_health_probe for the probes of its pod\n\
             ENTRYPOINT [\"/bin/opm\"]\n\
             CMD [\"serve\", \"/configs\", \"--cache-dir=/tmp/cache\"]\n"
        });
        text.push_str(
            "\n\
             COPY --from=builder /configs /configs\n\
             COPY --from=builder /tmp/cache /tmp/cache\n\
             \n\
             # Says where the catalog is\n\
             LABEL operators.operatorframework.io.index.configs.v1=/configs\n",
        );
        for (key, value) in *labels {
            // Writing to a text does not fail.
            let _ = writeln!(text, "LABEL \"{key}\"=\"{value}\"");
        }
        Ok(text)
    }

    fn check(&self) -> Result<(), Error> {
        let image = |what, image: &str| {
            let parsed: Result<Reference, _> = image.parse();
            parsed.map(drop).map_err(|error| Error::Image {
                what,
                image: image.chars().take(300).collect(),
                problem: error.to_string(),
            })
        };
        if self.builder == SCRATCH {
            return Err(Error::Image {
                what: "builder",
                image: SCRATCH.to_owned(),
                problem: "it has no /bin/opm; name one that does".to_owned(),
            });
        }
        image("builder", self.builder)?;
        if self.base != SCRATCH {
            image("base", self.base)?;
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "\"'$\\*?[".contains(c);
        if self.folder.is_empty() || self.folder.starts_with('-') || self.folder.contains(is_odd) {
            return Err(Error::Folder(self.folder.to_owned()));
        }
        let ends = |c: char| c.is_control() || "\"\\".contains(c);
        let bad = |(key, value): &(&String, &String)| {
            key.is_empty() || key.contains(ends) || value.contains(ends)
        };
        match self.labels.iter().find(bad) {
            Some((key, value)) => Err(Error::Label(format!("{key}={value}"))),
            None => Ok(()),
        }
    }
}
