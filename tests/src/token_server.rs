//! A token server for registries.

use std::{
    sync::{Arc, Mutex},
    time::UNIX_EPOCH,
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use bytes::Bytes;
use hyper::{Method, Request, Response, StatusCode};
use rcgen::{CertificateParams, DnType, KeyPair};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::{Value, json};

use crate::http_server::{Site, header, plain, unauthorized};
use crate::{OWNER, TENANT, TestCa, User};

/// A token server like those of the large public registries. Anonymous clients may read below `public/`, the tenant also
/// below `tenant/`, and the owner may read and write all repositories.
#[derive(Debug)]
pub struct TokenServer {
    site: Site,
    certificate: String,
    scopes: Arc<Mutex<Vec<String>>>,
}

struct Signer {
    key: EcdsaKeyPair,
    random: SystemRandom,
    certificate: String,
}

impl TokenServer {
    pub(crate) const SERVICE: &'static str = "tests";
    pub(crate) const ISSUER: &'static str = "tests";

    /// Starts a token server: https with a certificate of the CA, http without a CA.
    pub fn start(ca: Option<&TestCa>) -> Self {
        let (signer, certificate) = Signer::new();
        let scopes = Arc::new(Mutex::new(Vec::new()));
        let requested = Arc::clone(&scopes);
        let signer = Arc::new(signer);
        let site = Site::start(ca, move |request| {
            let (signer, requested) = (Arc::clone(&signer), Arc::clone(&requested));
            async move { answer(&request, &signer, &requested) }
        });
        Self {
            site,
            certificate,
            scopes,
        }
    }

    /// Returns the URL of the token endpoint.
    pub fn realm(&self) -> String {
        self.site.url("/token")
    }

    /// Returns the scopes of all tokens issued so far, as in `repository:public/tide:pull`.
    pub fn scopes(&self) -> Vec<String> {
        self.scopes.lock().unwrap().clone()
    }

    pub(crate) fn certificate(&self) -> String {
        self.certificate.clone()
    }
}

fn answer(
    request: &Request<Bytes>,
    signer: &Signer,
    requested: &Mutex<Vec<String>>,
) -> Response<Bytes> {
    if request.method() != Method::GET || request.uri().path() != "/token" {
        return plain(StatusCode::NOT_FOUND);
    }
    let login = header(request, "Authorization");
    let user = login.and_then(User::from_header);
    if login.is_some() && user.is_none() {
        return unauthorized();
    }
    let query = request.uri().query().unwrap_or_default();
    let mut access = Vec::new();
    let parameters = query.split('&');
    let scopes = parameters.filter_map(|pair| pair.strip_prefix("scope="));
    let scopes = scopes.map(decode).collect::<Vec<_>>().join(" ");
    for scope in scopes.split([' ', '+']).filter(|scope| !scope.is_empty()) {
        let (kind, rest) = scope.split_once(':').unwrap_or((scope, ""));
        let (name, actions) = rest.rsplit_once(':').unwrap_or_default();
        let allowed = |action: &&str| kind == "repository" && may(user, name, action);
        let actions: Vec<&str> = actions.split(',').filter(allowed).collect();
        access.push(json!({"type": kind, "name": name, "actions": actions}));
        requested.lock().unwrap().push(scope.to_owned());
    }
    let token = signer.token(user.map_or("", |user| user.name), &access);
    let body = json!({"token": token, "access_token": token, "expires_in": 300});
    Response::new(body.to_string().into())
}

fn may(user: Option<User>, repository: &str, action: &str) -> bool {
    let below = |dir: &str| repository.starts_with(dir) && action == "pull";
    user == Some(OWNER) || below("public/") || user == Some(TENANT) && below("tenant/")
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = (byte == b'%').then(|| [rest.next(), rest.next()]);
        bytes.push(match digits {
            Some([Some(high), Some(low)]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default();
                u8::try_from(digit(high) * 16 + digit(low)).unwrap()
            }
            _ => byte,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Signer {
    fn new() -> (Self, String) {
        let pair = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "tokens");
        let certificate = params.self_signed(&pair).unwrap();
        let (random, der) = (SystemRandom::new(), pair.serialize_der());
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random);
        let signer = Self {
            key: key.unwrap(),
            random,
            certificate: STANDARD.encode(certificate.der()),
        };
        (signer, certificate.pem())
    }

    fn token(&self, user: &str, access: &[Value]) -> String {
        let now = UNIX_EPOCH.elapsed().unwrap().as_secs();
        let head = json!({"typ": "JWT", "alg": "ES256", "x5c": [self.certificate]});
        let claims = json!({
            "iss": TokenServer::ISSUER, "aud": TokenServer::SERVICE, "sub": user, "access": access,
            "iat": now, "nbf": now - 60, "exp": now + 300, "jti": now.to_string(),
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(&claims));
        let signature = self.key.sign(&self.random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
