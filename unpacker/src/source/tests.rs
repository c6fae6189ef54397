use super::*;

#[test]
fn source_kinds_are_distinguished_by_their_format() {
    let parse = |text: &str| Source::parse(text, |path| path == Path::new("bundle"));
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let pinned = format!("https://h/b.tgz#{}", Digest::sha256(b"x"));
    let [upper, lower] =
        [&*commit.to_uppercase(), commit].map(|hash| format!("git+https://h/r#{hash}"));
    let same = "- bundle ./none /none.tgz quay.io/org/app:v1 oci:dir oci:dir:v1 oci-archive:a.tar docker-archive:a.tar:app:v1 \
        git+https://h/r.git git+https://h/r#main:a/b git+ssh://git@h:22/r#refs/tags/v1 https://h/b.tgz";
    let others = [
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("docker://busybox", "docker.io/library/busybox:latest"),
        ("git+https://h/r#:a/./b/", "git+https://h/r#:a/b"),
        (&upper, &lower),
        (&pinned, &pinned),
    ];
    let same = same.split_whitespace().map(|text| (text, text));
    for (text, normal) in same.chain(others) {
        assert_eq!(parse(text).unwrap().to_string(), normal);
    }
    let none = "none|org/none|quay.io/Org/app|oci:|git+https://h/r#main:../x|git+file:///r|git+ext::sh -c x|\
        git+https://user:word@h/r|https://h/b.tgz#latest|https://user@h/b.tgz|ftp://h/b.tgz|https://";
    assert_eq!(none.split('|').find(|text| parse(text).is_ok()), None);
}

#[test]
fn displayed_source_parses_to_the_same_source() {
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
    let source = Source::parse("git+https://h/r#ü%20:my folder/ä", |_| false);
    let Ok(Source::Git(git)) = source else {
        panic!("{source:?}");
    };
    assert_rows!((&git.revision, git.directory.as_deref()) => (&Revision::Name("ü ".to_owned()), Some("my folder/ä")));
}

#[test]
fn common_mistakes_are_reported_with_the_correct_form() {
    assert_each!(|text, part| Source::parse(text, |_| false).unwrap_err() => has part;
        "git@github.com:org/repo.git" => "use git+ssh://git@github.com/org/repo.git";
        "git+ssh://git@github.com:org/repo" => "use git+ssh://git@github.com/org/repo";
        "git+ssh://git@h:22x/r" => "use git+ssh://git@h/22x/r";
        "containers-storage:localhost/x" => "oci-archive:";
        "docker-daemon:x:v1" => "docker-archive:";
        "dir:/x" => "oci:DIRECTORY";
        "git+https://h/r#refs/pull/1/head" => "neither a branch nor a tag";
        "git+https://h/r?ref=main" => "as #REF:DIR";
        "git+https://h/r?ref=main#v1" => "as #REF:DIR";
        "git+https://h/r#main%0a" => "control character";
        "git+https://h/r#main:%2e%2e/x" => "invalid directory";
        "git+https://h/r#%ff" => "UTF-8";
        "https://h/b.tgz?…" => "restore the query";
        "docker-archive:" => "docker-archive:PATH";
    );
    assert!(Source::parse("dir:x", |path| path == Path::new("dir:x")).is_ok());
    assert!(Source::parse("dir:5000/x", |_| false).is_ok());
}

#[test]
fn images_to_publish_name_their_registry() {
    assert_each!(|text, normal| Image::parse(text).unwrap().reference.to_string() => normal;
        "quay.io/org/x:v1" => "quay.io/org/x:v1";
        "docker://quay.io/org/x:v1" => "quay.io/org/x:v1";
        "docker.io/org/x:v1" => "docker.io/org/x:v1";
        "localhost/x" => "localhost/x:latest";
    );
    let others = ["tw:x", "org/x:v1", "./x", "-", "https://quay.io/x"];
    assert_rows!(others.into_iter().find(|text| Image::parse(text).is_ok()) => None);
    ::tests::assert_has(Image::parse("tw:x").unwrap_err(), "has no registry");
}

#[test]
fn secrets_do_not_show_in_errors() {
    let texts = "
        https://user:sekret@h/r https://user:se/kret@h/r https://user:se?kret@h/r https://user:se#kret@h/r https://sekret@h/r
        git+https://user:sekret@h/r git+https://user:se/kret@h/r git+https://h/r?token=sekret
        git+https://h/r?token=sekret@x#main git+ssh://git:sekret@h/r git+ssh://sekret@h:org/r
        ftp://user:sekret@h ftp://h/x?sig=sekret https://h/x?sig=sekret#latest
        user:sekret@quay.io/org/x:v1 user:se/kret@quay.io/org/x:v1 user:se@kret@quay.io/org/x:v1
        sekret@quay.io/org/x:v1 sekret@quay.io:443/org/x:v1 sekret@quay.io:org/x
        docker://user:sekret@quay.io/org/x:v1 docker://user:sekret@busybox docker://user:sekret@quay.io/Org/X
        user:sekret@quay.io/org/x@sha256:12";
    for text in texts.split_whitespace() {
        let source = Source::parse(text, |_| false).unwrap_err();
        for message in [source, Image::parse(text).unwrap_err()].map(|error| error.to_string()) {
            let parts = ["sekret", "kret", "se/", "se?", "se#", "se@"];
            assert_rows!(parts.into_iter().find(|part| message.contains(part)) => None, "{text}: {message}");
        }
    }
    let message = |text| Source::parse(text, |_| false).unwrap_err().to_string();
    for text in ["user:sekret@quay.io/x:v1", "https://u:se/kret@h/x"] {
        assert_rows!(["remove them", "--username"].map(|part| message(text).contains(part)) => [true; 2], "{text}");
    }
    let digest = message("quay.io/org/x@sha256:12");
    assert_rows!(["quay.io/org/x@sha256:12", "credentials"].map(|part| digest.contains(part)) => [true, false], "{digest}");
}

#[test]
fn queries_are_sent_but_not_displayed() {
    let text = "https://h/b.tgz?X-Sig=sekret";
    let source = Source::parse(text, |_| false).unwrap();
    assert_eq!(source.to_string(), "https://h/b.tgz?…");
    let Source::Http(mut http) = source else {
        panic!("{source}")
    };
    assert_eq!(http.url.as_str(), text);
    let sha256 = Digest::sha256(b"x");
    http.sha256 = Some(sha256);
    assert_rows!(Source::Http(http).to_string() => format!("https://h/b.tgz?…#{sha256}"));
}
