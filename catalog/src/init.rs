//! Initial files of a new catalog: the blob of a package, and the Dockerfile of a catalog image.
//!
//! The blob has the bytes that `opm init` prints. The Dockerfile has the instructions of `opm generate dockerfile`. Its
//! inputs are validated, so that no text can become an instruction.

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

/// Image of the program that serves catalogs, as base and builder of a catalog image.
pub const OPM: &str = "quay.io/operator-framework/opm:latest";
/// Base of an image without a program.
pub const SCRATCH: &str = "scratch";

/// Reasons why the files cannot be generated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The package name is invalid.
    #[error("invalid package name {name:?}: {problem}")]
    Name {
        /// Name of the package.
        name: String,
        /// Description of the problem.
        problem: &'static str,
    },
    /// The icon has an unknown image type.
    #[error("the icon is not a supported image; use SVG, PNG, JPEG, GIF, WebP, BMP, TIFF or ICO")]
    Icon,
    /// The blob cannot be rendered.
    #[error(transparent)]
    Render(#[from] render::Error),
    /// The blob exceeds a limit of the content.
    #[error(transparent)]
    Content(#[from] content::Error),
    /// An image reference is invalid or not suitable.
    #[error("invalid {what} image {image:?}: {problem}")]
    Image {
        /// Purpose of the image.
        what: &'static str,
        /// Image reference as specified.
        image: String,
        /// Description of the problem.
        problem: String,
    },
    /// The directory name has a special meaning in a Dockerfile.
    #[error(
        "the directory name {0:?} is not valid in a Dockerfile; rename the directory, without spaces, quotes and any of $ \
         \\ * ? ["
    )]
    Directory(String),
    /// A label contains quotes, backslashes or line breaks.
    #[error(
        "invalid label {0:?}: name and value must not contain quotes, backslashes or line breaks"
    )]
    Label(String),
}

/// A package without a catalog.
#[derive(Debug, Clone, Copy, Default)]
pub struct PackageTemplate<'a> {
    /// Name of the package.
    pub name: &'a str,
    /// Default channel; empty if it is not known yet.
    pub default_channel: &'a str,
    /// Description of the package in Markdown.
    pub description: Option<&'a str>,
    /// Icon of the package as image file.
    pub icon: Option<&'a [u8]>,
}

/// Generates the blob of a package.
///
/// # Errors
/// Returns an error if the name is invalid or the icon is not an image.
pub fn package(package: PackageTemplate<'_>) -> Result<Rendered, Error> {
    let name = package.name;
    names::dns_label(name).map_err(|problem| Error::Name {
        name: name.chars().take(100).collect(),
        problem,
    })?;
    let icon = package.icon.map(|icon| {
        let type_ = media_type(icon).ok_or(Error::Icon)?;
        Ok::<_, Error>(json!({"base64data": BASE64_STANDARD.encode(icon), "mediatype": type_}))
    });
    // Null values are omitted.
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

/// Detects the type of an image. opm has further types (JPEG 2000, HEIF, JPEG XR, PSD, DWG, and CR2 beside TIFF), and
/// detects SVG only with a closing tag.
fn media_type(image: &[u8]) -> Option<&'static str> {
    const IMAGE_SIGNATURES: [(&[u8], &str); 7] = [
        (b"\x89PNG", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF", "image/gif"),
        (b"BM", "image/bmp"),
        (b"II*\0", "image/tiff"),
        (b"MM\0*", "image/tiff"),
        (b"\0\0\x01\0", "image/vnd.microsoft.icon"),
    ];
    let signature = IMAGE_SIGNATURES
        .iter()
        .find(|(start, _)| image.starts_with(start));
    if let Some((_, type_)) = signature {
        return Some(type_);
    }
    if image.starts_with(b"RIFF") && image.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    // XML can have processing instructions, comments and a document type before its root.
    let text = std::str::from_utf8(image).ok()?;
    let mut text = text.trim_start_matches('\u{feff}').trim_start();
    loop {
        let ends = [("<?", "?>"), ("<!--", "-->"), ("<!", ">")];
        let Some((_, end)) = ends.iter().find(|(start, _)| text.starts_with(start)) else {
            return text.starts_with("<svg").then_some("image/svg+xml");
        };
        let is_filler = |c: char| c.is_whitespace() || c == ']' || c == '>';
        text = text.split_once(end)?.1.trim_start_matches(is_filler);
    }
}

/// Dockerfile of a catalog image.
#[derive(Debug, Clone)]
pub struct Dockerfile<'a> {
    /// Name of the catalog's directory, next to the Dockerfile.
    pub dir: &'a str,
    /// Base image: [`SCRATCH`], or an image that can serve catalogs.
    pub base: &'a str,
    /// Image of the builder stage, which creates the cache.
    pub builder: &'a str,
    /// Labels in addition to the one with the location of the catalog.
    pub labels: &'a BTreeMap<String, String>,
}

// === impl Dockerfile ===

impl Dockerfile<'_> {
    /// Returns the text of the Dockerfile.
    ///
    /// # Errors
    /// Returns an error if an input is not allowed at its position.
    pub fn text(&self) -> Result<String, Error> {
        self.check()?;
        let Self {
            dir,
            base,
            builder,
            labels,
        } = self;
        let mut text = format!(
            "# /bin/opm of this image builds the cache\n\
             FROM {builder} as builder\n\
             \n\
             # The catalog and its cache, which would otherwise be built at every start\n\
             ADD {dir} /configs\n\
             RUN [\"/bin/opm\", \"serve\", \"/configs\", \"--cache-dir=/tmp/cache\", \"--cache-only\"]\n\
             \n\
             FROM {base}\n"
        );
        text.push_str(if *base == SCRATCH {
            "# This image has no catalog server: set spec.grpcPodConfig.extractContent of the CatalogSource, with the catalogDir\n\
             # /configs and the cacheDir /tmp/cache\n"
        } else {
            "# The base image has /bin/opm, and /bin/grpc_health_probe for the probes of the pod\n\
             ENTRYPOINT [\"/bin/opm\"]\n\
             CMD [\"serve\", \"/configs\", \"--cache-dir=/tmp/cache\"]\n"
        });
        text.push_str(
            "\n\
             COPY --from=builder /configs /configs\n\
             COPY --from=builder /tmp/cache /tmp/cache\n\
             \n\
             # The location of the catalog\n\
             LABEL operators.operatorframework.io.index.configs.v1=/configs\n",
        );
        for (key, value) in *labels {
            // Writing to a String never fails.
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
                problem: "the image has no /bin/opm; use an image with /bin/opm".to_owned(),
            });
        }
        image("builder", self.builder)?;
        if self.base != SCRATCH {
            image("base", self.base)?;
        }
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || "\"'$\\*?[".contains(c);
        if self.dir.is_empty() || self.dir.starts_with('-') || self.dir.contains(is_odd) {
            return Err(Error::Directory(self.dir.to_owned()));
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
