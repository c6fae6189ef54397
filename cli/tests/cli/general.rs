use std::os::unix::fs::symlink;

use crate::bundle::{Place, Run, binary};

#[test]
fn wrong_usage_exits_with_2() {
    let place = Place::new();
    place.good("tide");
    for args in [
        &[][..],
        &["convert"],
        &["convart", "tide"],
        &["convert", "tide", "--no-such-flag"],
        &["convert", "tide", "-o", "toml"],
        &["convert", "tide", "--force"],
        &["convert", "tide", "--kube-version", "newest"],
        &["convert", "tide", "--install-namespace", "Not_A_Name"],
        &["convert", "tide", "--max-size", "much"],
        &["convert", "tide", "--class", "helm"],
        &["convert", "-", "-"],
        &["convert", "ftp://example.com/tide.tgz"],
        &["convert", "https://user:word@example.com/tide.tgz"],
        &["convert", "git+ext::sh"],
        &["convert", "oci:"],
        &["convert", "tide", "--platform", "linux"],
        &["convert", "tide", "--tls-verify=maybe"],
        &["convert", "tide", "--timeout", "0"],
        &["convert", "tide", "--password-file", "word"],
        &["convert", "-", "--username", "me", "--password-file", "-"],
        &["inspect", "tide", "tide"],
        &["unpack"],
        &["unpack", "tide", "tide"],
        &["unpack", "tide", "--force"],
        &["unpack", "tide", "--all", "--only", "manifests"],
        &["unpack", "tide", "--output", "-", "--format", "json"],
        &["push", "tide"],
        &["push", "tide", "Not/An/Image"],
        &["push", "quay.io/acme/tide:v1", "quay.io/acme/other:v1"],
        &["completion", "tcsh"],
        &["install", "tide", "tide", "--pull-secret", "x"],
        &["install", "tide", "git+https://example.com/tide"],
        &["install", "tide", "quay.io/a/b:c", "--service-account", "x"],
        &["install", "Not A Name", "tide"],
        &["install", "a?b=c", "tide"],
        &["run", "bundle"],
        &["run", "packagemanifests"],
    ] {
        let run = place.run(args).exits(2);
        assert!(
            run.out.is_empty() && !run.err.is_empty(),
            "{args:?}: {run:?}"
        );
    }
}

#[test]
fn clusters_that_cannot_be_reached_are_reported() {
    let place = Place::new();
    let path = |name: &str| place.path(name).to_str().unwrap().to_owned();
    // No server listens on the port.
    let closed = "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
                  clusters: [{name: a, cluster: {server: \"http://127.0.0.1:1\"}}], users: [{name: a, user: {token: t}}]}";
    for (name, text) in [("closed", closed), ("empty", ""), ("bad", "contexts: 12\n")] {
        place.write(name, text);
    }
    let (closed, empty, missing) = (path("closed"), path("empty"), path("missing"));
    for (args, environment, problems) in tests::rows![
        &[][..], "" => &["there is no kubeconfig"][..];
        &[], &missing => &["$KUBECONFIG names no file that exists"];
        &["--kubeconfig", &missing], "" => &["missing"];
        &[], &empty => &["no current context"];
        &[], &path("bad") => &["cannot be used"];
        &[], &closed => &["cannot be reached", "Connection refused"];
        &["--context", "b"], &closed => &["no context \"b\"", "it has a"];
        // The first of several files wins, and a missing one is skipped.
        &[], &format!("{missing}:{empty}:{closed}") => &["cannot be reached"];
    ] {
        let mut command = place.command(&binary());
        command
            .arg("status")
            .args(args)
            .env("KUBECONFIG", environment)
            .env("HOME", place.path("."))
            .env_remove("KUBERNETES_SERVICE_HOST");
        let run = Run::from(command.output().unwrap()).exits(1);
        for problem in problems {
            run.err_has(problem);
        }
    }
}

#[test]
fn credentials_in_a_source_are_refused_and_not_repeated() {
    let place = Place::new();
    for source in [
        "user:sekret@quay.io/acme/tide:v1",
        "docker://user:sekret@quay.io/acme/tide:v1",
        "https://user:se/kret@example.com/tide.tgz",
        "git+https://user:sekret@example.com/tide",
        "git+https://example.com/tide?token=sekret",
    ] {
        for command in ["convert", "unpack"] {
            let run = place.run(&format!("{command} {source}")).exits(2);
            run.err_lacks("kret");
        }
    }
}

#[test]
fn help_goes_to_standard_output() {
    let place = Place::new();
    for args in [&["--help"][..], &["help", "convert"], &["convert", "-h"]] {
        let run = place.ok(args);
        run.out_has("Usage: rukpak");
        assert_eq!(run.err, "");
    }
}

#[test]
fn the_version_says_which_kubernetes_is_known() {
    let place = Place::new();
    let newest = manifests::version::KubeVersion::NEWEST.to_string();
    let text = place.ok("version").out;
    assert!(
        text.starts_with("rukpak ") && text.contains(&newest),
        "{text}"
    );
    let json = place.ok("version -o json").json();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["kubernetes"], newest);
}

#[test]
fn completions_are_there_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = place.ok(&format!("completion {shell}")).out;
        assert!(
            ["install-namespace", "unpack", "tls-verify", "dry-run"]
                .iter()
                .all(|word| script.contains(word)),
            "{shell}"
        );
    }
}

#[test]
fn kubectl_finds_it_as_a_plugin() {
    let place = Place::new();
    symlink(binary(), place.path("kubectl-rukpak")).unwrap();
    let run = |args: &[&str]| -> Run {
        place
            .command(&place.path("kubectl-rukpak"))
            .args(args)
            .output()
            .unwrap()
            .into()
    };
    let help = run(&["convert", "--help"]).exits(0).out;
    assert!(help.contains("Usage: kubectl rukpak convert"), "{help}");
    let examples = run(&["status", "--help"]).exits(0).out;
    assert!(
        examples.contains("\n  kubectl rukpak status tidewatch\n"),
        "{examples}"
    );
    assert!(!examples.contains("\n  rukpak "), "{examples}");
    let wrong = run(&["convert"]).exits(2).err;
    assert!(wrong.contains("Usage: kubectl rukpak convert"), "{wrong}");
    let script = run(&["completion", "bash"]).exits(0).out;
    assert!(script.contains("kubectl-rukpak"));
}

#[test]
fn pipes_get_neither_colors_nor_what_steers_a_terminal() {
    let place = Place::new();
    place.bad("bad");
    place.good("other");
    let mut csv = crate::bundle::csv("evil");
    csv["metadata"]["name"] = "evil\u{1b}[2J.v1".into();
    place.bundle("evil", &csv);
    for args in [
        &["convert", "bad"][..],
        &["validate", "bad"],
        &["inspect", "bad"],
        &["--help"],
        &["convert"],
        &["convert", "evil"],
        &["convert", "evil", "other"],
        &["validate", "evil"],
        &["inspect", "evil"],
    ] {
        let run = place.run(args);
        run.out_lacks("\x1b");
        run.err_lacks("\x1b");
    }
}

#[test]
fn colors_can_be_asked_for_and_refused() {
    let place = Place::new();
    place.bad("tide");
    let run = |name: &str| -> Run {
        let mut command = place.command(&binary());
        command
            .args(["validate", "tide"])
            .env("CLICOLOR_FORCE", "1")
            .env_remove("NO_COLOR");
        if !name.is_empty() {
            command.env(name, "1");
        }
        command.output().unwrap().into()
    };
    assert!(run("").out.contains("\x1b[1m\x1b[31merror\x1b[0m"));
    let mut command = place.command(&binary());
    let plain: Run = command
        .args(["validate", "tide"])
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
        .into();
    assert!(!plain.out.contains('\x1b'));
}
