use super::*;
use crate::lock::Holder;
use crate::model::{Proof, Whole};
use crate::testkit::sample;

const NOW: Time = Time(1_790_000_900_000);

fn freed(lock: &LockView) -> Result<Plan, Refusal> {
    free(lock, Freeing::default(), NOW)
}

/// A string lock with a random token, of an unknown library.
fn plain() -> LockView {
    const TOKEN: &[u8] = b"d1f0c2b3a4958677f3a9c07be15d2846";
    LockView {
        key: Key::from("lock:a"),
        value: RawValue::string(TOKEN),
        holders: vec![Holder::new(TOKEN)],
        ttl: Ttl::In(Duration::from_secs(30)),
        ..sample::forever()
    }
}

#[test]
fn a_plain_lock_is_deleted_while_its_value_is_the_one_that_was_seen() {
    let lock = plain();
    let plan = freed(&lock).unwrap();
    assert_eq!(plan.commands(), ["DEL lock:a"]);
    let RawValue::Str { head, .. } = &lock.value else { unreachable!() };
    assert_eq!(plan.checks, [Check::Value { key: b"lock:a".to_vec(), value: head.to_vec() }]);
    assert!(plan.permits().is_none());
}

#[test]
fn a_token_that_comes_again_is_compared_with_its_lease_unless_a_renewal_is_no_obstacle() {
    let lock = LockView { value: RawValue::string(b"host-1"), holders: vec![Holder::new(b"host-1")], ..plain() };
    let plan = freed(&lock).unwrap();
    assert!(plan.checks.iter().any(|check| matches!(check, Check::Lease(_))));
    assert!(!plan.even_if_renewed().checks.iter().any(|check| matches!(check, Check::Lease(_))));
}

#[test]
fn what_was_not_seen_is_not_freed_with_the_rest() {
    let mut lock = sample::redisson();
    let RawValue::Hash { fields, .. } = lock.value else { unreachable!() };
    lock.value = RawValue::Hash { fields, len: 900 };
    let why = freed(&lock).unwrap_err();
    assert!(matches!(&why, Refusal::NothingToCompare(_)) && why.to_string().contains("900 entries"), "{why}");
    let cut = LockView { value: RawValue::Str { head: b"xx"[..].into(), len: 2_000 }, ..plain() };
    assert!(matches!(freed(&cut), Err(Refusal::NothingToCompare(_))));
    let proof = Proof { value: Whole::Sha1("a".repeat(40)), ..Proof::default() };
    assert!(freed(&LockView { proof, ..cut }).is_ok());
}

#[test]
fn a_holder_that_is_not_there_is_not_freed() {
    let asked = Freeing { holder: Some(b"somebody"), ..Freeing::default() };
    assert!(matches!(free(&plain(), asked, NOW), Err(Refusal::NotTheHolder { .. })));
}

#[test]
fn a_message_of_a_library_that_is_a_guess_is_no_condition_of_the_release() {
    let uuid = b"0b5e7c1a-94f2-4d3b-8e6a-2f1c9d7b3a50";
    let spring = |confidence| LockView {
        key: Key::from("orders:17"),
        dialect: "spring",
        dialect_confidence: confidence,
        value: RawValue::string(uuid),
        holders: vec![Holder::new(uuid)],
        ..plain()
    };
    let message = |plan: Plan| plan.writes.into_iter().nth(1).unwrap();
    assert!(matches!(message(freed(&spring(0.5)).unwrap()), Write::Tell { .. }));
    assert!(matches!(message(freed(&spring(1.0)).unwrap()), Write::Step(Step::Publish { .. })));
}

#[test]
fn a_small_number_is_in_doubt_until_somebody_knows_better() {
    let lock = LockView { value: RawValue::string(b"3"), holders: vec![Holder::new(b"3")], ..plain() };
    let plan = freed(&lock).unwrap();
    assert!(plan.doubt.is_some() && plan.checks.iter().any(|check| matches!(check, Check::NobodyListens(_))));
    let hazards = plan.hazards.len();
    let sure = plan.beyond_doubt();
    assert_eq!((sure.doubt, sure.hazards.len()), (None, hazards - 1));
    let proof = Proof { counted_on: 2, ..Proof::default() };
    assert!(
        matches!(freed(&LockView { proof, ..lock.clone() }), Err(Refusal::NotSo(_))),
        "somebody listens for permits"
    );
    assert_eq!(give_back(&lock, 4, NOW).unwrap().permits(), Some(4));
}

#[test]
fn an_extension_never_shortens_a_lease() {
    let lock = plain();
    let extended = |by| extend(&lock, None, Duration::from_secs(by), NOW);
    assert!(extended(20).unwrap_err().to_string().contains("never shortens"));
    let plan = extended(60).unwrap();
    assert_eq!(plan.commands(), ["PEXPIRE lock:a 60000"]);
    assert!(plan.checks.contains(&Check::TtlAtMost { key: b"lock:a".to_vec(), ms: 60_000 }));
    assert!(extended(0).is_err() && extended(31 * 86_400).is_err());
}

#[test]
fn dead_waiters_leave_the_queue_in_the_same_step() {
    let dead = [b"w1".to_vec()];
    let plan = free(&sample::redisson(), Freeing { dead_waiters: &dead, ..Freeing::default() }, NOW).unwrap();
    assert!(plan.commands().iter().any(|line| line.starts_with("if nobody listens ") && line.contains(" 0 w1; ZREM ")), "{plan:?}");
}

#[test]
fn a_plan_is_the_same_after_it_was_kept_in_a_file() {
    let plan = freed(&sample::redisson()).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    assert!(serde_json::from_str::<Plan>(&text.replace("\"redisson\"", "\"none-such\"")).is_err());
}
