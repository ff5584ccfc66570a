//! What the demo runs on: one private server, or a cluster of them.

use std::path::Path;

use redis::RedisResult;

use super::acts::Hand;
use super::cluster::{self, PrivateCluster};
use super::fleet::Place;
use super::{NoServer, PrivateServer};
use crate::topology::Topology;

/// How the servers belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    #[default]
    Standalone,
    Cluster,
}

/// Dropping it ends the servers.
pub enum Stage {
    Standalone(PrivateServer),
    Cluster(PrivateCluster),
}

impl Stage {
    pub async fn build(shape: Shape, program: Option<&Path>) -> Result<Stage, NoServer> {
        Ok(match shape {
            Shape::Standalone => Stage::Standalone(PrivateServer::start(program).await?),
            Shape::Cluster => Stage::Cluster(PrivateCluster::start(program).await?),
        })
    }

    /// The URL for lockscope.
    pub fn url(&self) -> String {
        match self {
            Stage::Standalone(server) => server.url(),
            Stage::Cluster(cluster) => cluster.url(),
        }
    }

    /// The same for the fleet.
    pub(super) fn place(&self) -> RedisResult<Place> {
        match self {
            Stage::Standalone(server) => Place::one(&server.url()),
            Stage::Cluster(cluster) => Ok(Place::Cluster(cluster.ports().into())),
        }
    }

    pub(super) async fn topology(&self) -> RedisResult<Topology> {
        match self {
            Stage::Standalone(server) => Topology::open(&server.endpoint()).await,
            Stage::Cluster(cluster) => cluster.topology().await,
        }
    }

    /// Who changes the topology while it is watched; nobody where there is only one server.
    pub(super) async fn hand(&self) -> RedisResult<Option<Hand>> {
        Ok(match self {
            Stage::Standalone(_) => None,
            Stage::Cluster(cluster) => Some(Hand::Cluster(cluster::Hand::on(cluster).await?)),
        })
    }
}
