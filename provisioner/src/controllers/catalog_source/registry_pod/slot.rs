//! Registry pod of one followed catalog: when it is reconciled, and its last report.

use std::time::{Duration, Instant};

use apply::api_error;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Error, RegistryPodReconciler, RegistryPodState, RepairBackoff, plan::PodServingState};

/// Report of a registry pod.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::controllers::catalog_source) struct PodReport {
    pub(in crate::controllers::catalog_source) pod_state: Result<RegistryPodState, String>,
    /// True if the state lasts until an admin or user corrects its cause.
    pub(in crate::controllers::catalog_source) is_terminal: bool,
    /// Time of the last check of the image's tag; `None` if it was not checked since this process started.
    pub(in crate::controllers::catalog_source) asked: Option<Timestamp>,
}

/// Slot for the reconciler of a catalog's registry pod. The slot is empty while the catalog is served in another way.
#[derive(Default)]
pub(in crate::controllers::catalog_source) struct RegistryPodSlot {
    reconciler: tokio::sync::Mutex<Option<RegistryPodReconciler>>,
    /// Cancels the running reconcile, until its first write.
    cancel: Mutex<CancellationToken>,
    /// Cancels all reconciles after the catalog was removed.
    closed: CancellationToken,
    schedule: Mutex<PodSchedule>,
    reports: watch::Sender<Option<PodReport>>,
}

/// Result of a reconcile of the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::controllers::catalog_source) struct SlotOutcome {
    /// Delay until the next reconcile if nothing changes.
    pub(in crate::controllers::catalog_source) delay: Duration,
    /// True if the pod was reconciled and its report has changed.
    pub(in crate::controllers::catalog_source) is_new: bool,
}

/// Schedule of the reconciles of one pod. Pure; no I/O.
#[derive(Debug, Default)]
struct PodSchedule {
    /// Time of the next reconcile; `None` before the first one, which is due at once, and while one is running without
    /// an observed change.
    next_at: Option<Instant>,
    repairs: RepairBackoff,
    /// Time of the last check of the image's tag.
    last_check: Option<Timestamp>,
}

// === impl PodSchedule ===

impl PodSchedule {
    fn due_at(&mut self, at: Instant) {
        self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
    }

    fn remaining_delay(&self, now: Instant) -> Duration {
        let next = self.next_at.unwrap_or(now);
        next.saturating_duration_since(now)
    }

    /// Records the end of a reconcile. Changes that were observed during the reconcile may be its own writes, so the
    /// next reconcile waits for the repair back-off.
    fn finish(&mut self, has_written: bool, delay: Duration, now: Instant) {
        if has_written {
            self.repairs.record_write(now);
        }
        let after_repair = now + self.repairs.remaining_delay(now);
        self.next_at = self.next_at.map(|next| next.max(after_repair));
        self.due_at(now + delay);
    }
}

// === impl RegistryPodSlot ===

impl RegistryPodSlot {
    /// Puts another reconciler into the slot, or none. Returns after a running reconcile of the former one has ended.
    pub(in crate::controllers::catalog_source) async fn assign(
        &self,
        reconciler: Option<RegistryPodReconciler>,
    ) {
        self.cancel.lock().cancel();
        let mut slot = self.reconciler.lock().await;
        *slot = reconciler;
        *self.cancel.lock() = self.closed.child_token();
        *self.schedule.lock() = PodSchedule::default();
    }

    /// Cancels the running reconcile and all later ones.
    pub(in crate::controllers::catalog_source) fn close(&self) {
        self.closed.cancel();
    }

    /// Makes a reconcile due, because the CatalogSource has changed.
    pub(in crate::controllers::catalog_source) fn mark_due(&self) {
        self.schedule.lock().due_at(Instant::now());
    }

    /// Makes a reconcile due, because an object of the pod has changed. Repeated repairs back off.
    pub(in crate::controllers::catalog_source) fn object_changed(&self) {
        let now = Instant::now();
        let mut schedule = self.schedule.lock();
        let delay = schedule.repairs.remaining_delay(now);
        schedule.due_at(now + delay);
    }

    /// Subscribes to the reports of the pod.
    pub(in crate::controllers::catalog_source) fn reports(
        &self,
    ) -> watch::Receiver<Option<PodReport>> {
        self.reports.subscribe()
    }

    /// Returns the last report of the pod.
    pub(in crate::controllers::catalog_source) fn last_report(&self) -> Option<PodReport> {
        self.reports.borrow().clone()
    }

    /// Forgets the last report, because the pod is being removed.
    pub(in crate::controllers::catalog_source) fn forget_report(&self) {
        self.reports.send_replace(None);
    }

    /// Reconciles the pod if that is due. Returns `None` if the catalog has no pod, or if the reconcile was cancelled.
    pub(in crate::controllers::catalog_source) async fn reconcile(&self) -> Option<SlotOutcome> {
        let mut slot = self.reconciler.lock().await;
        let reconciler = slot.as_mut()?;
        let delay = self.schedule.lock().remaining_delay(Instant::now());
        if !delay.is_zero() {
            return Some(SlotOutcome {
                delay,
                is_new: false,
            });
        }
        self.schedule.lock().next_at = None;
        let cancel = self.cancel.lock().clone();
        let result = Box::pin(reconciler.reconcile(&cancel)).await;
        if cancel.is_cancelled() {
            return None;
        }
        let delay = reconciler.next_delay(&result);
        let now = Instant::now();
        let (delay, last_check) = {
            let mut schedule = self.schedule.lock();
            if result.as_ref().is_ok_and(|state| state.asked) {
                schedule.last_check = Some(reconciler.now());
            }
            schedule.finish(reconciler.has_written(), delay, now);
            (schedule.remaining_delay(now), schedule.last_check)
        };
        let report = PodReport {
            is_terminal: result.as_ref().is_err_and(Error::is_terminal),
            pod_state: result.map_err(|error| api_error::chain(&error)),
            asked: last_check,
        };
        let is_new = self.reports.send_if_modified(|last| {
            let is_new = last.as_ref() != Some(&report);
            *last = Some(report);
            is_new
        });
        Some(SlotOutcome { delay, is_new })
    }
}

// === impl PodReport ===

impl PodReport {
    /// Reports whether the pod serves the catalog without a problem. Returns `None` if that is unknown.
    pub(in crate::controllers::catalog_source) fn is_served(&self) -> Option<bool> {
        match &self.pod_state {
            Ok(pod) => {
                Some(matches!(pod.state, PodServingState::Serving(_)) && pod.trouble.is_none())
            }
            Err(_) => self.is_terminal.then_some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_reconciled_soon_and_own_writes_back_off() {
        let mut now = Instant::now();
        let mut schedule = PodSchedule::default();
        let minute = Duration::from_secs(60);
        assert_rows!(schedule.remaining_delay(now) => Duration::ZERO, "a new pod is due");
        schedule.finish(true, minute, now);
        assert_eq!(schedule.remaining_delay(now), minute);
        // The first repair follows at once; the next one is delayed, although its own writes are observed before it ends.
        for expected in [0.3, 1.0, 2.0, 4.0] {
            schedule.next_at = None;
            schedule.due_at(now);
            schedule.finish(expected > 0.3, minute, now);
            let delay = schedule.remaining_delay(now);
            assert_rows!((delay.as_secs_f64() / expected - 1.0).abs() < 0.11 => true, "{delay:?}");
            now += delay;
        }
    }
}
