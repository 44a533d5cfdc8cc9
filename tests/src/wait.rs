//! Waiting for what must come, instead of sleeping and hoping.

use std::future::Future;
use std::time::Duration;

/// Longer than this nothing may take. Far above what anything does take, because test machines are slow
/// and busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Looks again and again until there is something to see.
///
/// # Panics
/// When there is nothing within [`PATIENCE`].
pub async fn eventually<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let search = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(what, search).await
}

/// Waits for a future that must end.
///
/// # Panics
/// When it does not within [`PATIENCE`].
pub async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(value) => value,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}
