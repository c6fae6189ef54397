//! Read budget of a database. A small file can be crafted so that a read never ends, or repeats a million times.

use std::{
    ffi::c_int,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use rusqlite::Connection;

/// Budget per byte of the file. A well-formed catalog needs less than a quarter of it: it is read four times, and the
/// content of its largest rows three more times.
const STEPS_PER_BYTE: u64 = 64;
/// Size that is added to every file, because even an empty database has a cost.
const BASE_SIZE: u64 = 1 << 20;
/// Number of SQLite steps between two checks of the budget.
const STEPS: c_int = 1000;

/// Remaining budget of a database. A step of SQLite costs as much as a byte of a row.
#[derive(Debug)]
pub(super) struct ReadBudget(AtomicU64);

// === impl ReadBudget ===

impl ReadBudget {
    /// Creates the budget for a file of `size` bytes.
    pub(super) fn new(size: u64) -> Self {
        let total = size
            .saturating_add(BASE_SIZE)
            .saturating_mul(STEPS_PER_BYTE);
        Self(AtomicU64::new(total))
    }

    pub(super) fn spend(&self, cost: u64) {
        let spent = |remaining: u64| Some(remaining.saturating_sub(cost));
        // The update never fails.
        _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent);
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Charges the steps of a connection to the budget, and interrupts the connection when the budget is spent.
    pub(super) fn install_progress_handler(
        self: &Arc<Self>,
        connection: &mut Connection,
    ) -> rusqlite::Result<()> {
        let budget = Arc::clone(self);
        let check = move || {
            budget.spend(STEPS.unsigned_abs().into());
            budget.is_spent()
        };
        connection.progress_handler(STEPS, Some(check))
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ErrorCode;

    use super::*;

    #[test]
    fn endless_query_is_interrupted() {
        let mut connection = Connection::open_in_memory().unwrap();
        let budget = Arc::new(ReadBudget::new(0));
        budget.install_progress_handler(&mut connection).unwrap();
        let count = |most: &str| {
            let numbers = format!("n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n {most})");
            let query = format!("WITH RECURSIVE {numbers} SELECT count(*) FROM n");
            connection.query_row(&query, [], |row| row.get::<_, i64>(0))
        };
        assert_eq!(count("LIMIT 1000").unwrap(), 1000);
        assert!(!budget.is_spent());
        assert_rows!(count("").unwrap_err().sqlite_error_code() => Some(ErrorCode::OperationInterrupted));
        assert!(budget.is_spent());
    }
}
