//! Parser of remote sources: images, repositories and URLs.

use percent_encoding::percent_decode_str;
use url::Url;

use super::{Git, Http, Image, Revision, display};

/// Problem and remedy for a text that contains credentials.
const CREDENTIALS: &str = "contains credentials; remove them, and pass them with --username and --password-file, or in a Secret";

pub(super) fn image(text: &str) -> Result<Image, String> {
    if let Some((before, after)) = display::credentials(text)
        && (after.contains('/') || !before.contains('/') && before.contains(':'))
    {
        return Err(CREDENTIALS.to_owned());
    }
    let reference = text.parse().map_err(|error: manifests::image::Error| {
        // The error starts with the text, which the caller adds again without secrets.
        let problem = error.to_string();
        let problem = problem
            .rsplit_once("\" ")
            .map_or("", |(_, problem)| problem);
        format!("is not an image reference: it {problem}")
    })?;
    Ok(Image {
        reference,
        platform: None,
    })
}

/// Parses the part of a git source after `git+`: the repository, the revision and the directory.
pub(super) fn git(text: &str) -> Result<Git, String> {
    // The fragment is not parsed as a part of the URL, because that would percent-encode the names of directories.
    let (repository, fragment) = text.split_once('#').unwrap_or((text, ""));
    let repository = address(repository, &["https", "http", "ssh"])?;
    if repository.query().is_some() {
        return Err(
            "has a query, which git does not support; specify the revision and the directory as #REF:DIR"
                .to_owned(),
        );
    }
    let (name, directory) = match fragment.split_once(':') {
        Some((name, directory)) => (name, Some(percent_decode(directory)?)),
        None => (fragment, None),
    };
    let directory = directory.filter(|directory| !matches!(&**directory, "" | "." | "./" | "/"));
    let directory = directory.as_deref().map(manifests::content::normalize);
    let directory = directory.transpose();
    Ok(Git {
        repository,
        revision: revision(&percent_decode(name)?)?,
        directory: directory.map_err(|error| format!("has an invalid directory: {error}"))?,
    })
}

fn revision(text: &str) -> Result<Revision, String> {
    let is_commit = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    Ok(if text.is_empty() || text == "HEAD" {
        Revision::Head
    } else if is_commit {
        Revision::Commit(text.to_ascii_lowercase())
    } else if let Some(branch) = text.strip_prefix("refs/heads/") {
        Revision::Branch(branch.to_owned())
    } else if let Some(tag) = text.strip_prefix("refs/tags/") {
        Revision::Tag(tag.to_owned())
    } else if text.starts_with("refs/") {
        return Err(format!(
            "names {text:?}, which is neither a branch nor a tag; use all 40 digits of the commit that it points to"
        ));
    } else {
        Revision::Name(text.to_owned())
    })
}

/// Decodes the percent-encoding of a revision or directory. Unencoded names are accepted, too.
fn percent_decode(text: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| "has a revision or directory that is not UTF-8".to_owned())?;
    if text.contains(char::is_control) {
        return Err("has a control character in its revision or directory".to_owned());
    }
    Ok(text.into_owned())
}

pub(super) fn http(text: &str) -> Result<Http, String> {
    let mut url = address(text, &["https", "http"])?;
    let query = percent_decode_str(url.query().unwrap_or_default());
    if query.decode_utf8_lossy() == display::REDACTED {
        return Err(
            "was copied from output that hides the query; restore the query after the ?".to_owned(),
        );
    }
    let sha256 = match url.fragment() {
        None | Some("") => None,
        Some(fragment) => Some(
            fragment
                .parse()
                .map_err(|error| format!("has an invalid digest in its fragment: {error}"))?,
        ),
    };
    url.set_fragment(None);
    Ok(Http { url, sha256 })
}

/// Parses a URL with one of these schemes, with a host and without a password, because URLs appear in messages and
/// histories.
fn address(text: &str, schemes: &[&str]) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| match text.split_once("://") {
        Some(("ssh", rest)) if colon_path(rest).is_some() => {
            let (user, host, path) = colon_path(rest).unwrap_or_default();
            format!(
                "has a colon between host and path; use {}",
                ssh(user, host, path)
            )
        }
        _ if text.contains('@') => CREDENTIALS.to_owned(),
        _ => format!("is not a URL: {error}"),
    })?;
    if !schemes.contains(&url.scheme()) {
        let supported = schemes.join("://, ");
        return Err(format!(
            "has an unsupported scheme; use one of {supported}://"
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("has no host".to_owned());
    }
    let is_ssh = url.scheme() == "ssh";
    if is_ssh && url.password().is_some() {
        return Err("contains a password; remove it, and pass a key with --ssh-key".to_owned());
    }
    if !is_ssh && (url.password().is_some() || !url.username().is_empty()) {
        return Err(CREDENTIALS.to_owned());
    }
    Ok(url)
}

/// Suggests a URL for the form `git@host:path`, which `git clone` accepts for ssh.
pub(super) fn suggest_for_scp(text: &str) -> Option<String> {
    let (user, host, path) = colon_path(text)?;
    let suggestion = ssh(user, host, path);
    Some(format!(
        "is not a URL, but the short form of git; use {suggestion}"
    ))
}

/// Splits `user@host:path`. Returns `None` for a digest and for a host with a port.
fn colon_path(text: &str) -> Option<(&str, &str, &str)> {
    let (user, rest) = text.split_once('@')?;
    let (host, path) = rest.split_once(':')?;
    let port = path.split('/').next().unwrap_or_default();
    let is_port = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_scp = !user.contains(['/', ':'])
        && !host.contains(['/', '@'])
        && !path.contains('@')
        && !matches!(host, "" | "sha256" | "sha512");
    (is_scp && !is_port).then_some((user, host, path))
}

/// Returns the equivalent URL. Only the user name `git` is certainly not a token.
fn ssh(user: &str, host: &str, path: &str) -> String {
    let user = if user == "git" { "git" } else { "USER" };
    format!("git+ssh://{user}@{host}/{}", path.trim_start_matches('/'))
}
