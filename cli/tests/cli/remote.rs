//! What only the command line does with sources that are elsewhere: names, flags, passwords, progress.

use std::fs;

use tests::{FileServer, OWNER, Registry};

use crate::bundle::{Args as _, Place, binary};

#[test]
fn bundles_from_everywhere_are_named_and_converted_together() {
    let place = Place::new();
    place.good("tide");
    place.good("wave");
    let (registry, files) = (Registry::plain(), FileServer::start(None, None));
    let image = registry.image("acme/tide:v1");
    let push = place.run(&format!("push tide {image} --tls-verify=false -q"));
    let pushed = push.exits(0).out;
    place.ok("unpack wave -q -o wave.tgz");
    let url = files.add("wave-1.0.tgz", fs::read(place.path("wave.tgz")).unwrap());
    let gone = url.replace("wave", "gone");
    let args = format!("convert --tls-verify=false --output-dir out {image} {url} {gone} wave");
    let run = place.fail(&args);
    let cells = |line: &str| line.split('\t').take(3).collect::<Vec<_>>().join(" ");
    let rows: Vec<String> = run.out.lines().map(cells).collect();
    let expected = [
        "tide-v1 tide.v1.2.3 converted",
        "wave-1.0 wave.v1.2.3 converted",
        "gone-1.0  failed",
        "wave wave.v1.2.3 converted",
    ];
    assert_eq!(rows, expected, "{run:?}");
    let files = ["tide-v1.yaml", "wave-1.0.yaml", "wave.yaml"];
    assert_eq!(place.list("out"), files);
    for (file, bundle) in [("tide-v1", "tide"), ("wave-1.0", "wave"), ("wave", "wave")] {
        let local = place.ok(&format!("convert {bundle}")).out;
        assert_eq!(place.read(&format!("out/{file}.yaml")), local);
    }
    // What a tag was resolved to is what was pushed.
    let args = format!("unpack {image} --tls-verify=false --format json");
    let json = place.ok(&args).json();
    assert_eq!(json["resolved"], pushed.trim_end());
    let local = place.ok("unpack tide --format json").json();
    assert_eq!(json["digest"], local["digest"]);
}

#[test]
fn passwords_come_from_files_pipes_and_the_environment() {
    let place = Place::new();
    place.good("tide");
    place.ok("unpack tide -q -o tide.tgz");
    let files = FileServer::start(Some(OWNER), None);
    let url = files.add("tide.tgz", fs::read(place.path("tide.tgz")).unwrap());
    place.write("word", format!("{}\n", OWNER.password));
    let user = format!("inspect {url} --username {}", OWNER.name);

    place.ok(&format!("{user} --password-file word"));
    let piped = format!("{user} --password-file -");
    place.run_with(&piped, OWNER.password.as_bytes()).exits(0);
    let mut named = place.command(&binary());
    let named = named.args(user.words());
    let named = named.env("RUKPAK_PASSWORD", OWNER.password).output();
    assert!(named.unwrap().status.success());

    let none = place.run(&user).exits(2);
    none.err_has("--password-file");
    none.err_has("RUKPAK_PASSWORD");
    place.write("wrong", "incorrect donkey");
    for args in [
        format!("{user} --password-file wrong"),
        format!("inspect {url}"),
    ] {
        let run = place.fail(&args);
        run.err_has("401");
        run.err_lacks("donkey");
    }
}

#[test]
fn what_signs_a_url_is_nowhere_to_be_read() {
    let place = Place::new();
    place.good("tide");
    place.ok("unpack tide -q -o tide.tgz");
    let files = FileServer::start(None, None);
    let url = files.add("tide.tgz", fs::read(place.path("tide.tgz")).unwrap());
    let signed = format!("{url}?X-Sig=sekret");
    let gone = signed.replace("tide.tgz", "gone.tgz");
    let mut said = String::new();
    for args in [
        format!("unpack {signed}"),
        format!("unpack {signed} --format json --report unpack"),
        format!("unpack {gone}"),
        format!("validate {signed} -o sarif"),
        format!("validate {signed} -o json"),
        format!("inspect {signed}"),
        format!("convert {signed} --report convert --output-dir out"),
        format!("convert {gone} {signed}"),
    ] {
        let run = place.run(&args);
        assert!(run.code != Some(2), "{args:?}: {run:?}");
        said = said + &run.out + &run.err;
    }
    said += &place.read("unpack");
    said += &place.read("convert");
    said += &place.list("out").join(" ");
    assert!(said.contains(&format!("{url}?…#sha256:")), "{said}");
    assert!(!said.contains("sekret"), "{said}");
}

#[test]
fn plain_http_is_asked_for_as_the_source_takes_it() {
    let place = Place::new();
    let files = FileServer::start(None, None);
    let host = files.host();
    for (source, flag) in [
        (format!("https://{host}/tide.tgz"), "--tls-verify=false"),
        (format!("git+https://{host}/tide"), "--tls-verify=false"),
        (format!("{host}/tide:v1"), "--tls-verify=true"),
    ] {
        let run = place.fail(&format!("unpack {source} {flag}"));
        run.err_has("--tls-verify=false for a registry");
        run.err_has("write http:// in a URL");
    }
}

#[test]
fn a_time_limit_is_kept_and_named() {
    let place = Place::new();
    // Takes connections and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tide.tgz", silent.local_addr().unwrap());
    let run = place.fail(&format!("convert {url} --timeout 1"));
    run.err_has("1 s");
}
