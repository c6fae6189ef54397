//! Whose rights an informer reads with.

use kube::Client;

use crate::account::Account;

/// Clients with the rights of the provisioner or of a ServiceAccount.
pub trait Accounts: Send + Sync {
    /// Returns a client that acts as the account, or as the provisioner for `None`.
    ///
    /// # Errors
    /// Returns an error if the client cannot be configured.
    fn client(&self, account: Option<&Account>) -> Result<Client, kube::Error>;
}
