//! The control planes that tests take for themselves, by kind; see [`cluster::Pool`].

use cluster::{Cluster, Controllers, Lease, Options, Pool};

use super::prepare;

/// When a request arrives, who sends what.
const AUDIT_POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete]
rules:
- level: Metadata
";

/// Takes a control plane without controllers and without our definitions.
pub(crate) async fn without_controllers() -> Lease {
    static POOL: Pool = Pool::new(Options::new(Controllers::Off, None), 4);
    take(&POOL, async |_| ()).await
}

/// Takes a control plane with controllers and our definitions, whose API server logs requests by a policy.
pub(crate) async fn with_controllers() -> Lease {
    static POOL: Pool = Pool::new(Options::new(Controllers::On, Some(AUDIT_POLICY)), 4);
    take(&POOL, prepare).await
}

/// Takes a control plane with controllers, our definitions, and a node that reports pods as Ready.
pub(crate) async fn with_node() -> Lease {
    static POOL: Pool = Pool::new(Options::new(Controllers::On, None), 4);
    let prepare = async |cluster: &'static Cluster| {
        prepare(cluster).await;
        cluster.stand_in_node().await.unwrap();
    };
    take(&POOL, prepare).await
}

/// Starts a control plane with our definitions that no other test takes.
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
