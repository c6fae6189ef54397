//! What is known of the rights of bundles that were looked at: to look at one costs a download. No I/O.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use manifests::{
    api::{Class, platform::NewRights},
    version::KubeVersion,
};

use crate::backoff;

/// How many answers are kept of an operator: of the next minor version and of a patch, and of what came before these.
const KEPT: usize = 4;

/// What was asked. Of an image with a digest, the same question has the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) image: String,
    pub(super) class: Class,
    /// The uid of the Bundle that is installed.
    pub(super) installed: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) kubernetes: KubeVersion,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::platform::operator) struct Looked {
    /// What a bundle may do that the installed one may not.
    pub(in crate::platform::operator) rights: Option<NewRights>,
    /// The image by its digest: what the one that was asked about meant then.
    pub(in crate::platform::operator) image: String,
}

/// That something is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::platform::operator) struct Unknown {
    pub(in crate::platform::operator) why: String,
    /// For how long nobody looks again, if that is certain.
    pub(in crate::platform::operator) wait: Option<Duration>,
}

pub(super) type Rights = Result<Looked, Unknown>;

/// The answers of each operator, by its uid, the latest last.
#[derive(Debug, Default)]
pub(in crate::platform::operator) struct Answers(Mutex<HashMap<String, VecDeque<Answer>>>);

#[derive(Debug)]
struct Answer {
    question: Question,
    answer: Result<Looked, Failed>,
}

/// It could not be answered.
#[derive(Debug)]
struct Failed {
    why: String,
    /// Of the operator: whoever changes it wants to know anew.
    generation: Option<i64>,
    /// How often in a row.
    count: u32,
    until: Instant,
}

/// An operator's uid and generation.
pub(super) type Of<'a> = (&'a str, Option<i64>);

// === impl Answers ===

impl Answers {
    /// What is known of it, or why it is not to be looked at now.
    pub(super) fn recall(&self, of: Of<'_>, question: &Question, now: Instant) -> Option<Rights> {
        let all = self.lock();
        let known = all.get(of.0)?.iter().find(|it| it.question == *question)?;
        match &known.answer {
            Ok(looked) => Some(Ok(looked.clone())),
            Err(failed) if failed.generation != of.1 || failed.until <= now => None,
            Err(failed) => Some(Err(failed.told(now))),
        }
    }

    /// Somebody has looked.
    pub(super) fn keep(
        &self,
        of: Of<'_>,
        question: Question,
        answer: Result<Looked, String>,
        now: Instant,
    ) -> Rights {
        let mut all = self.lock();
        let known = all.entry(of.0.to_owned()).or_default();
        let at = known.iter().position(|it| it.question == question);
        let before = at.and_then(|at| known.remove(at));
        let (answer, told) = match answer {
            Ok(looked) => {
                // A tag may mean something else the next time.
                if !question.image.contains('@') {
                    return Ok(looked);
                }
                (Ok(looked.clone()), Ok(looked))
            }
            Err(why) => {
                let before = before.and_then(|it| it.answer.err());
                let before = before.filter(|it| it.generation == of.1);
                let count = before.map_or(0, |it| it.count).saturating_add(1);
                let failed = Failed {
                    why,
                    generation: of.1,
                    count,
                    until: now + backoff::pause(count, true, fastrand::f64()),
                };
                let told = failed.told(now);
                (Err(failed), Err(told))
            }
        };
        if known.len() >= KEPT {
            known.pop_front();
        }
        known.push_back(Answer { question, answer });
        told
    }

    /// An operator is gone.
    pub(in crate::platform::operator) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failed {
    fn told(&self, now: Instant) -> Unknown {
        Unknown {
            why: self.why.clone(),
            wait: Some(self.until.saturating_duration_since(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(image: &str) -> Question {
        Question {
            image: image.to_owned(),
            class: Class::Registry,
            installed: Some("uid of 1.0.0".to_owned()),
            namespace: None,
            kubernetes: KubeVersion::new(1, 30),
        }
    }

    fn looked(rights: Option<NewRights>) -> Looked {
        Looked {
            rights,
            image: "r/tide@sha256:1".to_owned(),
        }
    }

    fn secrets() -> Looked {
        looked(Some(NewRights {
            digest: "sha256:1".to_owned(),
            rules: vec!["get secrets".to_owned()],
        }))
    }

    #[test]
    fn what_waits_for_somebody_is_not_looked_at_again() {
        let (answers, now) = (Answers::default(), Instant::now());
        let of = ("a", Some(1));
        let pinned = about("r/tide@sha256:1");
        assert_eq!(answers.recall(of, &pinned, now), None);
        let known = Ok(secrets());
        assert_rows!(answers.keep(of, pinned.clone(), Ok(secrets()), now) => known);
        let later = now + Duration::from_secs(86400);
        // Also when somebody has changed the operator: he may have approved them.
        for of in [of, ("a", Some(2))] {
            assert_eq!(answers.recall(of, &pinned, later), Some(known.clone()));
        }
        // Another operator, another image, another cluster, another one installed.
        assert_eq!(answers.recall(("b", Some(1)), &pinned, now), None);
        let others = [
            about("r/tide@sha256:2"),
            with!(pinned.clone() => kubernetes: KubeVersion::new(1, 31)),
            with!(pinned.clone() => installed: None),
        ];
        for other in others {
            assert_eq!(answers.recall(of, &other, now), None, "{other:?}");
        }
        // What a tag means is asked each time.
        let tag = about("r/tide:v1");
        assert_rows!(answers.keep(of, tag.clone(), Ok(looked(None)), now) => Ok(looked(None)));
        assert_eq!(answers.recall(of, &tag, now), None);
        // A few are enough.
        for at in 2..=1 + KEPT {
            let image = about(&format!("r/tide@sha256:{at}"));
            let _ = answers.keep(of, image, Ok(looked(None)), now);
        }
        assert_eq!(answers.recall(of, &pinned, now), None);
        let last = about(&format!("r/tide@sha256:{}", 1 + KEPT));
        assert_eq!(answers.recall(of, &last, now), Some(Ok(looked(None))));
        answers.forget("a");
        assert_eq!(answers.recall(of, &last, now), None);
    }

    #[test]
    fn what_cannot_be_looked_at_is_tried_ever_more_slowly_until_somebody_changes_the_operator() {
        let (answers, mut now) = (Answers::default(), Instant::now());
        let of = ("a", Some(1));
        let image = about("r/tide@sha256:1");
        let fail = |of, now| {
            let answer = answers.keep(of, image.clone(), Err("no such image".to_owned()), now);
            answer.unwrap_err().wait.unwrap()
        };
        for seconds in [15, 30, 60, 120, 240, 300, 300] {
            let wait = fail(of, now);
            let expected = Duration::from_secs(seconds);
            assert_rows! {
                wait >= expected.mul_f64(0.75) && wait <= expected.mul_f64(1.25) => true, "{wait:?} instead of {expected:?}";
            }
            let second = Duration::from_secs(1);
            let told = answers.recall(of, &image, now + second).unwrap();
            let told = told.unwrap_err();
            assert_eq!(told.why, "no such image");
            assert_eq!(told.wait, wait.checked_sub(second));
            now += wait;
            assert_eq!(answers.recall(of, &image, now), None, "it is tried again");
        }
        let _ = fail(of, now);
        let changed = ("a", Some(2));
        assert_eq!(answers.recall(changed, &image, now), None);
        assert!(fail(changed, now) < Duration::from_secs(20));
        // It works, and something else does not.
        let _ = answers.keep(changed, image.clone(), Ok(looked(None)), now);
        assert_eq!(answers.recall(changed, &image, now), Some(Ok(looked(None))));
    }
}
