//! Asks a node once what this user may do there, so that the servers screen tells what each missing power costs.

use super::task::{Incoming, Task};
use crate::server;
use crate::server::health::{self, Check};
use crate::server::permissions::{self, Scope};
use crate::topology::{Link, ServerConnection};

/// Asks until the node has answered.
pub(super) async fn ask(task: Task) {
    let scope = Scope::new(task.recogniser.patterns().clone(), task.node.db);
    let mut link = Link::new(&task.node);
    while !task.out.is_closed() {
        link.pause().await;
        let turn = task.budget.turn().await;
        let asked = match link.open().await {
            Ok(conn) => lacks(conn, &scope).await,
            Err(error) => Err(error),
        };
        drop(turn);
        match asked {
            Ok(lacks) => {
                task.tell(Incoming::Lacks(lacks)).await;
                return;
            }
            Err(_) => link.fails(),
        }
    }
}

async fn lacks(conn: &mut ServerConnection, scope: &Scope) -> redis::RedisResult<Vec<Check>> {
    let facts = server::ask(conn, scope.db).await?;
    let permissions = permissions::ask(conn, scope, facts.user.clone(), facts.product.known()).await?;
    Ok(health::lacks(&facts, &permissions, scope))
}
