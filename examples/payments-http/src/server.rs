//! Serving, and stopping without losing what has begun: [`serve`].

use axum::Router;
use std::future::Future;
use std::io;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

/// Serves until `stop`, then ends the connections that are at work, and waits for all `operations`: also
/// those whose clients have gone are recorded.
///
/// # Errors
/// If it can't listen any more.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    operations: TaskTracker,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(stop).await?;
    operations.close();
    operations.wait().await;
    Ok(())
}
