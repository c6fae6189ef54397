//! Registries: with and without TLS, for everybody or not.

use tests::{Auth, Authority, Registry};

use super::{Desk, says};

const PLAIN: &[&str] = &["--tls-verify=false"];

#[test]
fn a_private_authority_is_believed_when_it_is_named() {
    let desk = Desk::new();
    let authority = Authority::default();
    let registry = Registry::start(Auth::Anonymous, Some(&authority));
    let image = registry.image("tide:v1");
    let ca = desk.file("ca.pem", &authority.pem());
    let other = desk.file("other.pem", &Authority::new("another").pem());
    let trusting = ["--cacert", &ca];
    let pushed = desk.push(&image, &trusting, &[]);

    assert_eq!(desk.resolves(&image, &trusting, &[]), pushed);
    assert_eq!(
        desk.resolves(&image, &["--cacert", &other, "--cacert", &ca], &[]),
        pushed
    );
    assert_eq!(desk.resolves(&image, PLAIN, &[]), pushed);
    assert_eq!(
        desk.resolves(&image, &[], &[("SSL_CERT_FILE", &ca)]),
        pushed,
        "the system's own"
    );

    for access in [&[][..], &["--cacert", &other]] {
        says(
            &desk.fails(&image, access, &[]),
            &[registry.host(), "--cacert"],
            &[],
        );
    }
    let none = desk.file("none.pem", "no certificate\n");
    desk.fails(&image, &["--cacert", &none], &[]);
}
