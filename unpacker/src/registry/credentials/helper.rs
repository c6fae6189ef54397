//! Credential helpers: the programs `docker-credential-NAME get`, which read a registry from standard input.

use std::{
    ffi::OsStr,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
    time::timeout,
};

use super::{Credential, Error, truncate};
use crate::{http_client::printable, trust::Basic};

/// Timeout of a helper. It includes the time that a user needs to unlock a keychain.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_ANSWER: u64 = 64 << 10;

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Username")]
    username: Option<String>,
    #[serde(rename = "Secret")]
    secret: Option<String>,
}

/// The result of a credential helper.
#[derive(Debug)]
pub(super) enum HelperResult {
    CredentialLookup(Credential),
    /// The helper has no credentials for the registry.
    NotFound,
    /// The helper is not installed, or does not run on this machine.
    HelperMissing(Error),
}

/// A failure of a credential helper.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    Start(String),
    Answer(String),
}

/// Runs the helper with this name.
pub(super) async fn get(name: &str, registry: &str) -> Result<HelperResult, Error> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_name) {
        return Err(Error::HelperName {
            helper: truncate(name),
        });
    }
    let program = format!("docker-credential-{name}");
    let fail = |problem: String| Error::Helper {
        registry: registry.to_owned(),
        helper: name.to_owned(),
        problem,
    };
    match run(program.as_ref(), registry, HELPER_TIMEOUT).await {
        Ok(Some(credential)) => Ok(HelperResult::CredentialLookup(credential)),
        Ok(None) => Ok(HelperResult::NotFound),
        Err(Failure::Start(problem)) => Ok(HelperResult::HelperMissing(fail(problem))),
        Err(Failure::Answer(problem)) => Err(fail(problem)),
    }
}

async fn run(
    program: &OsStr,
    registry: &str,
    limit: Duration,
) -> Result<Option<Credential>, Failure> {
    let server = match registry {
        "docker.io" => "https://index.docker.io/v1/",
        registry => registry,
    };
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::Start(format!("failed to start ({error})")))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::Answer(
            "has no standard input and output".to_owned(),
        ));
    };
    let talk = async {
        // A helper that does not read its input reports the reason in its output.
        let _ = stdin.write_all(server.as_bytes()).await;
        drop(stdin);
        let mut answer = Vec::new();
        let read = stdout.take(MAX_ANSWER + 1).read_to_end(&mut answer).await;
        read.map_err(|error| format!("failed to return its output ({error})"))?;
        if answer.len() as u64 > MAX_ANSWER {
            return Err(format!("returned more than {MAX_ANSWER} bytes"));
        }
        let status = child
            .wait()
            .await
            .map_err(|error| format!("has an unknown exit status ({error})"))?;
        Ok((status, answer))
    };
    let result = timeout(limit, talk).await;
    let result =
        result.unwrap_or_else(|_| Err(format!("took longer than {} s", limit.as_secs_f64())));
    let (status, answer) = result.map_err(Failure::Answer)?;
    parse_response(status, &answer).map_err(Failure::Answer)
}

fn parse_response(status: ExitStatus, answer: &[u8]) -> Result<Option<Credential>, String> {
    if !status.success() {
        // The protocol reports missing credentials only by this message.
        let message = String::from_utf8_lossy(answer);
        if message.contains("credentials not found") {
            return Ok(None);
        }
        // Helpers write error messages to standard output. Output that looks like a response may contain a secret.
        let excerpt = printable(&message, 200);
        return Err(if excerpt.is_empty() || message.contains('{') {
            format!("failed with {status}")
        } else {
            format!("failed with {status} ({excerpt})")
        });
    }
    let answer: Answer = serde_json::from_slice(answer)
        .map_err(|_| "returned no JSON with Username and Secret".to_owned())?;
    let [username, secret] = [answer.username, answer.secret].map(Option::unwrap_or_default);
    if [&username, &secret]
        .iter()
        .any(|text| text.chars().any(char::is_control))
    {
        return Err("returned control characters".to_owned());
    }
    Ok(match (&*username, &*secret) {
        // Some helpers report missing credentials with empty values.
        ("" | "<token>", "") => None,
        ("<token>", _) => Some(Credential::IdentityToken(secret.into())),
        _ => Some(Credential::Basic(Basic {
            username,
            password: secret.into(),
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script as a helper; `$host` is its standard input.
    async fn answer(script: &str) -> Result<Option<Credential>, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("helper");
        ::tests::write_program(&path, &format!("#!/bin/sh\nhost=$(cat)\n{script}\n"));
        let answer = run(path.as_ref(), "docker.io", Duration::from_millis(1500)).await;
        answer.map_err(|failure| match failure {
            Failure::Start(problem) => panic!("{problem}"),
            Failure::Answer(problem) => problem,
        })
    }

    #[tokio::test]
    async fn a_helper_is_given_the_registry_and_its_answer_is_read() {
        let script = r#"echo "{\"Username\": \"$1\", \"Secret\": \"$host\"}""#;
        let basic = Basic {
            username: "get".to_owned(),
            password: "https://index.docker.io/v1/".to_owned().into(),
        };
        assert_eq!(answer(script).await, Ok(Some(Credential::Basic(basic))));
        let token = r#"echo '{"Username": "<token>", "Secret": "t"}'"#;
        assert_rows!(answer(token).await => Ok(Some(Credential::IdentityToken("t".to_owned().into()))));
        for script in [
            "echo credentials not found in native keychain; exit 1",
            r#"echo '{"ServerURL": "", "Username": "", "Secret": ""}'"#,
            r#"echo '{"Username": "<token>", "Secret": ""}'"#,
            r#"echo '{"Username": null, "Secret": null}'"#,
            "echo '{}'",
        ] {
            assert_rows!(answer(script).await => Ok(None), "{script}");
        }
    }

    #[tokio::test]
    async fn failing_and_endless_helpers_are_stopped_and_reported() {
        assert_each!(|script, problem| answer(script).await.unwrap_err() => has problem;
            "printf 'the keychain is\\nlocked'; exit 3" => "failed with exit status: 3 (the keychain is";
            "exit 3" => "failed with exit status: 3";
            "echo no" => "returned no JSON with Username and Secret";
            "exec sleep 30" => "took longer";
            "exec cat /dev/zero" => "more than 65536 bytes";
            r#"printf '{"Username": "a", "Secret": "b\\n"}'"# => "control characters";
        );
        assert_rows!(answer(r#"echo '{"Secret": "hunter2"}'; exit 3"#).await.unwrap_err() => "failed with exit status: 3");
        let Ok(HelperResult::HelperMissing(error)) = get("not-installed", "h").await else {
            panic!("no program has this name")
        };
        ::tests::assert_has(&error, "failed to start");
    }

    #[tokio::test]
    async fn names_that_could_be_paths_are_not_run() {
        for name in ["", "../x", "/bin/sh", "a b", ".x", "x;y", "é"] {
            let error = get(name, "h").await.unwrap_err();
            assert!(matches!(error, Error::HelperName { .. }), "{name}: {error}");
        }
    }
}
