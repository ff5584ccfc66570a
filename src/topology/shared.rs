//! A keyspace that several nodes serve, together or one after the other, and the map that one task keeps of it.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Cluster, Map, Service};

#[derive(Clone)]
pub enum Shared {
    Cluster(Arc<Cluster>),
    Service(Arc<Service>),
}

impl Shared {
    pub fn map(&self) -> Arc<Map> {
        match self {
            Shared::Cluster(cluster) => cluster.map(),
            Shared::Service(service) => service.map(),
        }
    }

    /// Every new map from now on.
    pub fn changes(&self) -> watch::Receiver<Arc<Map>> {
        match self {
            Shared::Cluster(cluster) => cluster.changes(),
            Shared::Service(service) => service.changes(),
        }
    }

    /// Keeps the map current for as long as it is polled.
    pub async fn keep(&self) {
        match self {
            Shared::Cluster(cluster) => cluster.keep().await,
            Shared::Service(service) => service.keep().await,
        }
    }
}
