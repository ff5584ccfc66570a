//! `lockscope undo`: puts back what was freed.

use super::act::{Operator, ended, exit_code};
use super::session::Session;
use crate::actions::{Journal, Kept};
use crate::cli::{Global, Undo};
use crate::clock::Clock;
use crate::fault::Fault;
use crate::model::NodeId;

pub async fn run(global: &Global, options: &Undo) -> Result<u8, Fault> {
    let session = Session::open(global).await?;
    ended(undo(&session, options).await, "undo", None, options.json)
}

async fn undo(session: &Session, options: &Undo) -> Result<u8, Fault> {
    let mut operator = Operator::new(session, options.reason.as_deref(), options.json)?;
    let kept = kept(operator.journal(), options.id.as_deref())?;
    let here = &session.topology.nodes()[0];
    if (kept.target.as_str(), kept.db) != (session.shown.as_str(), here.db) {
        return Err(Fault::usage(format!(
            "{} was freed on {} (database {}), not on {}; give that server with --url",
            kept.id, kept.target, kept.db, session.shown
        )));
    }
    let plan = kept.plan(NodeId(0), Clock::start().now()).map_err(|why| Fault::finding(why.to_string()))?;
    if !operator.asks(&plan, options.yes)? {
        return Err(Fault::finding("nothing was changed"));
    }
    Ok(exit_code(&operator.perform(&plan).await?))
}

fn kept(journal: &Journal, id: Option<&str>) -> Result<Kept, Fault> {
    let unreadable = |why| Fault::finding(format!("what was freed can't be read: {why}"));
    journal.kept(id).map_err(unreadable)?.ok_or_else(|| {
        Fault::finding(match id {
            Some(id) => format!(
                "nothing is kept under {id:?}: it was put back already, or is no id; 'lockscope audit' lists them"
            ),
            None => "nothing was freed on this machine that could be put back".to_string(),
        })
    })
}
