//! Certificates of servers that clients trust, and of those that they do not.

use crate::*;

/// Starts a server with a certificate of this kind, or without TLS for the kind `none`.
fn config(kind: &str, ca: &TestCa, other: &TestCa) -> Option<ServerConfig> {
    let valid = |first: i32| {
        move |params: &mut CertificateParams| {
            params.not_before = date_time_ymd(first, 1, 1);
            params.not_after = date_time_ymd(first + 1, 1, 1);
        }
    };
    let names = ["127.0.0.1"];
    Some(match kind {
        "good" => ca.server(&names, |_| {}),
        "unknown" => other.server(&names, |_| {}),
        "namesake" => TestCa::default().server(&names, |_| {}),
        "other-name" => ca.server(&["example.com"], |_| {}),
        "expired" => ca.server(&names, valid(2000)),
        "future" => ca.server(&names, valid(4000)),
        "client" => ca.server(&names, |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        }),
        "ca" => ca.server_itself(),
        "none" => return None,
        _ => panic!("{kind}"),
    })
}

/// Returns the number of connections, and the content or the error.
async fn outcome([certificate, trusted]: &[Cell; 2]) -> String {
    let (ca, other) = (TestCa::default(), TestCa::new("another"));
    let script = Script::new("200 << content", &Values::default());
    let server = Port::take().serve(config(certificate.raw(), &ca, &other), script);
    let mut trust = Trust::default();
    for name in trusted.words() {
        match name {
            "all" => trust.verify = Verify::Never,
            "own" => trust.roots.extend(["# one\n", &ca.pem(), "\n"]),
            _ => trust.roots.extend(["# another\n", &other.pem(), "\n"]),
        }
    }
    let url = format!("https://{}/b?token=sesame", server.address);
    let request = Request::get(url.parse().unwrap());
    let result = sent(&client(&trust, &brisk()), &request).await;
    let result = result.map_or_else(|error| described(&error), |(_, body)| body);
    format!("{}: {result}", server.connections())
}

#[tokio::test]
async fn certificates_are_verified_at_the_first_connection() {
    let rows = "
        # certificate, trusted CAs, connections and outcome
        of a trusted CA      | good       | own | 1: content
        of the first CA      | good       | own other | 1: content
        of the second CA     | good       | other own | 1: content
        of an unknown CA     | unknown    | own | 1: CertificateUntrusted, terminal: *--cacert*
        of a namesake        | namesake   | own | 1: CertificateUntrusted, terminal: *--cacert*
        of another host      | other-name | own | 1: CertificateUntrusted, terminal: *is for another name*
        expired              | expired    | own | 1: CertificateUntrusted, terminal: *has expired*
        not valid yet        | future     | own | 1: CertificateUntrusted, terminal: *is not valid yet*
        for clients          | client     | own | 1: CertificateUntrusted, terminal: *is invalid; reissue it*
        of the CA itself     | ca         | own | 1: CertificateUntrusted, terminal: *have the CA issue one*
        no trusted CA        | good       |     | 1: CertificateUntrusted, terminal: *--cacert*--tls-verify=false*
        good, unverified     | good       | all | 1: content
        other, unverified    | other-name | all | 1: content
        expired, unverified  | expired    | all | 1: content
        CA, unverified       | ca         | all | 1: content
        plain HTTP           | none       |     | 1: NotTLS, terminal: *plain HTTP*
        plain HTTP, unverified | none     | all | 1: NotTLS, terminal: *plain HTTP*
    ";
    table::check(rows, &Values::default(), outcome).await;
}

#[test]
fn malformed_certificates_are_rejected() {
    let pem = TestCa::default().pem();
    let values = Values::default()
        .with("pem", &*pem)
        .with("key", rcgen::KeyPair::generate().unwrap().serialize_pem())
        .with("cut", pem.split_at(pem.len() / 2).0)
        .with("begin", "-----BEGIN CERTIFICATE-----\n")
        .with("end", "\n-----END CERTIFICATE-----\n");
    let problem = "ClientInvalid, terminal: failed to read the certificates of --cacert: *";
    let rows = "
        text       | certificate            | {problem}
        key        | {key}                  | {problem}
        cut        | {cut}                  | {problem}
        no content | {begin}AAAA{end}       | {problem}
        second     | {pem}{begin}AAAA{end}  | {problem}
        no base64  | {begin}!{end}          | {problem}
    ";
    table::compare(rows, &values.with("problem", problem), |[roots]| {
        let trust = with!(Trust, roots: roots.text());
        described(&Client::with_proxies(&trust, &brisk(), &Proxies::default()).unwrap_err())
    });
}
