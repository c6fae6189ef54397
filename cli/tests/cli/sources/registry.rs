//! Registries: with and without TLS, for everybody or not.

use tests::{Auth, Authority, Registry};

use super::{Desk, PLAIN};

#[test]
fn a_private_authority_is_believed_when_it_is_named() {
    let desk = Desk::new();
    let authority = Authority::default();
    let registry = Registry::start(Auth::Anonymous, Some(&authority));
    let image = registry.image("tide:v1");
    let ca = desk.file("ca.pem", &authority.pem());
    let other = desk.file("other.pem", &Authority::new("another").pem());
    let (trusting, wrong) = (format!("--cacert {ca}"), format!("--cacert {other}"));
    let pushed = desk.push(&image, &trusting, &[]);
    for (access, env) in [
        (trusting.as_str(), &[][..]),
        (&format!("{wrong} {trusting}"), &[]),
        (PLAIN, &[]),
        // The system's own.
        ("", &[("SSL_CERT_FILE", &*ca)]),
    ] {
        assert_eq!(desk.resolves(&image, access, env), pushed, "{access}");
    }
    for access in ["", &wrong] {
        desk.refuses(&image, access, &[registry.host(), "--cacert"]);
    }
    let none = desk.file("none.pem", "no certificate\n");
    desk.fails(&image, &format!("--cacert {none}"), &[]);
}
