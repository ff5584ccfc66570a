//! What the facts of a server mean for locks: the doctor's checks and report. The judging is pure.

mod check;
mod hazards;
mod watching;

use redis::RedisResult;
use redis::aio::ConnectionLike;

pub use check::{Check, Status};
pub use watching::{Feed, feed};

use super::permissions::{self, Party, Permissions, Scope};
use super::{Mode, ServerFacts};

/// What the doctor found.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    pub facts: ServerFacts,
    pub permissions: Permissions,
    pub checks: Vec<Check>,
    /// The ACL line for a user who may only watch locks.
    pub observer_acl: String,
    /// The ACL line for a user who may also free, extend and take locks.
    pub operator_acl: String,
    /// The ACL line that lets the first user sample attempts as well.
    pub sampling_acl: String,
}

impl Report {
    /// The worst of all checks.
    pub fn worst(&self) -> Status {
        self.checks.iter().map(|check| check.status).max().unwrap_or(Status::Ok)
    }

    /// 1 if something is bad, else 0.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.worst() == Status::Bad)
    }

    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }
}

/// Examines one node. An error means that the connection is lost; any refusal is part of the report.
pub async fn examine(conn: &mut impl ConnectionLike, scope: &Scope) -> RedisResult<Report> {
    let facts = super::ask(conn, scope.db).await?;
    let permissions = permissions::ask(conn, scope, facts.user.clone(), facts.product.known()).await?;
    Ok(judge(facts, permissions, scope))
}

/// Which facts of the server can hurt locks. Pure.
pub fn hazards(facts: &ServerFacts) -> Vec<Check> {
    vec![
        hazards::eviction(facts),
        hazards::persistence(facts),
        hazards::replication(facts),
        hazards::clock(facts),
        hazards::connections(facts),
    ]
}

/// The report on these facts and permissions. Pure.
pub fn judge(facts: ServerFacts, permissions: Permissions, scope: &Scope) -> Report {
    let mut checks = vec![hazards::version(&facts), hazards::readiness(&facts), hazards::topology(&facts)];
    // A sentinel has no data, and not the commands to read it; one sentence about that is enough.
    if facts.mode.known() != Some(&Mode::Sentinel) {
        checks.extend([
            watching::notifications(&facts, &permissions, scope),
            watching::looking(&facts, &permissions, scope),
            watching::sampling(&permissions),
            watching::writing(&facts, &permissions),
            hazards::eviction(&facts),
            hazards::persistence(&facts),
            hazards::replication(&facts),
            hazards::clock(&facts),
            hazards::subscribers(&facts),
            hazards::connections(&facts),
        ]);
    }
    let product = facts.product.known();
    let of_cluster = if facts.mode.known() == Some(&Mode::Cluster) { permissions::CLUSTER } else { "" };
    let acl_line = |party| format!("{}{of_cluster}", scope.acl_line(party, product));
    let (observer_acl, operator_acl) = (acl_line(Party::Observer), acl_line(Party::Operator));
    Report { facts, permissions, checks, observer_acl, operator_acl, sampling_acl: permissions::sampling_line() }
}
