//! Answers what API servers ask about versions of CatalogSources: what the pods of the conversion webhook run.

use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Error, Fence, args::ConvertArgs, cluster, signals::Signals};
use crate::{client, conversion::Webhook};

/// How long connections are taken after the signal to end.
const LEAVING: Duration = Duration::from_secs(5);

/// Answers until a signal comes.
pub(super) async fn run(args: &ConvertArgs) -> Result<(), Error> {
    let mut signals = Signals::listen().map_err(Error::Signals)?;
    let config = cluster::config(args.kubeconfig.as_deref()).await?;
    // Nobody leads here: whatever is written, all of them would write.
    let client = client::new(config, &Fence::default());
    let client = client.map_err(|error| Error::Client(Box::new(error)))?;
    let webhook = Webhook::bind(&client, args.options()).await?;
    let stop = CancellationToken::new();
    let ending = async {
        let (signal, _) = signals.next().await;
        info!(
            signal,
            "stopping soon: nodes hear a little later that this pod goes"
        );
        tokio::select! {
            () = sleep(LEAVING) => {}
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
