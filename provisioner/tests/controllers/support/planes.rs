//! Dedicated control planes of tests, by kind; see [`cluster::Pool`].

use cluster::{Cluster, Controllers, Lease, Options, Pool};

use super::prepare;

/// Logs the arrival, the user and the verb of each request.
const AUDIT_POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete]
rules:
- level: Metadata
";

/// Takes a control plane without controllers and without the project's CRDs.
pub(crate) async fn without_controllers() -> Lease {
    static POOL: Pool = Pool::new(Options::new(Controllers::Off, None), 4);
    take(&POOL, async |_| ()).await
}

/// Takes a control plane with controllers and the project's CRDs, whose API server logs requests by a policy.
pub(crate) async fn with_controllers() -> Lease {
    static POOL: Pool = Pool::new(Options::new(Controllers::On, Some(AUDIT_POLICY)), 4);
    take(&POOL, prepare).await
}

/// Takes a control plane with controllers, the project's CRDs, and a node that reports pods as Ready.
pub(crate) async fn with_node() -> Lease {
    static POOL: Pool = Pool::new(Options::new(Controllers::On, None), 4);
    let prepare = async |cluster: &'static Cluster| {
        prepare(cluster).await;
        cluster.stand_in_node().await.unwrap();
    };
    take(&POOL, prepare).await
}

/// Starts a control plane with the project's CRDs that no other test takes.
pub(crate) async fn own(options: &Options) -> Cluster {
    let cluster = Cluster::start_with(options).await.unwrap();
    prepare(&cluster).await;
    cluster
}

async fn take(pool: &'static Pool, prepare: impl AsyncFnOnce(&'static Cluster)) -> Lease {
    let prepare = async |cluster| {
        prepare(cluster).await;
        Ok(())
    };
    pool.take(prepare).await.unwrap()
}
