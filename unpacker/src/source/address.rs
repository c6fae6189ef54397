//! What is reached over a network: images, repositories, URLs.

use percent_encoding::percent_decode_str;
use url::Url;

use super::{Git, Http, Image, Revision, show};

/// What people are told who have typed a password.
const CREDENTIALS: &str = "holds credentials; take them out, and pass them by --username and --password-file, or in a Secret";

pub(super) fn image(text: &str) -> Result<Image, String> {
    if let Some((before, after)) = show::credentials(text)
        && (after.contains('/') || !before.contains('/') && before.contains(':'))
    {
        return Err(CREDENTIALS.to_owned());
    }
    let reference = text.parse().map_err(|error: manifests::image::Error| {
        // The error begins with the text, which stands before this already, and there without secrets.
        let said = error.to_string();
        let said = said.rsplit_once("\" ").map_or("", |(_, said)| said);
        format!("is no image reference: it {said}")
    })?;
    Ok(Image {
        reference,
        platform: None,
    })
}

/// A repository behind the `git+`, and what is wanted of it.
pub(super) fn git(text: &str) -> Result<Git, String> {
    // What stands behind the # is no business of the URL, which would encode the letters of folders.
    let (repository, fragment) = text.split_once('#').unwrap_or((text, ""));
    let repository = address(repository, &["https", "http", "ssh"])?;
    if repository.query().is_some() {
        return Err(
            "has a query, which git does not know; write the revision and the folder as #REF:DIR"
                .to_owned(),
        );
    }
    let (name, directory) = match fragment.split_once(':') {
        Some((name, directory)) => (name, Some(decoded(directory)?)),
        None => (fragment, None),
    };
    let directory = directory.filter(|directory| !matches!(&**directory, "" | "." | "./" | "/"));
    let directory = directory.as_deref().map(manifests::content::normalize);
    let directory = directory.transpose();
    Ok(Git {
        repository,
        revision: revision(&decoded(name)?)?,
        directory: directory.map_err(|error| format!("has a bad folder: {error}"))?,
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
            "names {text:?}, which is neither a branch nor a tag; write all 40 digits of the commit that it stands for"
        ));
    } else {
        Revision::Name(text.to_owned())
    })
}

/// Branches and folders may be written as they are, or as in a URL.
fn decoded(text: &str) -> Result<String, String> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| "has a revision or folder that is not UTF-8".to_owned())?;
    if text.contains(char::is_control) {
        return Err("has a control character in its revision or folder".to_owned());
    }
    Ok(text.into_owned())
}

pub(super) fn http(text: &str) -> Result<Http, String> {
    let mut url = address(text, &["https", "http"])?;
    let hidden = percent_decode_str(url.query().unwrap_or_default());
    if hidden.decode_utf8_lossy() == show::HIDDEN {
        return Err(
            "was copied from where queries are not shown; write the query behind the ?".to_owned(),
        );
    }
    let sha256 = match url.fragment() {
        None | Some("") => None,
        Some(fragment) => Some(
            fragment
                .parse()
                .map_err(|error| format!("has a fragment that pins nothing: {error}"))?,
        ),
    };
    url.set_fragment(None);
    Ok(Http { url, sha256 })
}

/// A URL of one of these schemes, with a host and without a password: it would end up in messages and histories.
fn address(text: &str, schemes: &[&str]) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| match text.split_once("://") {
        Some(("ssh", rest)) if colon_path(rest).is_some() => {
            let (user, host, path) = colon_path(rest).unwrap_or_default();
            format!(
                "has a colon between host and path; write {}",
                ssh(user, host, path)
            )
        }
        _ if text.contains('@') => CREDENTIALS.to_owned(),
        _ => format!("is no URL: {error}"),
    })?;
    if !schemes.contains(&url.scheme()) {
        let known = schemes.join("://, ");
        return Err(format!(
            "has a scheme that is not used here; write one of {known}://"
        ));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("names no host".to_owned());
    }
    let is_ssh = url.scheme() == "ssh";
    if is_ssh && url.password().is_some() {
        return Err("holds a password; take it out, and pass a key by --ssh-key".to_owned());
    }
    if !is_ssh && (url.password().is_some() || !url.username().is_empty()) {
        return Err(CREDENTIALS.to_owned());
    }
    Ok(url)
}

/// What `git clone` takes for ssh besides URLs: `git@host:path`.
pub(super) fn of_scp(text: &str) -> Option<String> {
    let (user, host, path) = colon_path(text)?;
    let written = ssh(user, host, path);
    Some(format!("is written as git alone knows it; write {written}"))
}

/// User, host and path of `user@host:path`; not of a digest, and not of a host with a port.
fn colon_path(text: &str) -> Option<(&str, &str, &str)> {
    let (user, rest) = text.split_once('@')?;
    let (host, path) = rest.split_once(':')?;
    let port = path.split('/').next().unwrap_or_default();
    let is_port = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let is_it = !user.contains(['/', ':'])
        && !host.contains(['/', '@'])
        && !path.contains('@')
        && !matches!(host, "" | "sha256" | "sha512");
    (is_it && !is_port).then_some((user, host, path))
}

/// The URL to write instead. Only one user's name is certainly no token.
fn ssh(user: &str, host: &str, path: &str) -> String {
    let user = if user == "git" { "git" } else { "USER" };
    format!("git+ssh://{user}@{host}/{}", path.trim_start_matches('/'))
}
