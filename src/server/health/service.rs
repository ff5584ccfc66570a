//! The checks of a Sentinel service beside those of its master: its sentinels, and the replicas that may take over. Pure.

use super::check::{Check, count};
use super::hazards;
use crate::base::text::visible;
use crate::server::{Coverage, Fact, ServerFacts};
use crate::topology::Council;

/// Whether a master that fails would be replaced, and whether lockscope may write.
pub fn sentinels(council: &Council) -> Check {
    const NAME: &str = "sentinels";
    let (all, answering) = (council.sentinels.len(), council.answering());
    let silent: Vec<String> = council.silent().into_iter().map(|name| visible(name.as_bytes())).collect();
    let quorum = council.quorum.map(|quorum| format!(", quorum {quorum}")).unwrap_or_default();
    let who = if silent.is_empty() { String::new() } else { format!(" (silent: {})", silent.join(", ")) };
    let verb = if answering == 1 { "answers" } else { "answer" };
    let finding = format!("{answering} of {} {verb}{quorum}{who}", count(all, "sentinel"));
    if !council.is_majority() {
        let cost = "no failover is possible, and lockscope writes nothing until most of them answer";
        return Check::bad(NAME, format!("{finding}: {cost}.")).fix("Start the sentinels that are silent.");
    }
    if !council.has_quorum() {
        let cost = "too few to agree that the master is down, so it would not be replaced";
        return Check::bad(NAME, format!("{finding}: {cost}.")).fix("Start the sentinels that are silent.");
    }
    if !silent.is_empty() {
        let cost = "a master that fails is still replaced, but not if more of them fail";
        return Check::warn(NAME, format!("{finding}: {cost}.")).fix("Start the sentinels that are silent.");
    }
    if all < 3 {
        let cost = "one that fails leaves no majority, so that a master is not replaced";
        return Check::warn(NAME, format!("{finding}: {cost}."))
            .fix("Run three sentinels or more, on machines of their own.");
    }
    Check::ok(NAME, format!("{finding}: a master that fails is replaced."))
}

/// What matters at a replica that may take over.
pub fn replica(facts: &ServerFacts) -> Vec<Check> {
    vec![hazards::replication(facts, true), heard_after_promotion(facts), hazards::eviction(facts)]
}

/// Whether changes are reported once it is the master: the setting is not replicated.
fn heard_after_promotion(facts: &ServerFacts) -> Check {
    const NAME: &str = "notifications";
    let flags = match &facts.settings.events {
        Fact::Known(flags) => flags,
        Fact::Unknown(why) => return Check::unknown(NAME, "notify-keyspace-events", why),
    };
    let product = facts.product.known();
    let gaps = match flags.covers_locks(product) {
        Coverage::Full => return Check::ok(NAME, "changes are reported here too, once it is the master."),
        Coverage::Partial(gaps) => gaps.iter().all(|gap| !gap.sure),
        Coverage::None => false,
    };
    if gaps {
        return Check::ok(NAME, "changes are reported here too, once it is the master.");
    }
    let set = if flags.is_off() { "off".to_string() } else { format!("{:?}", flags.as_str()) };
    let finding = format!("notify-keyspace-events is {set} here: once it is the master, not all changes are reported.");
    Check::warn(NAME, finding)
        .fix(format!("CONFIG SET notify-keyspace-events '{}' (at this replica)", flags.wanted(product)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::health::Status;

    fn council(answers: &[bool], quorum: usize) -> Council {
        let sentinels = answers.iter().zip(1..).map(|(answers, port)| (format!("10.0.0.1:{port}"), *answers)).collect();
        Council { service: "orders".into(), sentinels, quorum: Some(quorum) }
    }

    #[test]
    fn sentinels_that_are_silent_are_named_with_what_they_cost() {
        let told = |answers: &[bool], quorum| sentinels(&council(answers, quorum));
        let fine = told(&[true, true, true], 2);
        assert_eq!((fine.status, fine.fix), (Status::Ok, None));
        assert!(fine.finding.starts_with("3 of 3 sentinels answer, quorum 2:"), "{}", fine.finding);
        let one = told(&[true, false, true], 2);
        assert_eq!(one.status, Status::Warn);
        assert!(one.finding.contains("(silent: 10.0.0.1:2): a master that fails is still replaced"), "{}", one.finding);
        let two = told(&[false, true, false], 2);
        assert_eq!(two.status, Status::Bad);
        assert!(two.finding.contains("no failover is possible, and lockscope writes nothing"), "{}", two.finding);
        let strict = told(&[true, true, false], 3);
        assert_eq!(strict.status, Status::Bad, "{}", strict.finding);
        assert_eq!(told(&[true], 1).status, Status::Warn, "nobody else would notice");
    }
}
