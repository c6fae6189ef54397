//! Serving certificate of a service: issued, renewed and replaced without a restart.
//!
//! ```text
//!  Secret: the CA, its successor, its predecessor ─ every replica ─> a serving certificate, only in memory
//!        └─ their certificates ─> ConfigMap of the same name, ca.crt ─> clients
//! ```
//!
//! A successor is published a month before it signs certificates, so that clients trust it in time. A predecessor remains
//! published until it expires. Secrets that another tool such as cert-manager manages are used unchanged.

mod ca;
mod certificate;
mod rotation;
mod secret;
#[cfg(test)]
mod tests;

/// Name of the Secret with the CA of the content service, and of the ConfigMap with the CA bundle for clients (key
/// `ca.crt`).
pub(crate) const CONTENT_CA: &str = "rukpak-ca";

#[cfg(test)]
pub(crate) use certificate::ServingCertificate;
pub(crate) use rotation::{CertificateConfig, CertificateManager};
