//! What the demo runs on: one private server, a cluster of them, or a Sentinel service.

use std::path::Path;

use redis::RedisResult;

use super::acts::Hand;
use super::cluster::{self, PrivateCluster};
use super::fleet::Place;
use super::sentinel::{self, PrivateService};
use super::{DemoError, NoServer, PrivateServer};
use crate::topology::Topology;

/// How the servers belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    #[default]
    Standalone,
    Cluster,
    Sentinel,
}

/// Dropping it ends the servers.
pub enum Stage {
    Standalone(PrivateServer),
    Cluster(PrivateCluster),
    Sentinel(PrivateService),
}

impl Stage {
    pub async fn build(shape: Shape, program: Option<&Path>) -> Result<Stage, NoServer> {
        Ok(match shape {
            Shape::Standalone => Stage::Standalone(PrivateServer::start(program).await?),
            Shape::Cluster => Stage::Cluster(PrivateCluster::start(program).await?),
            Shape::Sentinel => Stage::Sentinel(PrivateService::start(program).await?),
        })
    }

    /// The URL for lockscope.
    pub fn url(&self) -> String {
        match self {
            Stage::Standalone(server) => server.url(),
            Stage::Cluster(cluster) => cluster.url(),
            Stage::Sentinel(service) => service.url(),
        }
    }

    /// The same for the fleet.
    pub(super) fn place(&self) -> RedisResult<Place> {
        match self {
            Stage::Standalone(server) => Place::one(&server.url()),
            Stage::Cluster(cluster) => Ok(Place::Cluster(cluster.ports().into())),
            Stage::Sentinel(service) => Ok(Place::Sentinel(service.sentinels().into())),
        }
    }

    pub async fn topology(&self) -> Result<Topology, DemoError> {
        Ok(match self {
            Stage::Standalone(server) => Topology::open(&server.endpoint()).await?,
            Stage::Cluster(cluster) => cluster.topology().await?,
            Stage::Sentinel(service) => service.topology().await?,
        })
    }

    /// Who changes the topology while it is watched; nobody where there is only one server.
    pub(super) async fn hand(&self) -> RedisResult<Option<Hand>> {
        Ok(match self {
            Stage::Standalone(_) => None,
            Stage::Cluster(cluster) => Some(Hand::Cluster(cluster::Hand::on(cluster).await?)),
            Stage::Sentinel(service) => Some(Hand::Sentinel(sentinel::Hand::on(service))),
        })
    }
}
