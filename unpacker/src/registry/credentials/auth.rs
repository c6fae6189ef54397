//! Parsing of the credentials entry of one registry.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;

use super::Credential;
use crate::trust::Basic;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Auth {
    /// User name, colon and password in base64.
    #[serde(rename = "auth")]
    basic: Option<String>,
    username: Option<String>,
    password: Option<String>,
    #[serde(rename = "identitytoken")]
    identity: Option<String>,
    #[serde(rename = "registrytoken")]
    token: Option<String>,
}

impl Auth {
    /// Converts the entry; `None` means that it is empty. An error continues the message "the credentials for …".
    pub(super) fn credential(self) -> Result<Option<Credential>, &'static str> {
        let [basic, username, password, identity, token] = [
            self.basic,
            self.username,
            self.password,
            self.identity,
            self.token,
        ]
        .map(Option::unwrap_or_default);
        let (username, password) = if basic.is_empty() {
            (username, password)
        } else {
            let bytes = BASE64.decode(basic.trim_end().as_bytes());
            let bytes = bytes.map_err(|_| "have an \"auth\" that is not base64")?;
            let text = String::from_utf8(bytes).map_err(|_| "have an \"auth\" that is not text")?;
            let (username, password) = text
                .split_once(':')
                .ok_or("have an \"auth\" without the \":\" after the name")?;
            (
                username.to_owned(),
                password.trim_end_matches('\0').to_owned(),
            )
        };
        if [&username, &password, &identity, &token]
            .iter()
            .any(|text| text.chars().any(char::is_control))
        {
            return Err("contain line breaks or other control characters");
        }
        Ok(if !token.is_empty() {
            Some(Credential::Token(token.into()))
        } else if !identity.is_empty() {
            Some(Credential::IdentityToken(identity.into()))
        } else if username.is_empty() && password.is_empty() {
            None
        } else if username.contains(':') {
            return Err("have a user name that contains \":\"");
        } else {
            Some(Credential::Basic(Basic {
                username,
                password: password.into(),
            }))
        })
    }
}

/// Base64 with or without padding: both exist in practice.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
