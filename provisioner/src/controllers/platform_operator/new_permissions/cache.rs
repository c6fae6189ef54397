//! Cache of the new permissions of bundles, since each comparison requires a download. Pure; no I/O.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use manifests::{
    api::{Class, platform_operator::NewRights},
    version::KubeVersion,
};
use parking_lot::Mutex;

use crate::controllers::backoff;

/// Number of cached results per operator: of the next minor version and of a patch, and of the previous ones.
const CAPACITY: usize = 4;

/// Key of a comparison. For an image with a digest, equal keys have equal results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PermissionQuery {
    pub(super) image: String,
    pub(super) class: Class,
    /// UID of the installed Bundle.
    pub(super) installed: Option<String>,
    /// Namespace of the installed bundle.
    pub(super) namespace: Option<String>,
    /// Namespace that the spec requests for the next bundle; `None` if the bundle determines it.
    pub(super) requested_namespace: Option<String>,
    pub(super) kubernetes: KubeVersion,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PermissionResult {
    /// New permissions of the bundle, if any.
    pub(crate) permissions: Option<NewRights>,
    /// Image by digest, which the requested reference pointed to.
    pub(crate) image: String,
}

/// A comparison that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueryFailure {
    pub(crate) why: String,
    /// Time until the next attempt; `None` if it is not known.
    pub(crate) wait: Option<Duration>,
}

pub(super) type CachedResult = Result<PermissionResult, QueryFailure>;

/// Cached results by UID of the operator, the latest last.
#[derive(Debug, Default)]
pub(crate) struct PermissionCache(Mutex<HashMap<String, VecDeque<Answer>>>);

#[derive(Debug)]
struct Answer {
    question: PermissionQuery,
    answer: Result<PermissionResult, Failed>,
}

/// A failed comparison.
#[derive(Debug)]
struct Failed {
    why: String,
    /// Generation of the operator. A changed operator starts another attempt.
    generation: Option<i64>,
    /// Number of consecutive failures.
    count: u32,
    until: Instant,
}

/// UID and generation of an operator.
pub(super) type OperatorKey<'a> = (&'a str, Option<i64>);

// === impl PermissionCache ===

impl PermissionCache {
    /// Returns a cached result, or a failure whose back-off has not ended; `None` if a comparison may start.
    pub(super) fn get(
        &self,
        of: OperatorKey<'_>,
        question: &PermissionQuery,
        now: Instant,
    ) -> Option<CachedResult> {
        let all = self.0.lock();
        let cached = all
            .get(of.0)?
            .iter()
            .find(|cached| cached.question == *question)?;
        match &cached.answer {
            Ok(looked) => Some(Ok(looked.clone())),
            Err(failed) if failed.generation != of.1 || failed.until <= now => None,
            Err(failed) => Some(Err(failed.to_unknown(now))),
        }
    }

    /// Records a result.
    pub(super) fn insert(
        &self,
        of: OperatorKey<'_>,
        question: PermissionQuery,
        answer: Result<PermissionResult, String>,
        now: Instant,
    ) -> CachedResult {
        let mut all = self.0.lock();
        let results = all.entry(of.0.to_owned()).or_default();
        let at = results
            .iter()
            .position(|cached| cached.question == question);
        let before = at.and_then(|at| results.remove(at));
        let (answer, result) = match answer {
            Ok(looked) => {
                // A tag may refer to another image the next time.
                if !question.image.contains('@') {
                    return Ok(looked);
                }
                (Ok(looked.clone()), Ok(looked))
            }
            Err(why) => {
                let before = before.and_then(|cached| cached.answer.err());
                let before = before.filter(|failed| failed.generation == of.1);
                let count = before.map_or(0, |failed| failed.count).saturating_add(1);
                let failed = Failed {
                    why,
                    generation: of.1,
                    count,
                    until: now + backoff::delay(count, true, fastrand::f64()),
                };
                let unknown = failed.to_unknown(now);
                (Err(failed), Err(unknown))
            }
        };
        if results.len() >= CAPACITY {
            results.pop_front();
        }
        results.push_back(Answer { question, answer });
        result
    }

    /// Removes the results of a deleted operator.
    pub(crate) fn remove(&self, uid: &str) {
        self.0.lock().remove(uid);
    }
}

impl Failed {
    fn to_unknown(&self, now: Instant) -> QueryFailure {
        QueryFailure {
            why: self.why.clone(),
            wait: Some(self.until.saturating_duration_since(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(image: &str) -> PermissionQuery {
        PermissionQuery {
            image: image.to_owned(),
            class: Class::Registry,
            installed: Some("uid of 1.0.0".to_owned()),
            namespace: None,
            requested_namespace: None,
            kubernetes: KubeVersion::new(1, 30),
        }
    }

    fn looked(permissions: Option<NewRights>) -> PermissionResult {
        let image = "r/tide@sha256:1".to_owned();
        PermissionResult { permissions, image }
    }

    fn secrets() -> PermissionResult {
        let (digest, rules) = ("sha256:1".to_owned(), vec!["get secrets".to_owned()]);
        looked(Some(NewRights { digest, rules }))
    }

    #[test]
    fn successful_checks_are_cached() {
        let (answers, now) = (PermissionCache::default(), Instant::now());
        let of = ("a", Some(1));
        let pinned = about("r/tide@sha256:1");
        let tag = about("r/tide:v1");
        let later = now + Duration::from_secs(86400);
        assert_rows! {
            answers.get(of, &pinned, now) => None;
            answers.insert(of, pinned.clone(), Ok(secrets()), now) => Ok(secrets());
            answers.get(of, &pinned, later) => Some(Ok(secrets()));
            // Also if the operator was changed: the change may be the approval.
            answers.get(("a", Some(2)), &pinned, later) => Some(Ok(secrets()));
            // Another operator, image, cluster version or installed bundle.
            answers.get(("b", Some(1)), &pinned, now) => None;
            answers.get(of, &about("r/tide@sha256:2"), now) => None;
            answers.get(of, &with!(pinned.clone() => kubernetes: KubeVersion::new(1, 31)), now) => None;
            answers.get(of, &with!(pinned.clone() => installed: None), now) => None;
            // Tags are resolved each time.
            answers.insert(of, tag.clone(), Ok(looked(None)), now) => Ok(looked(None));
            answers.get(of, &tag, now) => None;
        }
        // The cache is bounded.
        for at in 2..=1 + CAPACITY {
            let image = about(&format!("r/tide@sha256:{at}"));
            let _ = answers.insert(of, image, Ok(looked(None)), now);
        }
        let last = about(&format!("r/tide@sha256:{}", 1 + CAPACITY));
        assert_rows! {
            answers.get(of, &pinned, now) => None;
            answers.get(of, &last, now) => Some(Ok(looked(None)));
            { answers.remove("a"); answers.get(of, &last, now) } => None;
        }
    }

    #[test]
    fn failed_checks_back_off_until_the_operator_changes() {
        let (answers, mut now) = (PermissionCache::default(), Instant::now());
        let of = ("a", Some(1));
        let image = about("r/tide@sha256:1");
        let fail = |of, now| {
            let answer = answers.insert(of, image.clone(), Err("no such image".to_owned()), now);
            answer.unwrap_err().wait.unwrap()
        };
        for seconds in [15, 30, 60, 120, 240, 300, 300] {
            let wait = fail(of, now);
            let expected = Duration::from_secs(seconds);
            assert_rows! {
                wait >= expected.mul_f64(0.75) && wait <= expected.mul_f64(1.25) => true, "{wait:?} instead of {expected:?}";
            }
            let second = Duration::from_secs(1);
            let failure = answers.get(of, &image, now + second).unwrap().unwrap_err();
            assert_eq!(failure.why, "no such image");
            assert_eq!(failure.wait, wait.checked_sub(second));
            now += wait;
            assert_eq!(answers.get(of, &image, now), None, "the check is due again");
        }
        let _ = fail(of, now);
        let changed = ("a", Some(2));
        assert_eq!(answers.get(changed, &image, now), None);
        assert!(fail(changed, now) < Duration::from_secs(20));
        // The check succeeds after the change.
        let _ = answers.insert(changed, image.clone(), Ok(looked(None)), now);
        assert_eq!(answers.get(changed, &image, now), Some(Ok(looked(None))));
    }
}
