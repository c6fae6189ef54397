//! Clients with the permissions of the provisioner, or of a ServiceAccount that an instance specifies.

use std::num::NonZeroUsize;

use apply::account::Account;
use kube::{Client, Config};
use lru::LruCache;
use manifests::api::bundle_instance::ServiceAccountRef;
use parking_lot::Mutex;

use super::client;
use crate::runtime::fence::Fence;

/// Maximum number of cached clients. Each of them holds connections.
const MAX_CLIENTS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// Returns the ServiceAccount of an API reference.
pub fn from_reference(reference: &ServiceAccountRef) -> Account {
    Account {
        name: reference.name.clone(),
        namespace: reference.namespace.clone(),
    }
}

/// Clients by ServiceAccount.
pub struct ImpersonatedClients {
    config: Config,
    fence: Fence,
    own: Client,
    hasty: Client,
    by_account: Mutex<LruCache<Account, Client>>,
}

impl ImpersonatedClients {
    /// Returns clients for a configuration of the provisioner's client.
    ///
    /// # Errors
    /// Returns an error if no client can be created.
    pub fn new(config: Config) -> Result<Self, kube::Error> {
        Self::with_fence(config, Fence::default())
    }

    /// Returns the same clients behind a fence, which stops their writes once it is closed.
    ///
    /// # Errors
    /// Returns an error if no client can be created.
    pub fn fenced(&self, fence: Fence) -> Result<Self, kube::Error> {
        Self::with_fence(self.config.clone(), fence)
    }

    fn with_fence(config: Config, fence: Fence) -> Result<Self, kube::Error> {
        let mut hasty = config.clone();
        hasty.default_retry = false;
        Ok(Self {
            own: client::new(config.clone(), &fence)?,
            hasty: client::new(hasty, &fence)?,
            config,
            fence,
            by_account: Mutex::new(LruCache::new(MAX_CLIENTS)),
        })
    }

    /// Returns the provisioner's own client.
    pub fn default_client(&self) -> &Client {
        &self.own
    }

    /// Returns the provisioner's own client without retries, for callers with their own back-off. The other client retries
    /// for minutes without a result while an API server is overloaded.
    pub fn client_without_retry(&self) -> &Client {
        &self.hasty
    }

    /// Returns a client that impersonates a ServiceAccount, or the provisioner's own client without one.
    ///
    /// # Errors
    /// Returns an error if no client can be created.
    pub fn client(&self, account: Option<&ServiceAccountRef>) -> Result<Client, kube::Error> {
        match account {
            Some(account) => self.client_of(from_reference(account)),
            None => Ok(self.own.clone()),
        }
    }

    fn client_of(&self, account: Account) -> Result<Client, kube::Error> {
        let mut by_account = self.by_account.lock();
        if let Some(client) = by_account.get(&account) {
            return Ok(client.clone());
        }
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(account.service_account_user());
        let client = client::new(config, &self.fence)?;
        by_account.put(account, client.clone());
        Ok(client)
    }
}

impl apply::informers::Accounts for ImpersonatedClients {
    fn client(&self, account: Option<&Account>) -> Result<Client, kube::Error> {
        match account {
            Some(account) => self.client_of(account.clone()),
            None => Ok(self.own.clone()),
        }
    }
}
