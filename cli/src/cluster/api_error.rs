//! Messages for failed requests: rejections of the API server, and connection errors.

use std::{collections::HashSet, error::Error as _, fmt::Display, iter};

use anyhow::{Chain, Error, anyhow};
use apply::api_error::{self, field_conflicts};
use kube::{client::AuthError, core::response::Status};
use manifests::api::GROUP;

/// Maximum number of lines of a credential plugin's standard error in a message.
const MAX_PLUGIN_LINES: usize = 3;

/// Reports whether the object does not exist, while its API is served.
pub(super) fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && !is_api_missing(status))
}

/// Reports whether the API is not served.
fn is_api_missing(status: &Status) -> bool {
    status.code == 404
        && status
            .details
            .as_ref()
            .is_none_or(|details| details.name.is_empty())
}

/// Describes the error of a request: the failed action, the reason and the remedy.
pub(super) fn explain(doing: impl Display, error: &kube::Error, server: &str) -> Error {
    // The refresh of a token fails in a layer of the client, which wraps the error.
    let auth_error = Chain::new(error).find_map(|cause| cause.downcast_ref::<AuthError>());
    let reason = match (error, auth_error) {
        (kube::Error::Api(status), _) => describe_rejection(status, server),
        (_, Some(error)) => format!(
            "failed to load the credentials of the kubeconfig: {}; log in again, or correct the user of the kubeconfig",
            describe_auth_error(error)
        ),
        (error, None) => format!(
            "failed to reach the API server {server}: {}; check the kubeconfig and --context",
            error_chain(error)
        ),
    };
    anyhow!("{doing}: {reason}")
}

/// Describes why credentials cannot be used. The command line, the environment and the standard output of a credential
/// plugin are omitted, because they may contain secrets.
fn describe_auth_error(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let status = format!("the credential plugin failed with {}", out.status);
            // Empty if the plugin shares the terminal, and has printed its errors already.
            let errors = String::from_utf8_lossy(&out.stderr);
            let lines = errors.lines().take(MAX_PLUGIN_LINES);
            iter::once(&*status)
                .chain(lines)
                .collect::<Vec<_>>()
                .join(": ")
        }
        AuthError::AuthExecParse(_) => {
            "the output of the credential plugin is not a valid ExecCredential".to_owned()
        }
        error => error.to_string(),
    }
}

fn describe_rejection(status: &Status, server: &str) -> String {
    let message = &status.message;
    match status.code {
        401 => format!(
            "the API server {server} rejected the credentials ({message}); log in again, or set another --context or \
             --user"
        ),
        403 if is_permission_error(message) => {
            format!("{message}; ask a cluster admin for this permission")
        }
        404 if is_api_missing(status) => format!(
            "the cluster does not serve {GROUP} ({message}); install rukpak with \"kubectl apply --server-side -f \
             manifests/install/rukpak.yaml\""
        ),
        409 if field_conflicts(status).next().is_some() => {
            format!("{message}; remove these fields, or use --force-conflicts to take ownership")
        }
        _ => api_error::message(status),
    }
}

/// Reports whether a message is about missing RBAC permissions. Denials of admission plugins also have status 403,
/// independent of the user: for example a pod that violates a policy or exceeds a quota.
fn is_permission_error(message: &str) -> bool {
    message.contains("forbidden: User ")
        || message.contains(" is attempting to grant RBAC permissions")
}

/// Joins the sources of an error, from the general to the specific one, without duplicates.
fn error_chain(error: &kube::Error) -> String {
    let mut seen_texts = HashSet::new();
    let mut messages: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if seen_texts.insert(text.clone()) {
            // A message that ends with its own source adds no information.
            messages.retain(|earlier| !earlier.ends_with(&text));
            messages.push(text);
        }
        next = error.source();
    }
    if messages.is_empty() {
        error.to_string()
    } else {
        messages.join(": ")
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::ExitStatusExt as _,
        process::{ExitStatus, Output},
    };

    use serde_json::json;

    use super::*;

    fn status(code: u16, message: &str, name: &str) -> kube::Error {
        let status = json!({"code": code, "message": message, "details": {"name": name}});
        crate::testing::refused(status)
    }

    #[test]
    fn a_missing_object_is_not_a_missing_api() {
        ::tests::assert_rows! {
            is_absent(&status(404, "not found", "tide")) => true;
            is_absent(&status(404, "404 page not found", "")) => false;
            is_absent(&status(403, "forbidden", "tide")) => false;
        }
    }

    #[test]
    fn secrets_of_credential_plugins_are_not_printed() {
        let failed = |stderr: &str| AuthError::AuthExecRun {
            cmd: "TOKEN=secret login secret".to_owned(),
            out: Box::new(Output {
                status: ExitStatus::from_raw(3 << 8),
                stdout: b"secret".to_vec(),
                stderr: stderr.into(),
            }),
        };
        let prefix = "reading: failed to load the credentials of the kubeconfig: the credential plugin failed with exit \
                      status: 3";
        let remedy = "; log in again, or correct the user of the kubeconfig";
        ::tests::assert_each!(|error, expected| explain("reading", &error, "https://example.com").to_string()
            => format!("{prefix}{expected}{remedy}");
            kube::Error::Auth(failed("")) => "";
            kube::Error::Service(Box::new(failed(""))) => "";
            kube::Error::Auth(failed("expired\nrun login\n")) => ": expired: run login";
            kube::Error::Auth(failed("1\n2\n3\n4")) => ": 1: 2: 3";
        );
    }

    #[test]
    fn api_errors_name_a_remedy() {
        ::tests::assert_each!(|error, expected| explain("reading", &error, "https://example.com") => has expected;
            status(401, "Unauthorized", "") => "log in again";
            status(403, r#"bundles is forbidden: User "ann" cannot list resource "bundles""#, "")
                => "\"bundles\"; ask a cluster admin";
            status(
                403,
                r#"roles "x" is forbidden: user "ann" (groups=[]) is attempting to grant RBAC permissions not currently held"#,
                "x",
            ) => "held; ask a cluster admin";
            status(404, "404 page not found", "") => "install rukpak";
            status(404, "bundles \"x\" not found", "x") => "reading: bundles \"x\" not found";
            status(500, "", "") => "the API server returned 500";
        );
        for refused in [
            r#"pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true"#,
            r#"pods "x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"#,
        ] {
            ::tests::assert_rows!(explain("making", &status(403, refused, "x"), "").to_string() => format!("making: {refused}"));
        }
    }
}
