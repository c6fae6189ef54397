//! Whose rights an informer reads with.

use kube::Client;
use manifests::api::instance::ServiceAccountRef;

/// Clients with the rights of the provisioner or of a ServiceAccount.
pub trait Accounts: Send + Sync {
    /// Returns a client that acts as the account, or as the provisioner for `None`.
    ///
    /// # Errors
    /// Returns an error if the client cannot be configured.
    fn client(&self, account: Option<&ServiceAccountRef>) -> Result<Client, kube::Error>;
}

/// Returns the name of the user that a ServiceAccount is. The API server adds the groups of the account.
pub fn user(account: &ServiceAccountRef) -> String {
    format!(
        "system:serviceaccount:{}:{}",
        account.namespace, account.name
    )
}
