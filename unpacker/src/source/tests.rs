use super::*;
use crate::Digest;

#[test]
fn sources_are_told_apart_by_how_they_are_written() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let digest = Digest::of(b"x");
    for (text, normal) in ::tests::rows![
        "-" => Some("-".to_owned());
        "bundle" => Some("bundle".to_owned());
        "./none" => Some("./none".to_owned());
        "/none.tgz" => Some("/none.tgz".to_owned());
        "none" => None;
        "org/none" => None;
        "quay.io/org/app:v1" => Some("quay.io/org/app:v1".to_owned());
        "localhost:5000/app" => Some("localhost:5000/app:latest".to_owned());
        "docker://busybox" => Some("docker.io/library/busybox:latest".to_owned());
        "quay.io/Org/app" => None;
        "oci:dir" => Some("oci:dir".to_owned());
        "oci:dir:v1" => Some("oci:dir:v1".to_owned());
        "oci:" => None;
        "oci-archive:a.tar" => Some("oci-archive:a.tar".to_owned());
        "docker-archive:a.tar:app:v1" => Some("docker-archive:a.tar:app:v1".to_owned());
        "git+https://h/r.git" => Some("git+https://h/r.git".to_owned());
        "git+https://h/r#main:a/b" => Some("git+https://h/r#main:a/b".to_owned());
        "git+https://h/r#:a/./b/" => Some("git+https://h/r#:a/b".to_owned());
        "git+ssh://git@h:22/r#refs/tags/v1" => Some("git+ssh://git@h:22/r#refs/tags/v1".to_owned());
        &format!("git+https://h/r#{}", commit.to_uppercase()) => Some(format!("git+https://h/r#{commit}"));
        "git+https://h/r#main:../x" => None;
        "git+file:///r" => None;
        "git+ext::sh -c x" => None;
        "git+https://user:word@h/r" => None;
        "https://h/b.tgz" => Some("https://h/b.tgz".to_owned());
        &format!("https://h/b.tgz#{digest}") => Some(format!("https://h/b.tgz#{digest}"));
        "https://h/b.tgz#latest" => None;
        "https://user@h/b.tgz" => None;
        "ftp://h/b.tgz" => None;
        "https://" => None;
    ] {
        let source = Source::parse(text, |path| path == Path::new("bundle"));
        assert_eq!(
            source.ok().map(|source| source.to_string()),
            normal,
            "{text}"
        );
    }
}

#[test]
fn what_is_displayed_means_the_same_source() {
    for (text, normal) in ::tests::rows![
        "git+https://h/r#main:my folder" => "git+https://h/r#main:my%20folder";
        "git+https://h/r#main:my%20folder" => "git+https://h/r#main:my%20folder";
        "git+https://h/r#übung/ä:größe" => "git+https://h/r#übung/ä:größe";
        "git+https://h/r#100%25:a%2523" => "git+https://h/r#100%25:a%2523";
        "git+https://h/r#a#1:b#2" => "git+https://h/r#a%231:b%232";
        "git+https://h/r#main:a:b" => "git+https://h/r#main:a:b";
        "HTTPS://h/b.tgz" => "https://h/b.tgz";
        "Git+SSH://git@h/r" => "git+ssh://git@h/r";
        "oci:a@b" => "oci:a@b";
        "oci-archive:a@1.tar:v1" => "oci-archive:a@1.tar:v1";
        "docker-archive:user@host.tar" => "docker-archive:user@host.tar";
        "oci:a@sha256:12" => "oci:a:sha256:12";
    ] {
        let source = Source::parse(text, |_| false).unwrap();
        assert_eq!(source.to_string(), normal, "{text}");
        assert_eq!(Source::parse(normal, |_| false), Ok(source), "{text}");
    }
    let Ok(Source::Git(git)) = Source::parse("git+https://h/r#ü%20:my folder/ä", |_| false)
    else {
        panic!("no git");
    };
    assert_eq!(git.revision, Revision::Name("ü ".to_owned()));
    assert_eq!(git.directory.as_deref(), Some("my folder/ä"));
}

#[test]
fn everyday_spellings_are_told_how_to_be_written() {
    for (text, part) in ::tests::rows![
        "git@github.com:org/repo.git" => "write git+ssh://git@github.com/org/repo.git";
        "git+ssh://git@github.com:org/repo" => "write git+ssh://git@github.com/org/repo";
        "git+ssh://git@h:22x/r" => "write git+ssh://git@h/22x/r";
        "containers-storage:localhost/x" => "oci-archive:";
        "docker-daemon:x:v1" => "docker-archive:";
        "dir:/x" => "oci:FOLDER";
        "git+https://h/r#refs/pull/1/head" => "neither a branch nor a tag";
        "git+https://h/r?ref=main" => "as #REF:DIR";
        "git+https://h/r?ref=main#v1" => "as #REF:DIR";
        "git+https://h/r#main%0a" => "control character";
        "git+https://h/r#main:%2e%2e/x" => "bad folder";
        "git+https://h/r#%ff" => "UTF-8";
        "https://h/b.tgz?…" => "write the query";
        "docker-archive:" => "docker-archive:PATH";
    ] {
        let error = Source::parse(text, |_| false).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(Source::parse("dir:x", |path| path == Path::new("dir:x")).is_ok());
    assert!(Source::parse("dir:5000/x", |_| false).is_ok());
}

#[test]
fn images_to_publish_name_their_registry() {
    for (text, normal) in [
        ("quay.io/org/x:v1", Some("quay.io/org/x:v1")),
        ("docker://quay.io/org/x:v1", Some("quay.io/org/x:v1")),
        ("docker.io/org/x:v1", Some("docker.io/org/x:v1")),
        ("localhost/x", Some("localhost/x:latest")),
        ("tw:x", None),
        ("org/x:v1", None),
        ("./x", None),
        ("-", None),
        ("https://quay.io/x", None),
    ] {
        let image = Image::parse(text).ok();
        let found = image.map(|image| image.reference.to_string());
        assert_eq!(found.as_deref(), normal, "{text}");
    }
    let error = Image::parse("tw:x").unwrap_err().to_string();
    assert!(error.contains("names no registry"), "{error}");
}

#[test]
fn secrets_do_not_show_in_errors() {
    for text in [
        "https://user:sekret@h/r",
        "https://user:se/kret@h/r",
        "https://user:se?kret@h/r",
        "https://user:se#kret@h/r",
        "https://sekret@h/r",
        "git+https://user:sekret@h/r",
        "git+https://user:se/kret@h/r",
        "git+https://h/r?token=sekret",
        "git+https://h/r?token=sekret@x#main",
        "git+ssh://git:sekret@h/r",
        "git+ssh://sekret@h:org/r",
        "ftp://user:sekret@h",
        "ftp://h/x?sig=sekret",
        "https://h/x?sig=sekret#latest",
        "user:sekret@quay.io/org/x:v1",
        "user:se/kret@quay.io/org/x:v1",
        "user:se@kret@quay.io/org/x:v1",
        "sekret@quay.io/org/x:v1",
        "sekret@quay.io:443/org/x:v1",
        "sekret@quay.io:org/x",
        "docker://user:sekret@quay.io/org/x:v1",
        "docker://user:sekret@busybox",
        "docker://user:sekret@quay.io/Org/X",
        "user:sekret@quay.io/org/x@sha256:12",
    ] {
        for error in [
            Source::parse(text, |_| false).unwrap_err(),
            Image::parse(text).unwrap_err(),
        ] {
            let said = error.to_string();
            for part in ["sekret", "kret", "se/", "se?", "se#", "se@"] {
                assert!(!said.contains(part), "{text}: {said}");
            }
        }
    }
    for text in ["user:sekret@quay.io/x:v1", "https://u:se/kret@h/x"] {
        let error = Source::parse(text, |_| false).unwrap_err().to_string();
        assert!(
            error.contains("take them out") && error.contains("--username"),
            "{error}"
        );
    }
    let error = Source::parse("quay.io/org/x@sha256:12", |_| false)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("quay.io/org/x@sha256:12") && !error.contains("credentials"),
        "{error}"
    );
}

#[test]
fn queries_are_asked_with_and_not_shown() {
    let text = "https://h/b.tgz?X-Sig=sekret";
    let source = Source::parse(text, |_| false).unwrap();
    assert_eq!(source.to_string(), "https://h/b.tgz?…");
    let Source::Http(http) = source else {
        panic!("no URL")
    };
    assert_eq!(http.url.as_str(), text);
    let sha256 = Digest::of(b"x");
    let pinned = Http {
        sha256: Some(sha256),
        ..http
    };
    assert_eq!(
        Source::Http(pinned).to_string(),
        format!("https://h/b.tgz?…#{sha256}")
    );
}
