//! What the apiserver has answered a watch.

use kube::runtime::watcher;

/// The status of an answer; none if nobody answered.
pub(crate) fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// Whether a status will be the same next time, unless somebody does something. 410 says that it has to be listed anew.
pub(crate) fn is_refusal(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 408 | 410 | 429)
}
