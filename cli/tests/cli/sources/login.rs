//! The places where users keep their passwords for registries.

use std::fs;

use tests::{Auth, OWNER, Registry, TENANT, User, write_program};

use super::{Desk, says};

const PLAIN: &str = "--tls-verify=false";

/// A registry that knows its users, with a bundle in it.
fn guarded(desk: &Desk) -> (Registry, String) {
    let registry = Registry::start(Auth::Basic, None);
    let image = registry.image("org/tide:v1");
    let login = desk.file("owner.json", &registry.docker_config(OWNER));
    desk.push(&image, &[PLAIN, "--authfile", &login], &[]);
    (registry, image)
}

#[test]
fn logins_are_found_where_other_programs_leave_them() {
    let desk = Desk::new();
    let (registry, image) = guarded(&desk);
    let login = registry.docker_config(TENANT);
    let path = |name: &str| desk.place.path(name).to_str().unwrap().to_owned();
    for (file, env) in tests::rows![
        "home/.docker/config.json" => None;
        "docker/config.json" => Some(("DOCKER_CONFIG", path("docker")));
        "some/auth.json" => Some(("REGISTRY_AUTH_FILE", path("some/auth.json")));
        "home/.config/containers/auth.json" => None;
        "run/containers/auth.json" => Some(("XDG_RUNTIME_DIR", path("run")));
    ] {
        let env: Vec<(&str, &str)> = env
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        desk.fails(&image, &[PLAIN], &env);
        desk.place.write(file, &login);
        desk.resolves(&image, &[PLAIN], &env);
        fs::remove_file(desk.place.path(file)).unwrap();
    }
    let file = desk.file("auth.json", &login);
    desk.resolves(&image, &[PLAIN, "--authfile", &file], &[]);
}

#[test]
fn a_user_can_be_named_on_the_command_line() {
    let desk = Desk::new();
    let (_registry, image) = guarded(&desk);
    let User { name, password, .. } = TENANT;
    let word = desk.file("word", &format!("{password}\n"));
    desk.resolves(
        &image,
        &[PLAIN, "--username", name, "--password-file", &word],
        &[],
    );
    desk.resolves(
        &image,
        &[PLAIN, "--username", name],
        &[("RUKPAK_PASSWORD", password)],
    );
}

#[test]
fn a_password_is_for_one_server_and_for_nobody_on_the_way() {
    let desk = Desk::new();
    let (registry, image) = guarded(&desk);
    let word = desk.file("word", TENANT.password);
    let user = ["--username", TENANT.name, "--password-file", &word];
    let refused = |bundles: &[&str], access: &[&str]| {
        let args = [&["convert"], bundles, &user, access].concat();
        desk.run(&args).exits(2).err
    };
    let (port, login) = (
        registry.host().rsplit(':').next(),
        registry.docker_config(OWNER),
    );
    let other = format!("127.0.0.2:{}", port.unwrap());
    for (bundle, server) in [
        (format!("http://{other}/tide.tgz"), &*other),
        (format!("git+http://{other}/tide.git"), &*other),
        (format!("{other}/tide:v1"), &*other),
    ] {
        let message = refused(&[&image, &bundle], &[PLAIN]);
        says(
            &message,
            &["one server", registry.host(), server],
            &[TENANT.password],
        );
    }
    for source in [
        "http://h.example/tide.tgz?k=hidden",
        "git+http://h.example/r",
    ] {
        let message = refused(&[source], &[]);
        says(&message, &["h.example", "unencrypted"], &["hidden"]);
    }
    let file = desk.file("auth.json", &login);
    let wave = registry.image("org/wave:v1");
    desk.push(&wave, &[PLAIN, "--authfile", &file], &[]);
    let args = [&["validate", &*image, &*wave, PLAIN][..], &user].concat();
    desk.ok(&args);

    let message = refused(&[&image], &[PLAIN, "--authfile", &file]);
    says(&message, &["--authfile", "--username"], &[]);
    let nothing = desk.file("empty", "\n");
    let named = [PLAIN, "--username", TENANT.name];
    let message = desk.fails(
        &image,
        &[&named[..], &["--password-file", &nothing]].concat(),
        &[],
    );
    says(&message, &["empty", "--password-file"], &[]);
    let run = desk.run_with(
        &[&["unpack", &*image][..], &named].concat(),
        &[("RUKPAK_PASSWORD", "")],
    );
    says(&run.exits(2).err, &["RUKPAK_PASSWORD"], &[]);
}

/// A program as docker and podman call them: it knows one registry.
#[test]
fn credential_helpers_are_asked() {
    let desk = Desk::new();
    let (registry, image) = guarded(&desk);
    let host = registry.host();
    let answer =
        serde_json::json!({"ServerURL": host, "Username": TENANT.name, "Secret": TENANT.password});
    let script = format!(
        "#!/bin/sh\nread -r server\n[ \"$1 $server\" = 'get {host}' ] || {{ echo 'credentials not found in native keychain'; exit 1; }}\ncat <<'END'\n{answer}\nEND\n"
    );
    write_program(&desk.place.path("bin/docker-credential-drawer"), &script);
    for config in [
        serde_json::json!({"credsStore": "drawer"}),
        serde_json::json!({"credHelpers": {host: "drawer"}}),
    ] {
        desk.place
            .write("home/.docker/config.json", config.to_string());
        desk.resolves(&image, &[PLAIN], &[]);
    }
    let config = serde_json::json!({"credHelpers": {host: "missing"}});
    desk.place
        .write("home/.docker/config.json", config.to_string());
    says(
        &desk.fails(&image, &[PLAIN], &[]),
        &["docker-credential-missing"],
        &[],
    );
}
