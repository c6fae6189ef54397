//! Limits for the memory and the processors that conversions share.
//!
//! A conversion acquires a slot, loads its content, and reserves memory for the content and its values. Only conversions
//! with a slot reserve memory, each of them once, and release both at their end. A conversion therefore waits only for
//! other conversions, never for an apply.

use std::sync::Arc;

use manifests::{content::Content, yaml};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinError, spawn_blocking},
};

/// Memory for all conversions, in bytes.
const MEMORY: usize = 256 << 20;
/// Size of one memory permit, in bytes.
const UNIT: usize = 64 << 10;
/// Memory of a conversion in addition to its content and values, in bytes.
const OVERHEAD: usize = 1 << 20;
/// Maximum number of concurrent conversions. Each of them occupies a processor.
const MAX_RUNNING: usize = 2;

/// Runner of conversions within a shared memory budget.
#[derive(Debug)]
pub struct Conversions {
    limits: yaml::Limits,
    slots: Arc<Semaphore>,
    memory: Arc<Semaphore>,
}

// === impl Conversions ===

impl Conversions {
    /// Returns a runner for bundles whose manifests are within the limits.
    pub fn new(limits: yaml::Limits) -> Self {
        Self {
            limits,
            slots: Arc::new(Semaphore::new(MAX_RUNNING)),
            memory: Arc::new(Semaphore::new(MEMORY / UNIT)),
        }
    }

    /// Loads content and converts it on a blocking thread, as soon as the budget has memory for it.
    ///
    /// # Errors
    /// Returns an error if loading fails, or if a thread panics or is cancelled.
    pub async fn run<T, E>(
        &self,
        load: impl FnOnce() -> Result<Arc<Content>, E> + Send + 'static,
        convert: impl FnOnce(&Content, yaml::Limits) -> T + Send + 'static,
    ) -> Result<Result<T, E>, JoinError>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let limits = self.limits;
        // A blocking thread continues after its future is dropped, so the closures own the permits.
        let slot = acquire(&self.slots, 1).await;
        let loaded = spawn_blocking(move || {
            let content = load()?;
            let bytes = estimate(&content, limits);
            Ok((content, bytes, slot))
        });
        let (content, bytes, slot) = match loaded.await? {
            Ok(loaded) => loaded,
            Err(error) => return Ok(Err(error)),
        };
        // A conversion that exceeds the budget reserves all of it.
        let reservation = acquire(&self.memory, units(bytes.min(MEMORY))).await;
        let converted = spawn_blocking(move || {
            let converted = convert(&content, limits);
            drop((content, reservation, slot)); // held until here
            converted
        });
        Ok(Ok(converted.await?))
    }
}

/// Acquires permits of a semaphore that is never closed.
async fn acquire(semaphore: &Arc<Semaphore>, permits: u32) -> OwnedSemaphorePermit {
    loop {
        if let Ok(permit) = Arc::clone(semaphore).acquire_many_owned(permits).await {
            return permit;
        }
    }
}

/// Returns an upper bound of the memory that the conversion of content needs, in bytes.
fn estimate(content: &Content, limits: yaml::Limits) -> usize {
    let values = content.files().fold(0_usize, |sum, (_, file)| {
        sum.saturating_add(yaml::estimate(&file.bytes))
    });
    let bytes = usize::try_from(content.size()).unwrap_or(usize::MAX);
    OVERHEAD
        .saturating_add(bytes)
        .saturating_add(values.min(limits.memory))
}

fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::sync::oneshot;

    use super::*;
    use crate::fixtures;

    fn content(text: &str) -> Arc<Content> {
        Arc::new(fixtures::content(&[("manifests/a.yaml", text)]))
    }

    fn left(conversions: &Conversions) -> usize {
        conversions.memory.available_permits()
    }

    #[test]
    fn estimates_follow_the_values_up_to_the_limit() {
        let limits = yaml::Limits::with_values(250_000);
        let small = estimate(&content("a: 1\n"), limits);
        assert!((OVERHEAD..OVERHEAD + (8 << 10)).contains(&small), "{small}");
        let text = "{a: {a: {}}},\n".repeat(100_000);
        assert_rows!(estimate(&content(&format!("[{text}]\n")), limits) => OVERHEAD + text.len() + 3 + limits.memory);
        let aliased = estimate(&content("a: &a [1]\nb: *a\n"), limits);
        assert!(aliased > limits.memory, "{aliased}");
    }

    /// A stage of a conversion that reports its start, and ends on a signal.
    struct Stage(oneshot::Sender<()>, mpsc::Receiver<()>);

    /// Observes the start of a stage, and ends it.
    type Control = (oneshot::Receiver<()>, mpsc::Sender<()>);

    fn stage() -> (Stage, Control) {
        let (started, start) = oneshot::channel();
        let (end, ended) = mpsc::channel();
        (Stage(started, ended), (start, end))
    }

    impl Stage {
        fn run(self) {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
        }
    }

    async fn all_free(conversions: &Conversions) {
        drop(acquire(&conversions.slots, units(MAX_RUNNING * UNIT)).await);
        drop(acquire(&conversions.memory, units(MEMORY)).await);
    }

    #[tokio::test]
    async fn dropped_conversions_keep_their_permits_until_they_end() {
        for is_loading in [true, false] {
            let conversions = Arc::new(Conversions::new(yaml::Limits::default()));
            let all = left(&conversions);
            let (stage, (started, end)) = stage();
            let mut stages = [Some(stage), None];
            stages.rotate_right(usize::from(!is_loading));
            let [loads, converts] = stages;
            let task = tokio::spawn({
                let conversions = Arc::clone(&conversions);
                async move {
                    let load = || {
                        loads.into_iter().for_each(Stage::run);
                        Ok::<_, ()>(content("a: 1\n"))
                    };
                    let convert = |_: &Content, _| converts.into_iter().for_each(Stage::run);
                    conversions.run(load, convert).await
                }
            });
            started.await.unwrap();
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            assert_eq!(conversions.slots.available_permits(), MAX_RUNNING - 1);
            assert_eq!(left(&conversions) < all, !is_loading);
            end.send(()).unwrap();
            all_free(&conversions).await;
        }
    }

    // parity: convert-8
    #[tokio::test]
    async fn large_conversions_run_in_turn_without_starvation() {
        let limits = with!(yaml::Limits::default() => memory: MEMORY);
        let conversions = Arc::new(Conversions::new(limits));
        let spawn = |stage: Stage| {
            let conversions = Arc::clone(&conversions);
            tokio::spawn(async move {
                // Each of them needs the whole budget.
                let load = || Ok::<_, ()>(content("a: &a [1]\nb: *a\n"));
                conversions.run(load, |_, _| stage.run()).await
            })
        };
        let (first, (started, end)) = stage();
        let (second, (mut second_started, second_end)) = stage();
        let holder = spawn(first);
        started.await.unwrap();
        assert_eq!(left(&conversions), 0);
        let waiter = spawn(second);
        while conversions.slots.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(second_started.try_recv().is_err());
        end.send(()).unwrap();
        second_started.await.unwrap();
        second_end.send(()).unwrap();
        for task in [holder, waiter] {
            task.await.unwrap().unwrap().unwrap();
        }
        all_free(&conversions).await;
    }

    #[tokio::test]
    async fn results_hold_no_memory() {
        let conversions = Conversions::new(yaml::Limits::default());
        for _ in 0..=MAX_RUNNING {
            let load = || Ok::<_, ()>(content("a: 1\n"));
            assert_eq!(conversions.run(load, |_, _| 1).await.unwrap(), Ok(1));
            all_free(&conversions).await;
        }
        assert_rows!(conversions.run(|| Err::<Arc<Content>, _>(2), |_, _| ()).await.unwrap() => Err(2));
        all_free(&conversions).await;
    }
}
