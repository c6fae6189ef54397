//! Whose rights requests are made with: the provisioner's own, or those of a ServiceAccount that an instance names.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

use apply::account::Account;
use kube::{Client, Config};
use lru::LruCache;
use manifests::api::instance::ServiceAccountRef;

use crate::{client, process::Fence};

/// How many accounts have a client that waits for them, with its connections.
const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// Returns the account that a reference of the API names.
pub fn from_reference(reference: &ServiceAccountRef) -> Account {
    Account {
        name: reference.name.clone(),
        namespace: reference.namespace.clone(),
    }
}

/// Clients, one for each account.
pub struct Accounts {
    config: Config,
    fence: Fence,
    own: Client,
    hasty: Client,
    others: Mutex<LruCache<Account, Client>>,
}

impl Accounts {
    /// `config` is what the provisioner's own client was made from.
    ///
    /// # Errors
    /// When no client can be made of it.
    pub fn new(config: Config) -> Result<Self, kube::Error> {
        Self::behind(config, Fence::default())
    }

    /// The same clients, which change nothing once the fence is closed.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn fenced(&self, fence: Fence) -> Result<Self, kube::Error> {
        Self::behind(self.config.clone(), fence)
    }

    fn behind(config: Config, fence: Fence) -> Result<Self, kube::Error> {
        let mut hasty = config.clone();
        hasty.default_retry = false;
        Ok(Self {
            own: client::new(config.clone(), &fence)?,
            hasty: client::new(hasty, &fence)?,
            config,
            fence,
            others: Mutex::new(LruCache::new(MOST)),
        })
    }

    /// The provisioner's own client.
    pub fn own(&self) -> &Client {
        &self.own
    }

    /// The same for who waits and tries again by itself. The other one is silent for minutes while an API server says that
    /// it has no time.
    pub fn hasty(&self) -> &Client {
        &self.hasty
    }

    /// A client with the rights of an account, by impersonation; the provisioner's own when none is named.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn client(&self, account: Option<&ServiceAccountRef>) -> Result<Client, kube::Error> {
        match account {
            Some(account) => self.client_of(from_reference(account)),
            None => Ok(self.own.clone()),
        }
    }

    fn client_of(&self, account: Account) -> Result<Client, kube::Error> {
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = others.get(&account) {
            return Ok(client.clone());
        }
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(account.user());
        let client = client::new(config, &self.fence)?;
        others.put(account, client.clone());
        Ok(client)
    }
}

impl apply::informers::Accounts for Accounts {
    fn client(&self, account: Option<&Account>) -> Result<Client, kube::Error> {
        match account {
            Some(account) => self.client_of(account.clone()),
            None => Ok(self.own.clone()),
        }
    }
}
