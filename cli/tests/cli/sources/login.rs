//! The places where users keep their passwords for registries.

use std::fs;

use serde_json::json;
use tests::{Auth, OWNER, Registry, TENANT, User, write_program};

use super::{Desk, PLAIN, says};

/// A registry that knows its users, with a bundle in it.
fn guarded(desk: &Desk) -> (Registry, String) {
    let registry = Registry::start(Auth::Basic, None);
    let image = registry.image("org/tide:v1");
    let login = desk.file("owner.json", &registry.docker_config(OWNER));
    desk.push(&image, &format!("{PLAIN} --authfile {login}"), &[]);
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
        let env = env.as_ref().map(|(name, value)| (*name, value.as_str()));
        desk.fails(&image, PLAIN, env.as_slice());
        desk.place.write(file, &login);
        desk.resolves(&image, PLAIN, env.as_slice());
        fs::remove_file(desk.place.path(file)).unwrap();
    }
    let file = desk.file("auth.json", &login);
    desk.resolves(&image, &format!("{PLAIN} --authfile {file}"), &[]);
}

#[test]
fn a_user_can_be_named_on_the_command_line() {
    let desk = Desk::new();
    let (_registry, image) = guarded(&desk);
    let User { name, password, .. } = TENANT;
    let word = desk.file("word", &format!("{password}\n"));
    let user = format!("{PLAIN} --username {name}");
    desk.resolves(&image, &format!("{user} --password-file {word}"), &[]);
    desk.resolves(&image, &user, &[("RUKPAK_PASSWORD", password)]);
}

#[test]
fn a_password_is_for_one_server_and_for_nobody_on_the_way() {
    let desk = Desk::new();
    let (registry, image) = guarded(&desk);
    let word = desk.file("word", TENANT.password);
    let named = format!("{PLAIN} --username {}", TENANT.name);
    let user = format!("--username {} --password-file {word}", TENANT.name);
    let refuses = |args: String, parts: &[&str]| {
        let message = desk.run(&args).exits(2).err;
        says(&message, parts, &[TENANT.password, "hidden"]);
    };
    let port = registry.host().rsplit(':').next().unwrap();
    let other = format!("127.0.0.2:{port}");
    for bundle in [
        format!("http://{other}/tide.tgz"),
        format!("git+http://{other}/tide.git"),
        format!("{other}/tide:v1"),
    ] {
        let parts = ["one server", registry.host(), &other];
        refuses(format!("convert {image} {bundle} {user} {PLAIN}"), &parts);
    }
    for source in [
        "http://h.example/tide.tgz?k=hidden",
        "git+http://h.example/r",
    ] {
        let parts = ["h.example", "unencrypted"];
        refuses(format!("convert {source} {user}"), &parts);
    }
    let file = desk.file("auth.json", &registry.docker_config(OWNER));
    let wave = registry.image("org/wave:v1");
    desk.push(&wave, &format!("{PLAIN} --authfile {file}"), &[]);
    desk.ok(&format!("validate {image} {wave} {PLAIN} {user}"));

    let parts = ["--authfile", "--username"];
    refuses(
        format!("convert {image} {user} {PLAIN} --authfile {file}"),
        &parts,
    );
    let nothing = desk.file("empty", "\n");
    let access = format!("{named} --password-file {nothing}");
    desk.refuses(&image, &access, &["empty", "--password-file"]);
    let args = format!("unpack {image} {named}");
    let run = desk.run_with(&args, &[("RUKPAK_PASSWORD", "")]).exits(2);
    run.err_has("RUKPAK_PASSWORD");
}

/// A program as docker and podman call them: it knows one registry.
#[test]
fn credential_helpers_are_asked() {
    let desk = Desk::new();
    let (registry, image) = guarded(&desk);
    let host = registry.host();
    let answer = json!({"ServerURL": host, "Username": TENANT.name, "Secret": TENANT.password});
    let script = format!(
        "#!/bin/sh\nread -r server\n[ \"$1 $server\" = 'get {host}' ] || {{ echo 'credentials not found in native keychain'; exit 1; }}\ncat <<'END'\n{answer}\nEND\n"
    );
    write_program(&desk.place.path("bin/docker-credential-drawer"), &script);
    let config =
        |config: serde_json::Value| desk.file("home/.docker/config.json", &config.to_string());
    config(json!({"credsStore": "drawer"}));
    desk.resolves(&image, PLAIN, &[]);
    config(json!({"credHelpers": {host: "drawer"}}));
    desk.resolves(&image, PLAIN, &[]);
    config(json!({"credHelpers": {host: "missing"}}));
    desk.refuses(&image, PLAIN, &["docker-credential-missing"]);
}
