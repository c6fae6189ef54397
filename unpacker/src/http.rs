//! Archives behind a URL.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    time::Instant,
};

use ::http::StatusCode;
use sha2::{Digest as _, Sha256};

use crate::{
    Access, Digest, Fetched, Options, Progress, Result, Source, Tree,
    access::Basic,
    block::explain,
    source::Http,
    stream_tree,
    web::{self, Client, Reader, Request, Shown},
};

/// Why a URL does not give a bundle.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A URL that would show a password wherever it is repeated.
    #[error(
        "{url} is given with credentials in it; take them out, and pass them by --username and --password-file, or in a Secret"
    )]
    Credentials {
        /// Where it leads to.
        url: Shown,
    },
    /// What came is not what was pinned.
    #[error(
        "{url} gives {}, but is pinned to {expected}; find out who has changed it, and pin the new digest if it is right",
        actual.as_ref().map_or("something else".to_owned(), ToString::to_string)
    )]
    Digest {
        /// Where it came from.
        url: Shown,
        /// What it should be.
        expected: Box<Digest>,
        /// Digest of the received bytes; `None` where remote texts are withheld.
        actual: Option<Box<Digest>>,
        /// Reason why the body is not an archive; `None` if it is one, and where remote texts are withheld.
        #[source]
        source: Option<Box<crate::Error>>,
    },
    /// A page for people.
    #[error(
        "{url} gives a page of HTML or XML and no archive; use the address behind its download link, and pass credentials if it asks to log in"
    )]
    Page {
        /// Where it came from.
        url: Shown,
    },
    /// What came is no archive that can be taken.
    #[error("failed to unpack {url}")]
    Unpack {
        /// Where it came from.
        url: Shown,
        /// Why.
        #[source]
        source: Box<crate::Error>,
    },
}

impl Error {
    /// The kind of failure in one word, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Credentials { .. } => "CredentialsInvalid",
            Self::Digest { .. } => "DigestMismatch",
            Self::Page { .. } => "UnknownFormat",
            Self::Unpack { source, .. } => source.reason(),
        }
    }

    /// Whether the same URL fails again however often it is asked.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Credentials { .. } | Self::Digest { .. } | Self::Page { .. } => true,
            Self::Unpack { source, .. } => source.is_terminal(),
        }
    }
}

impl Error {
    /// Removes what the server chose: see [`Quotes::Withheld`](crate::access::Quotes::Withheld).
    pub(crate) fn withheld(self) -> Self {
        match self {
            Self::Digest { url, expected, .. } => Self::Digest {
                url,
                expected,
                actual: None,
                // The reason describes the body.
                source: None,
            },
            Self::Unpack { url, source } => Self::Unpack {
                url,
                source: source.withheld().into(),
            },
            error @ (Self::Credentials { .. } | Self::Page { .. }) => error,
        }
    }
}

/// Fetches a tar or a gzip-compressed tar. Credentials are only sent to the URL's own server.
///
/// The archive is unpacked as it arrives; should the connection break, it is fetched once more from its start.
///
/// # Errors
/// When the server cannot be reached or gives no archive, the archive holds what is refused or exceeds a limit, or its
/// digest is not the one that is pinned.
pub async fn fetch(
    http: &Http,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched> {
    if !http.url.username().is_empty() || http.url.password().is_some() {
        let url = Shown::from(&http.url);
        return Err(Error::Credentials { url }.into());
    }
    let fetched = persist(http, access, options, progress).await;
    access.quotes.apply(fetched)
}

/// Fetches again when the connection breaks, as often as is allowed.
async fn persist(
    http: &Http,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched> {
    let patience = &access.patience;
    let client = Client::of(access)?;
    let begin = Instant::now();
    let mut tries = 1;
    loop {
        match attempt(&client, http, access, options, progress).await {
            Err(crate::Error::Web(web::Error::Broken { url, read, source }))
                if tries < patience.tries && begin.elapsed() < patience.total =>
            {
                tracing::debug!(%url, read, error = source, "fetching an archive again");
                progress.restart();
                tokio::time::sleep(patience.pause_after(tries)).await;
                tries += 1;
            }
            outcome => return outcome,
        }
    }
}

async fn attempt(
    client: &Client,
    http: &Http,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched> {
    let mut request = Request::get(http.url.clone());
    request.authorization = access.basic.as_ref().map(Basic::authorization);
    let response = client.send(&request).await?;
    if response.status != StatusCode::OK {
        return Err(response.into_error().await.into());
    }
    let url = Shown::from(&http.url);
    let limit = options.stream_limit();
    if let Some(size) = response.size() {
        if size > limit {
            return Err(unpack_failed(url, crate::Error::TooLong { limit }));
        }
        progress.set_total(size);
    }
    let body = Body {
        reader: web::reader(response.into_body()),
        hash: Sha256::new(),
        start: Vec::new(),
        progress: progress.clone(),
    };
    let (options, pin) = (options.clone(), http.sha256);
    let task = tokio::task::spawn_blocking(move || body.read_whole(&options, pin.is_some()));
    let read = task.await.map_err(|error| web::Error::Client {
        source: error.into(),
    })?;
    let (unpacked, body) = match read {
        Err(error @ crate::Error::Web(_)) => return Err(error),
        Err(error) => return Err(unpack_failed(url, error)),
        Ok(read) => read,
    };
    let is_page = web::is_markup(&body.start);
    let digest = Digest::from(body.hash);
    let (tree, unselected) = match (unpacked, pin) {
        (unpacked, Some(expected)) if expected != digest => {
            let source = unpacked.err().map(Box::new);
            return Err(Error::Digest {
                url,
                expected: expected.into(),
                actual: Some(digest.into()),
                source,
            }
            .into());
        }
        (Err(_), _) if is_page => return Err(Error::Page { url }.into()),
        (Err(error), _) => return Err(unpack_failed(url, error)),
        (Ok(unpacked), _) => unpacked,
    };
    let resolved = Http {
        url: http.url.clone(),
        sha256: Some(digest),
    };
    Ok(Fetched {
        resolved: Source::Http(resolved),
        digest: Some(digest),
        tree: tree.strip_top_folder(),
        unselected,
        labels: BTreeMap::new(),
    })
}

fn unpack_failed(url: Shown, source: crate::Error) -> crate::Error {
    let source = Box::new(source);
    Error::Unpack { url, source }.into()
}

/// A body that is hashed and counted while it is read.
struct Body {
    reader: Reader,
    hash: Sha256,
    /// Its first bytes, to tell what it is if it is no archive.
    start: Vec<u8>,
    progress: Progress,
}

/// What is in an archive, or why it is none.
type Contents = Result<(Tree, usize)>;

impl Body {
    /// Reads the archive, and whatever follows it, which counts for the digest. What is no archive is only read on if
    /// its digest must be known.
    fn read_whole(mut self, options: &Options, pinned: bool) -> Result<(Contents, Self)> {
        let limit = options.stream_limit();
        let contents = match stream_tree(&mut self, options) {
            Err(error @ (crate::Error::Web(_) | crate::Error::TooLong { .. })) => {
                return Err(error);
            }
            contents => contents,
        };
        if pinned || contents.is_ok() {
            let mut rest = (&mut self).take(limit);
            let read = io::copy(&mut rest, &mut io::sink());
            let read = read.map_err(|error| explain(error, "behind its end".to_owned()))?;
            if read == limit {
                return Err(crate::Error::TooLong { limit });
            }
        }
        Ok((contents, self))
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        self.hash.update(bytes);
        let wanted = 64usize.saturating_sub(self.start.len());
        self.start.extend(bytes.iter().take(wanted));
        self.progress.add(count as u64);
        Ok(count)
    }
}
