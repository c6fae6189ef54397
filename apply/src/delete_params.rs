//! Parameters of delete requests.

use kube::api::{DeleteParams, Preconditions};

/// Returns parameters that delete only the object with this uid, and not a later one of the same name.
pub fn for_uid(uid: Option<String>) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid,
        resource_version: None,
    })
}
