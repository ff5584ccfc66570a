use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

use super::*;

fn subscribed(counts: &[i64]) -> RedisResult<Value> {
    let items = counts.iter().flat_map(|count| [Value::BulkString(b"channel".to_vec()), Value::Int(*count)]);
    Ok(Value::Array(items.collect()))
}

fn refused() -> RedisResult<Value> {
    Err(RedisError::from((ErrorKind::Server(ServerErrorKind::NoPerm), "NOPERM", "no permission".into())))
}

fn absent() -> RedisResult<Value> {
    let detail = "unknown subcommand 'SHARDNUMSUB'. Try PUBSUB HELP.".into();
    Err(RedisError::from((ErrorKind::Server(ServerErrorKind::ResponseError), "ERR", detail)))
}

fn counted(plain: RedisResult<Value>, sharded: RedisResult<Value>, scattered: bool) -> (Count, Option<String>) {
    Listeners::read(plain, sharded, scattered).on(0)
}

fn waiter(id: &str, left_ms: i64, listens: bool) -> Waiter {
    Waiter { id: id.as_bytes().into(), left_ms: Some(left_ms), listens: Fact::Known(listens) }
}

fn fair(queue: Vec<Waiter>) -> Waiters {
    let unfair = Waiters::of_channel(b"c", &Listeners::read(subscribed(&[0]), subscribed(&[0]), false));
    Waiters::of_queue(b"q", Fact::Known(queue.len() as u64), queue, unfair)
}

#[test]
fn plain_and_sharded_subscribers_count_together() {
    assert_eq!(counted(subscribed(&[2]), subscribed(&[1]), false), (Count::Exactly(3), None));
    assert_eq!(counted(subscribed(&[2]), absent(), false), (Count::Exactly(2), None), "before 7.0");
    assert_eq!(counted(subscribed(&[0]), subscribed(&[0]), false), (Count::Exactly(0), None));
}

#[test]
fn a_count_that_may_not_be_asked_for_is_never_zero() {
    let (count, _) = counted(refused(), refused(), false);
    assert_eq!(count, Count::Unknown("this user may not run PUBSUB NUMSUB".into()));
    let (count, note) = counted(subscribed(&[2]), refused(), false);
    assert_eq!((count, note.as_deref()), (Count::AtLeast(2), Some("this user may not run PUBSUB SHARDNUMSUB")));
    assert!(matches!(counted(subscribed(&[0]), refused(), false).0, Count::Unknown(_)));
    assert!(matches!(counted(Ok(Value::Okay), subscribed(&[]), false).0, Count::Unknown(_)));
}

#[test]
fn a_node_among_others_counts_only_its_own_subscribers() {
    assert!(matches!(counted(subscribed(&[0]), subscribed(&[0]), true).0, Count::Unknown(_)));
    assert_eq!(counted(subscribed(&[2]), subscribed(&[0]), true).0, Count::AtLeast(2));
}

#[test]
fn a_fair_queue_is_told_in_order_with_its_dead_head() {
    let waiters = fair(vec![
        waiter("gone", -10, false),
        waiter("dead", 180_000, false),
        waiter("patient", 480_000, true),
        waiter("deaf", 780_000, false),
    ]);
    assert_eq!(waiters.exact(), Some(4));
    let healths: Vec<String> = waiters.in_order(0).map(|(_, health)| health.describe()).collect();
    assert_eq!(
        healths,
        [
            "deadline passed: the next to come by drops it",
            "not listening: dead head, blocks all for 3m00s",
            "listening",
            "not listening",
        ]
    );
    // Time passes after the read.
    let later: Vec<&str> = waiters.in_order(200_000).map(|(_, health)| health.name()).collect();
    assert_eq!(later, ["deadline-passed", "deadline-passed", "listening", "not-listening"]);
    assert_eq!(waiters.describe(), "4 in the queue q, 3 of them not listening");
}

#[test]
fn without_a_queue_the_lock_is_not_fair_and_its_channel_counts() {
    let unfair = Waiters::of_channel(b"c", &Listeners::read(subscribed(&[6]), subscribed(&[0]), false));
    let waiters = Waiters::of_queue(b"q", Fact::Known(0), Vec::new(), unfair.clone());
    assert_eq!(waiters.describe(), "6 processes are subscribed to c");
    let hidden = Waiters::of_queue(b"q", Fact::Unknown("this user may not run LLEN".into()), Vec::new(), unfair);
    assert_eq!(hidden.describe(), "at least 6 processes are subscribed to c (this user may not run LLEN)");
    let nobody = Waiters::of_channel(b"c", &Listeners::read(subscribed(&[0]), subscribed(&[0]), false));
    let none = Waiters::of_queue(b"q", Fact::Known(0), Vec::new(), nobody.clone());
    assert_eq!(none.describe(), "nobody is subscribed to c (waiters of a spin lock would not show)");
    let hidden = Waiters::of_queue(b"q", Fact::Unknown("this user may not run LLEN".into()), Vec::new(), nobody);
    assert_eq!(hidden.describe(), "unknown: this user may not run LLEN", "a fair queue could be there");
}

#[test]
fn blocked_clients_are_an_upper_bound_and_say_so() {
    let some = Waiters::of_blocked(b"lock-signal:a", Blocked { count: Count::AtMost(3), clients: Vec::new() }, 2);
    assert_eq!(
        some.describe(),
        "at most 3 (clients blocked on any list of database 2; the server does not say on which)"
    );
    assert_eq!(some.exact(), None);
    assert_eq!(
        Waiters::of_blocked(b"l", Blocked { count: Count::Exactly(0), clients: Vec::new() }, 0).exact(),
        Some(0)
    );
}

#[test]
fn where_the_library_is_a_guess_so_are_its_waiters() {
    let nobody = Waiters::without_asking(&Waiting::Nobody).unwrap();
    assert_eq!((nobody.exact(), nobody.describe()), (Some(0), "nobody: a refused attempt gives up".into()));
    assert!(matches!(nobody.in_doubt().count, Count::Unknown(_)));
    let some = Waiters::of_channel(b"c", &Listeners::read(subscribed(&[2]), subscribed(&[0]), false));
    assert_eq!(some.in_doubt().count, Count::AtLeast(2));
    let polls = Waiters::without_asking(&Waiting::polls_each(100)).unwrap();
    assert!(polls.describe().starts_with("unknown: "), "{}", polls.describe());
}

#[test]
fn who_hears_nothing_is_dropped_unless_its_name_would_fill_the_screen() {
    let waiter = |id: &[u8], listens: bool| Waiter { id: id.into(), left_ms: None, listens: Fact::Known(listens) };
    let waiters = fair(vec![waiter(b"gone", false), waiter(b"here", true), waiter(&[b'x'; 513], false)]);
    assert_eq!(waiters.deaf(), [b"gone".to_vec()]);
}
