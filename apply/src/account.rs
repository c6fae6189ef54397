//! The ServiceAccount whose permissions apply to the objects of an owner.

use serde::{Deserialize, Serialize};

/// A ServiceAccount that the engine impersonates to apply, watch and delete objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Account {
    /// The name of the ServiceAccount.
    pub name: String,
    /// The namespace of the ServiceAccount.
    pub namespace: String,
}

impl Account {
    /// Returns the name of the user to impersonate. The API server adds the groups of the account.
    pub fn service_account_user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of revisions contain the account: a record of an earlier provisioner remains readable.
    #[test]
    fn recorded_form_of_an_account_is_stable() {
        let recorded = r#"{"name":"installer","namespace":"ops"}"#;
        let account: Account = serde_json::from_str(recorded).unwrap();
        assert_eq!(serde_json::to_string(&account).unwrap(), recorded);
        assert_rows!(account.service_account_user() => "system:serviceaccount:ops:installer");
    }
}
