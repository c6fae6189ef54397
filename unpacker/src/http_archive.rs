//! Archives at a URL.

use std::{
    collections::BTreeMap,
    io::{self, Read},
    time::Instant,
};

use ::http::StatusCode;
use sha2::{Digest as _, Sha256};

use crate::{
    Access, Digest, Fetched, Options, Progress, Result, Source, Tree,
    http_client::{self, Client, Reader, RedactedUrl, Request},
    source::Http,
    stream_tree,
    tar::blocks::explain,
    trust::Basic,
};

/// An error of an archive at a URL.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL contains credentials, which would appear in logs and messages.
    #[error(
        "{url} contains credentials; remove them, and pass them with --username and --password-file, or in a Secret"
    )]
    Credentials {
        /// URL without the credentials.
        url: RedactedUrl,
    },
    /// The archive does not match the pinned digest.
    #[error(
        "{url} provides {}, but is pinned to {expected}; find out why it changed, and pin the new digest if it is correct",
        actual.as_ref().map_or("other content".to_owned(), ToString::to_string)
    )]
    Digest {
        /// URL of the archive.
        url: RedactedUrl,
        /// Digest that is pinned.
        expected: Box<Digest>,
        /// Digest of the received bytes; `None` where remote texts are withheld.
        actual: Option<Box<Digest>>,
        /// Reason why the body is not an archive; `None` if it is one, and where remote texts are withheld.
        #[source]
        source: Option<Box<crate::Error>>,
    },
    /// The server sent an HTML or XML page.
    #[error(
        "{url} is an HTML or XML page, not an archive; use the URL of its download link, and pass credentials if it requires a login"
    )]
    HtmlPage {
        /// URL of the page.
        url: RedactedUrl,
    },
    /// The body is not an archive, or its content is rejected.
    #[error("failed to unpack {url}")]
    Unpack {
        /// URL of the archive.
        url: RedactedUrl,
        /// Cause of the failure.
        #[source]
        source: Box<crate::Error>,
    },
}

impl Error {
    /// Returns the CamelCase reason of this failure, for conditions, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Credentials { .. } => "CredentialsInvalid",
            Self::Digest { .. } => "DigestMismatch",
            Self::HtmlPage { .. } => "UnknownFormat",
            Self::Unpack { source, .. } => source.reason(),
        }
    }

    /// Reports whether the same URL always fails.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Credentials { .. } | Self::Digest { .. } | Self::HtmlPage { .. } => true,
            Self::Unpack { source, .. } => source.is_terminal(),
        }
    }
}

impl Error {
    /// Removes texts that the server chose: see [`Quotes::Withheld`](crate::trust::Quotes::Withheld).
    pub(crate) fn withhold(&mut self) {
        match self {
            // The source describes the body.
            Self::Digest { actual, source, .. } => {
                *actual = None;
                *source = None;
            }
            Self::Unpack { source, .. } => source.withhold(),
            Self::Credentials { .. } | Self::HtmlPage { .. } => {}
        }
    }
}

/// Fetches a tar or tar.gz archive. Credentials are sent only to the server in the URL.
///
/// The archive is unpacked while it arrives. If the connection breaks, the fetch restarts.
///
/// # Errors
/// Returns an error if the server is unreachable or sends no archive, or if the content is rejected or exceeds a
/// limit. A digest that does not match the pinned one is an error, too.
pub async fn fetch(
    http: &Http,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched> {
    if !http.url.username().is_empty() || http.url.password().is_some() {
        let url = RedactedUrl::from(&http.url);
        return Err(Error::Credentials { url }.into());
    }
    let fetched = fetch_with_retries(http, access, options, progress).await;
    access.quotes.apply(fetched)
}

/// Repeats the fetch while the connection breaks, within the limits for attempts and time.
async fn fetch_with_retries(
    http: &Http,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched> {
    let timeouts = &access.timeouts;
    let client = Client::from_access(access)?;
    let started = Instant::now();
    let mut attempts = 1;
    loop {
        match attempt(&client, http, access, options, progress).await {
            Err(crate::Error::Web(http_client::Error::Disconnected { url, read, source }))
                if attempts < timeouts.attempts && started.elapsed() < timeouts.total =>
            {
                tracing::debug!(%url, read, error = source, "retrying the download of an archive");
                progress.restart();
                tokio::time::sleep(timeouts.delay_after(attempts)).await;
                attempts += 1;
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
    let url = RedactedUrl::from(&http.url);
    let limit = options.stream_limit();
    if let Some(size) = response.size() {
        if size > limit {
            return Err(unpack_failed(url, crate::Error::TooLong { limit }));
        }
        progress.set_total(size);
    }
    let body = HashingBody {
        reader: http_client::reader(response.into_body()),
        hash: Sha256::new(),
        start: Vec::new(),
        progress: progress.clone(),
    };
    let (options, pin) = (options.clone(), http.sha256);
    let task = tokio::task::spawn_blocking(move || body.read_whole(&options, pin.is_some()));
    let read = task.await.map_err(|error| http_client::Error::Client {
        source: error.into(),
    })?;
    let (unpacked, body) = match read {
        Err(error @ crate::Error::Web(_)) => return Err(error),
        Err(error) => return Err(unpack_failed(url, error)),
        Ok(read) => read,
    };
    let is_page = http_client::is_html(&body.start);
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
        (Err(_), _) if is_page => return Err(Error::HtmlPage { url }.into()),
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

fn unpack_failed(url: RedactedUrl, source: crate::Error) -> crate::Error {
    let source = Box::new(source);
    Error::Unpack { url, source }.into()
}

/// A body that is hashed and counted while it is read.
struct HashingBody {
    reader: Reader,
    hash: Sha256,
    /// First bytes of the body, to detect its format if it is not an archive.
    start: Vec<u8>,
    progress: Progress,
}

/// The files of an archive, or the reason why the body is not an archive.
type Contents = Result<(Tree, usize)>;

impl HashingBody {
    /// Reads the archive and the data after it, which is part of the digest. If the body is not an archive, the rest
    /// is read only if its digest is needed.
    fn read_whole(mut self, options: &Options, pinned: bool) -> Result<(Contents, Self)> {
        let limit = options.stream_limit();
        let contents = match stream_tree(&mut self, options) {
            Err(error @ (crate::Error::Web(_) | crate::Error::TooLong { .. })) => {
                return Err(error);
            }
            contents => contents,
        };
        if pinned || contents.is_ok() {
            let mut remaining = (&mut self).take(limit);
            let read = io::copy(&mut remaining, &mut io::sink());
            let read = read.map_err(|error| explain(error, "after its end".to_owned()))?;
            if read == limit {
                return Err(crate::Error::TooLong { limit });
            }
        }
        Ok((contents, self))
    }
}

impl Read for HashingBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        let bytes = buffer.get(..count).unwrap_or_default();
        self.hash.update(bytes);
        let missing = 64usize.saturating_sub(self.start.len());
        self.start.extend(bytes.iter().take(missing));
        self.progress.add(count as u64);
        Ok(count)
    }
}
