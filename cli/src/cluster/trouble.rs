//! What servers refuse, and what keeps us from asking them, in words.

use std::{collections::HashSet, error::Error as _, fmt::Display};

use anyhow::{Error, anyhow};
use kube::core::response::Status;
use manifests::api::GROUP;

/// Whether the server knows the kind, and has no such object.
pub(super) fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && !is_unserved(status))
}

/// Whether it does not know the kind.
fn is_unserved(status: &Status) -> bool {
    status.code == 404
        && status
            .details
            .as_ref()
            .is_none_or(|details| details.name.is_empty())
}

/// An error with what was being done, why it failed, and what can be done about it.
pub(super) fn explain(doing: impl Display, error: &kube::Error, server: &str) -> Error {
    let why = match error {
        kube::Error::Api(status) => refusal(status, server),
        kube::Error::Auth(error) => {
            format!("the credentials of the kubeconfig cannot be used: {error}")
        }
        error => format!(
            "the server {server} cannot be reached: {}; check the kubeconfig and its --context",
            reasons(error)
        ),
    };
    anyhow!("{doing}: {why}")
}

fn refusal(status: &Status, server: &str) -> String {
    let message = &status.message;
    match status.code {
        401 => format!(
            "the server {server} does not accept these credentials ({message}): log in again, or choose another --context or \
             --user"
        ),
        403 if is_about_rights(message) => {
            format!("{message}: ask an administrator of the cluster for that right")
        }
        404 if is_unserved(status) => format!(
            "the cluster does not know {GROUP} ({message}): rukpak is not installed there, or being installed; see kubectl \
             apply --server-side -f manifests/install/rukpak.yaml"
        ),
        409 if status.reason == "Conflict" && message.contains("conflict with") => format!(
            "{message}: leave those fields to whoever has set them, or take them over with --force-conflicts"
        ),
        _ if message.is_empty() => format!("the server answers {} {}", status.code, status.reason),
        _ => message.clone(),
    }
}

/// Whether somebody may not do something. What an admission plugin refuses is forbidden as well, whoever asks: a pod that is not
/// hardened, or one too many.
fn is_about_rights(message: &str) -> bool {
    message.contains("forbidden: User ")
        || message.contains(" is attempting to grant RBAC permissions")
}

/// Every reason, from the general to the particular, and none of them twice.
fn reasons(error: &kube::Error) -> String {
    let mut told = HashSet::new();
    let mut reasons: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if told.insert(text.clone()) {
            // What repeats its own source says nothing more.
            reasons.retain(|earlier| !earlier.ends_with(&text));
            reasons.push(text);
        }
        next = error.source();
    }
    if reasons.is_empty() {
        error.to_string()
    } else {
        reasons.join(": ")
    }
}

#[cfg(test)]
mod tests {
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
    fn refusals_tell_what_to_do() {
        for (error, expected) in ::tests::rows![
            status(401, "Unauthorized", "") => "log in again";
            status(403, r#"bundles is forbidden: User "ann" cannot list resource "bundles""#, "")
                => "\"bundles\": ask an administrator";
            status(
                403,
                r#"roles "x" is forbidden: user "ann" (groups=[]) is attempting to grant RBAC permissions not currently held"#,
                "x",
            ) => "held: ask an administrator";
            status(404, "404 page not found", "") => "rukpak is not installed";
            status(404, "bundles \"x\" not found", "x") => "reading: bundles \"x\" not found";
            status(500, "", "") => "the server answers 500";
        ] {
            let text = explain("reading", &error, "https://example.com");
            ::tests::assert_has(text, expected);
        }
        for refused in [
            r#"pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true"#,
            r#"pods "x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1"#,
        ] {
            let text = explain("making", &status(403, refused, "x"), "").to_string();
            assert_eq!(text, format!("making: {refused}"));
        }
    }
}
