//! What reading a database may cost: a small file can be made to be read for ever, or a million times.

use std::{
    ffi::c_int,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rusqlite::Connection;

/// What may be spent for each byte of the file. All that is asked of an honest one costs less than a quarter of it: it is
/// read four times, and then three times what is in the largest rows.
const FOR_A_BYTE: u64 = 64;
/// What each file is taken to have besides, for the first costs something, too.
const BESIDES: u64 = 1 << 20;
/// Steps after which SQLite asks whether it may go on.
const STEPS: c_int = 1000;

/// What is left to be spent on a database: a step of SQLite costs as much as a byte of a row.
#[derive(Debug)]
pub(super) struct Budget(AtomicU64);

// === impl Budget ===

impl Budget {
    /// For a file of so many bytes.
    pub(super) fn new(size: u64) -> Self {
        let all = size.saturating_add(BESIDES).saturating_mul(FOR_A_BYTE);
        Self(AtomicU64::new(all))
    }

    pub(super) fn spend(&self, cost: u64) {
        let spent = |left: u64| Some(left.saturating_sub(cost));
        // It always says what there was.
        _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Lets the steps of a connection cost something, and interrupts it when nothing is left.
    pub(super) fn watch(self: &Arc<Self>, connection: &mut Connection) -> rusqlite::Result<()> {
        let budget = Arc::clone(self);
        let ask = move || {
            budget.spend(STEPS.unsigned_abs().into());
            budget.is_spent()
        };
        connection.progress_handler(STEPS, Some(ask))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ErrorCode;

    use super::*;

    #[test]
    fn what_never_ends_is_ended() {
        let mut connection = Connection::open_in_memory().unwrap();
        let budget = Arc::new(Budget::new(0));
        budget.watch(&mut connection).unwrap();
        let count = |most: &str| {
            let query = format!(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n {most}) SELECT count(*) FROM n"
            );
            connection.query_row(&query, [], |row| row.get::<_, i64>(0))
        };
        assert_eq!(count("LIMIT 1000").unwrap(), 1000);
        assert!(!budget.is_spent());
        let error = count("").unwrap_err();
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(ErrorCode::OperationInterrupted));
        assert!(budget.is_spent());
    }
}
