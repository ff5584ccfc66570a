//! What the facts of a server mean for locks: the doctor's checks and report. The judging is pure.

mod alike;
mod check;
mod hazards;
mod service;
mod watching;

use std::time::{Duration, Instant};

use redis::RedisResult;
use redis::aio::ConnectionLike;

pub use alike::{alike, in_common};
pub use check::{Check, Status};
pub use service::{replica, sentinels};
pub use watching::{Feed, feed};

use super::permissions::{self, Granted, Party, Permission, Permissions, Scope};
use super::{Fact, Mode, ServerFacts, clock};

/// The time between two looks at the clock.
const RATE: Duration = Duration::from_millis(500);

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
    let mut facts = super::ask(conn, scope.db).await?;
    let began = Instant::now();
    let permissions = permissions::ask(conn, scope, facts.user.clone(), facts.product.known()).await?;
    if let Fact::Known(first) = &facts.clock {
        // Long enough for a clock that runs at another rate to show.
        tokio::time::sleep(RATE.saturating_sub(began.elapsed())).await;
        facts.drift = clock::measure(conn).await.ok().and_then(|second| second.drift_since(first));
    }
    Ok(judge(facts, permissions, scope))
}

/// Which server it is. Pure.
pub fn version(facts: &ServerFacts) -> Check {
    hazards::version(facts)
}

/// Which facts of the server can hurt locks. Pure.
pub fn hazards(facts: &ServerFacts) -> Vec<Check> {
    vec![
        hazards::eviction(facts),
        hazards::persistence(facts),
        hazards::replication(facts, false),
        hazards::clock(facts),
        hazards::connections(facts),
    ]
}

/// What this user may not do, each with the feature that it costs; empty if nothing is missing. Pure.
pub fn lacks(facts: &ServerFacts, permissions: &Permissions, scope: &Scope) -> Vec<Check> {
    const LINES: &str = "A line that 'lockscope doctor' prints";
    let granted = |all: &[Granted]| all.iter().all(|granted| granted.permission == Permission::Allowed);
    let looking = watching::looking(facts, permissions, scope);
    let mut lacks = Vec::new();
    lacks.extend(Some(looking).filter(|check| check.status != Status::Ok));
    if permissions.sampling != Permission::Allowed {
        lacks.push(watching::sampling(permissions, LINES));
    }
    if !granted(&permissions.operator) {
        lacks.push(watching::writing(facts, permissions, LINES));
    }
    lacks
}

/// The report on these facts and permissions. Pure.
pub fn judge(facts: ServerFacts, permissions: Permissions, scope: &Scope) -> Report {
    let mut checks = vec![hazards::version(&facts), hazards::readiness(&facts), hazards::topology(&facts)];
    // A sentinel has no data, and not the commands to read it; one sentence about that is enough.
    if facts.mode.known() != Some(&Mode::Sentinel) {
        checks.extend([
            watching::notifications(&facts, &permissions, scope),
            watching::looking(&facts, &permissions, scope),
            watching::sampling(&permissions, "The last line below"),
            watching::writing(&facts, &permissions, "The operator's line below"),
            hazards::eviction(&facts),
            hazards::persistence(&facts),
            hazards::replication(&facts, scope.beside),
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
