//! Conversion webhook for versions of CatalogSources, which runs in separate pods.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Error, args::ConvertArgs, setup};
use crate::{
    cluster::client,
    conversion_webhook::Webhook,
    runtime::{fence::Fence, signals::Signals},
};

/// Time for which connections are accepted after the shutdown signal.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(5);

/// Serves the webhook until a signal.
pub(super) async fn run(args: &ConvertArgs) -> Result<(), Error> {
    let mut signals = Signals::listen().map_err(Error::Signals)?;
    let config = setup::config(args.kubeconfig.as_deref()).await?;
    // No leader election: all replicas would write the same.
    let client = client::new(config, &Fence::default());
    let client = client.map_err(|error| Error::Client(Box::new(error)))?;
    let webhook = Webhook::bind(&client, args.options()).await?;
    let stop = CancellationToken::new();
    let ending = async {
        let (signal, _) = signals.next().await;
        info!(
            signal,
            "delaying the shutdown until nodes no longer send requests to this pod"
        );
        tokio::select! {
            () = sleep(SHUTDOWN_DELAY) => {}
            _ = signals.next() => {}
        }
        stop.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = webhook.run(stop.clone()) => {}
        () = ending => {}
    }
    Ok(())
}
