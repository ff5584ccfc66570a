//! Whatever is written down reads back the same, in every variant and to the last byte.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde::de::DeserializeOwned;

use super::*;
use crate::base::server_text::ServerText;
use crate::base::time::{Time, Ttl};
use crate::dialects;
use crate::lock::{Holder, Key, KeyspaceId, Kind, Mode, NodeId, RawValue, Token};
use crate::model::proof::HolderLease;
use crate::model::*;
use crate::testkit::sample;

fn survives<T: Clone + PartialEq + Debug + Serialize + DeserializeOwned>(one: T) -> Result<(), TestCaseError> {
    let record = Record::new(one);
    let text = serde_json::to_string(&record).unwrap();
    prop_assert!(text.starts_with(r#"{"v":1,"of":"#), "{}", text);
    prop_assert_eq!(serde_json::from_str::<Record<T>>(&text).unwrap(), record);
    Ok(())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..12)
}

fn boxed() -> impl Strategy<Value = Box<[u8]>> {
    bytes().prop_map(Vec::into_boxed_slice)
}

fn key() -> impl Strategy<Value = Key> {
    bytes().prop_map(Key::from)
}

fn token() -> impl Strategy<Value = Token> {
    bytes().prop_map(|bytes| Token::from(&bytes[..]))
}

fn text() -> impl Strategy<Value = ServerText> {
    bytes().prop_map(ServerText::from)
}

fn time() -> impl Strategy<Value = Time> {
    any::<i64>().prop_map(Time)
}

fn span() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos))
}

fn ttl() -> impl Strategy<Value = Ttl> {
    prop_oneof![Just(Ttl::Never), span().prop_map(Ttl::In)]
}

/// Any number that a server can have: it knows infinity, and no NaN.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![any::<f64>(), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0)]
        .prop_filter("a number", |float| !float.is_nan())
}

fn share() -> impl Strategy<Value = f32> {
    0.0..=1.0f32
}

fn value() -> impl Strategy<Value = RawValue> {
    let len = any::<u64>;
    prop_oneof![
        (boxed(), len()).prop_map(|(head, len)| RawValue::Str { head, len }),
        (vec((boxed(), boxed()), 0..3), len()).prop_map(|(fields, len)| RawValue::Hash { fields: fields.into(), len }),
        (vec((boxed(), float()), 0..3), len())
            .prop_map(|(members, len)| RawValue::Zset { members: members.into(), len }),
        (vec(boxed(), 0..3), len()).prop_map(|(members, len)| RawValue::Set { members: members.into(), len }),
        len().prop_map(|len| RawValue::List { len }),
        text().prop_map(RawValue::Other),
        (text(), any::<String>()).prop_map(|(of, why)| RawValue::Unread { of: Box::new(of), why: why.into() }),
    ]
}

fn seen() -> impl Strategy<Value = Seen> {
    prop_oneof![Just(Seen::Absent), (value(), ttl()).prop_map(|(value, ttl)| Seen::Present { value, ttl })]
}

fn source() -> impl Strategy<Value = Source> {
    select(vec![Source::Notification, Source::Tracking, Source::Scan, Source::Action])
}

fn batch() -> impl Strategy<Value = EventBatch> {
    use KeyEvent::*;
    let all = vec![
        New,
        Set,
        Expire,
        Persist,
        Written,
        Removed,
        Del,
        Expired,
        Evicted,
        RenamedFrom,
        RenamedTo,
        Forced,
        PutBack,
        Restored,
        Other,
    ];
    (time(), vec((bytes(), select(all)), 0..4)).prop_map(|(at, events)| {
        let mut batch = EventBatch::new(at);
        events.iter().for_each(|(key, event)| batch.push(key, *event));
        batch
    })
}

fn own_write() -> impl Strategy<Value = OwnWrite> {
    let act = prop_oneof![
        any::<bool>().prop_map(|whole| Act::Free { whole }),
        span().prop_map(Act::Extend),
        any::<bool>().prop_map(|whole| Act::PutBack { whole }),
    ];
    (act, vec(token(), 0..3), any::<String>(), any::<Option<String>>())
        .prop_map(|(act, holders, by, reason)| OwnWrite { act, holders, by, reason })
}

fn waits() -> impl Strategy<Value = Waits> {
    let at = select(vec![WaitsAt::Channel, WaitsAt::Queue, WaitsAt::Blocked]);
    (any::<u32>(), at, any::<bool>(), any::<Option<u32>>(), time())
        .prop_map(|(count, at, at_least, dead_heads, counted)| Waits { count, at, at_least, dead_heads, counted })
}

fn tries() -> impl Strategy<Value = Tries> {
    let from = select(vec![TriesFrom::Counted, TriesFrom::Sampled]);
    (any::<[u64; 4]>(), span(), span(), float(), from, time()).prop_map(
        |(counts, looked, span, margin_per_s, from, at)| {
            let [attempts, failures, unjudged, unclear] = counts;
            Tries { attempts, failures, unjudged, unclear, looked, span, margin_per_s, from, at }
        },
    )
}

fn address() -> impl Strategy<Value = Address> {
    any::<([u8; 4], u16)>().prop_map(|([a, b, c, d], port)| {
        Address::parse(&format!("{a}.{b}.{c}.{d}:{}", port.max(1))).expect("an address")
    })
}

fn contender() -> impl Strategy<Value = Contender> {
    let counts = (any::<[u64; 2]>(), any::<u32>());
    (option::of(token()), option::of(address()), [time(), time()], counts, option::of(time())).prop_map(
        |(token, address, [first, last], ([attempts, failures], passed_over), won)| Contender {
            token,
            address,
            first,
            last,
            attempts,
            failures,
            won,
            passed_over,
            tokens: if attempts % 2 == 0 { Tokens::New } else { Tokens::Kept },
        },
    )
}

fn notice() -> impl Strategy<Value = Notice> {
    prop_oneof![
        (token(), option::of(address()), any::<bool>()).prop_map(|(token, address, renewal)| Notice::Late {
            token,
            address,
            renewal
        }),
        (option::of(token()), option::of(address())).prop_map(|(holder, address)| Notice::FreedBy { holder, address }),
    ]
}

fn noticed() -> impl Strategy<Value = Vec<(Time, Notice)>> {
    vec((time(), notice()), 0..3)
}

fn sampled() -> impl Strategy<Value = Sample> {
    let spoke = (token(), address(), time()).prop_map(|(token, address, at)| Spoke { token, address, at });
    (option::of(tries()), vec(contender(), 0..3), vec(spoke, 0..3), vec(token(), 0..3), noticed())
        .prop_map(|(tries, contenders, spoke, held, notices)| Sample { tries, contenders, spoke, held, notices })
}

fn connection() -> impl Strategy<Value = Connection> {
    let texts = [option::of(text()), option::of(text()), option::of(text())];
    (address(), any::<Option<u64>>(), texts, [option::of(time()), option::of(time()), option::of(time())], time())
        .prop_map(|(address, id, [name, library, user], [since, used, closed], seen)| Connection {
            address,
            id,
            name,
            library,
            user,
            since,
            used,
            seen,
            closed,
        })
}

fn presence() -> impl Strategy<Value = Presence> {
    use MatchedBy::*;
    let by = select(vec![Token, Name, Address, Host]);
    prop_oneof![
        Just(Presence::Unknown),
        (by, connection(), any::<u32>()).prop_map(|(by, connection, more)| {
            let more = more as usize;
            Presence::Connected { by, connection, more }
        }),
        (connection(), any::<Option<bool>>())
            .prop_map(|(connection, like_it)| Presence::Closed { connection, like_it }),
        Just(Presence::Absent),
    ]
}

fn hazards() -> impl Strategy<Value = Hazards> {
    let eviction =
        prop_oneof![Just(Eviction::None), (text(), float()).prop_map(|(policy, full)| Eviction::By { policy, full })];
    eviction.prop_map(|eviction| Hazards { eviction })
}

fn children() -> impl Strategy<Value = Children> {
    (time(), any::<bool>(), option::of(time()), span()).prop_map(|(at, running, ended, undated)| Children {
        at,
        running,
        ended,
        undated,
    })
}

/// What concerns a whole node.
fn server_news() -> impl Strategy<Value = ServerNews> {
    prop_oneof![
        (".{0,20}", any::<bool>()).prop_map(|(name, replica)| ServerNews::Joined { name, replica }),
        ".{0,20}".prop_map(|name| ServerNews::Left { name }),
        (".{0,20}", ".{0,20}", any::<u16>(), any::<u64>())
            .prop_map(|(from, to, slots, locks)| ServerNews::SlotsMoved { from, to, slots, locks }),
        (".{0,20}", ".{0,20}").prop_map(|(old, new)| ServerNews::SplitBrain { old, new }),
        any::<(i64, u64)>().prop_map(|(gained_ms, passed_ms)| ServerNews::Clock { gained_ms, passed_ms }),
    ]
}

fn of_deposed() -> impl Strategy<Value = OfDeposed> {
    let reign = || (".{0,20}", option::of(any::<u64>())).prop_map(|(name, epoch)| Reign { name, epoch });
    let fall = prop_oneof![Just(Fall::Demoted), Just(Fall::Gone), Just(Fall::Restored)];
    prop_oneof![
        (any::<u16>(), reign(), reign(), time()).prop_map(|(space, old, new, at)| {
            let succession = Box::new(Succession { space: KeyspaceId(space), old, new });
            OfDeposed::Reigns { succession, at }
        }),
        (key(), [time(), time()], seen()).prop_map(|(key, [asked, answered], seen)| OfDeposed::Has {
            key,
            asked,
            answered,
            seen
        }),
        Just(OfDeposed::Walked),
        (fall, time()).prop_map(|(fall, at)| OfDeposed::Ended { fall, at }),
    ]
}

fn noted() -> impl Strategy<Value = What> {
    prop_oneof![
        Just(What::Restarted),
        (".{0,20}", ".{0,20}", any::<u16>()).prop_map(|(from, to, slots)| What::Failover { from, to, slots }),
        ".{0,20}".prop_map(|why| What::Away { why }),
        (any::<u64>(), source()).prop_map(|(away_ms, source)| What::Back { away_ms, source }),
        option::of(any::<u64>()).prop_map(|events| What::Missed { events }),
        any::<bool>().prop_map(|on| What::Sampling { on }),
        server_news().prop_map(What::Server),
    ]
}

/// Every variant: a new one does not compile until it has its place here.
fn observation() -> impl Strategy<Value = Observation> {
    let named = |one: &Observation| match one {
        Observation::Events { .. }
        | Observation::Touched { .. }
        | Observation::Read { .. }
        | Observation::Answer { .. }
        | Observation::Acting { .. }
        | Observation::Acted { .. }
        | Observation::Counted { .. }
        | Observation::Blocked { .. }
        | Observation::Idle { .. }
        | Observation::Unused { .. }
        | Observation::Children { .. }
        | Observation::Tried { .. }
        | Observation::Sampled { .. }
        | Observation::Quiet { .. }
        | Observation::Fenced { .. }
        | Observation::Connections { .. }
        | Observation::Swept { .. }
        | Observation::Joined { .. }
        | Observation::Owners { .. }
        | Observation::TookOver { .. }
        | Observation::Cut { .. }
        | Observation::Deposed { .. }
        | Observation::Emptied { .. }
        | Observation::Left { .. }
        | Observation::Watched { .. }
        | Observation::Hazards { .. }
        | Observation::Noted { .. }
        | Observation::Testing { .. }
        | Observation::Flushed { .. }
        | Observation::Gap { .. }
        | Observation::Silent { .. }
        | Observation::Heard { .. } => true,
    };
    let node = || any::<u16>().prop_map(NodeId);
    let asked = prop_oneof![Just(Asked::All), vec(any::<u64>(), 0..3).prop_map(Asked::Ids)];
    prop_oneof![
        (node(), batch()).prop_map(|(node, batch)| Observation::Events { node, batch }),
        (node(), vec(key(), 0..3), time()).prop_map(|(node, keys, at)| Observation::Touched { node, keys, at }),
        (node(), key(), [time(), time()], seen(), source()).prop_map(|(node, key, [asked, answered], seen, source)| {
            Observation::Read { node, key, asked, answered, seen, source }
        }),
        (node(), key(), any::<u64>(), [time(), time()], seen(), any::<bool>()).prop_map(
            |(node, key, behind, [asked, answered], seen, moving)| {
                Observation::Answer { node, key, behind, asked, answered, seen, moving }
            }
        ),
        (node(), key(), time()).prop_map(|(node, key, at)| Observation::Acting { node, key, at }),
        (node(), key(), option::of(own_write()), [time(), time()])
            .prop_map(|(node, key, write, [sent, answered])| Observation::Acted { node, key, write, sent, answered }),
        (node(), key(), waits()).prop_map(|(node, key, waits)| Observation::Counted { node, key, waits }),
        (node(), vec(connection(), 0..3)).prop_map(|(node, clients)| Observation::Blocked { node, clients }),
        (node(), key(), time()).prop_map(|(node, key, since)| Observation::Idle { node, key, since }),
        (node(), key(), time(), span()).prop_map(|(node, key, asked, idle)| Observation::Unused {
            node,
            key,
            asked,
            idle
        }),
        (node(), option::of(children())).prop_map(|(node, children)| Observation::Children { node, children }),
        (node(), key(), tries()).prop_map(|(node, key, tries)| Observation::Tried { node, key, tries }),
        (node(), key(), sampled()).prop_map(|(node, key, sample)| Observation::Sampled {
            node,
            key,
            sample: Box::new(sample)
        }),
        (node(), option::of(tries())).prop_map(|(node, tries)| Observation::Quiet { node, tries }),
        (node(), key(), any::<u64>()).prop_map(|(node, key, token)| Observation::Fenced { node, key, token }),
        (node(), time(), asked, vec(connection(), 0..3))
            .prop_map(|(node, at, asked, present)| Observation::Connections { node, at, asked, present }),
        (node(), time()).prop_map(|(node, started)| Observation::Swept { node, started }),
        (node(), any::<u16>()).prop_map(|(node, space)| Observation::Joined { node, space: KeyspaceId(space) }),
        (any::<u16>(), vec((any::<u16>(), any::<u16>(), node()), 0..3), time())
            .prop_map(|(space, slots, at)| Observation::Owners { space: KeyspaceId(space), slots, at }),
        (node(), time()).prop_map(|(node, at)| Observation::TookOver { node, at }),
        (node(), option::of(time())).prop_map(|(node, since)| Observation::Cut { node, since }),
        (node(), of_deposed()).prop_map(|(node, told)| Observation::Deposed { node, told }),
        (node(), time()).prop_map(|(node, at)| Observation::Emptied { node, at }),
        node().prop_map(|node| Observation::Left { node }),
        (node(), source()).prop_map(|(node, source)| Observation::Watched { node, source }),
        (node(), hazards()).prop_map(|(node, hazards)| Observation::Hazards { node, hazards }),
        (node(), time(), noted()).prop_map(|(node, at, what)| Observation::Noted { node, at, what }),
        (key(), token()).prop_map(|(key, token)| Observation::Testing { key, token }),
        (node(), time()).prop_map(|(node, at)| Observation::Flushed { node, at }),
        (node(), time()).prop_map(|(node, at)| Observation::Gap { node, at }),
        (node(), option::of(time()), time()).prop_map(|(node, since, at)| Observation::Silent { node, since, at }),
        (node(), time()).prop_map(|(node, until)| Observation::Heard { node, until }),
    ]
    .prop_filter("every variant", named)
}

fn ending() -> impl Strategy<Value = Ending> {
    use Ending::*;
    select(vec![Released, Expired, Evicted, Flushed, Renamed, Failover, Restart, SlotTaken, Unseen, Taken, Forced])
}

fn transition() -> impl Strategy<Value = Transition> {
    let change = prop_oneof![
        select(vec![
            Change::Found,
            Change::Acquired,
            Change::Renewed,
            Change::PutBack,
            Change::CameBack,
            Change::Taken,
            Change::Moved
        ]),
        ending().prop_map(Change::Ended),
    ];
    (time(), key(), change, option::of(token()), option::of(token()), any::<bool>(), source()).prop_map(
        |(at, key, change, holder, previous, proven, source)| {
            let (space, node) = (KeyspaceId(3), NodeId(4));
            Transition { at, space, node, key, change, holder, previous, proven, source }
        },
    )
}

fn holder() -> impl Strategy<Value = Holder> {
    let texts = [option::of(text()), option::of(text()), option::of(text())];
    let mode = option::of(select(vec![Mode::Exclusive, Mode::Read, Mode::Write, Mode::Permit]));
    let times = [option::of(time()), option::of(time())];
    (token(), texts, any::<Option<u64>>(), any::<Option<i64>>(), times, mode).prop_map(
        |(token, [host, thread, client], pid, count, [since, until], mode)| Holder {
            token,
            host,
            pid,
            thread,
            client,
            count,
            since,
            until,
            mode,
        },
    )
}

fn hold() -> impl Strategy<Value = Hold> {
    (option::of(token()), [time(), time()], any::<bool>(), ending(), any::<u64>(), option::of(own_write())).prop_map(
        |(holder, [since, until], exact, ending, renewals, forced)| Hold {
            holder,
            since,
            exact,
            until,
            ending,
            renewals,
            forced: forced.map(Arc::new),
        },
    )
}

fn proof() -> impl Strategy<Value = Proof> {
    let whole = prop_oneof![
        Just(Whole::NotAsked),
        any::<String>().prop_map(Whole::Sha1),
        any::<String>().prop_map(Whole::Unknown)
    ];
    let end = || prop_oneof![Just(End::Never), any::<[i64; 2]>().prop_map(|[ms, within]| End::At { ms, within })];
    let lease =
        (token(), bytes(), end(), ttl()).prop_map(|(holder, key, end, left)| HolderLease { holder, key, end, left });
    let asked = (any::<Option<bool>>(), any::<u64>(), any::<Option<String>>());
    (whole, option::of(end()), vec(lease, 0..3), asked).prop_map(
        |(value, end, leases, (blocked, counted_on, waiting))| Proof {
            value,
            end,
            leases,
            blocked,
            counted_on,
            waiting,
        },
    )
}

fn dialect() -> impl Strategy<Value = &'static str> {
    select(dialects::all().iter().map(|dialect| dialect.name()).collect::<Vec<_>>())
}

fn finding() -> impl Strategy<Value = Finding> {
    let names: Vec<&str> = findings::names().collect();
    (select(names), any::<String>(), share(), any::<Option<String>>())
        .prop_map(|(name, sentence, confidence, settle)| Finding { name, sentence, confidence, settle })
}

fn view() -> impl Strategy<Value = LockView> {
    let reading = (dialect(), share(), option::of((dialect(), share())), select(vec![Kind::Lock, Kind::Marker]));
    let verdict = (select(State::ALL.to_vec()), vec(any::<String>(), 0..3), share());
    let held = option::of(select(vec![HeldIs::Exact, HeldIs::AtLeast, HeldIs::Estimated]));
    let wants = (option::of(waits()), option::of(tries()), option::of(float()), vec(contender(), 0..2), noticed());
    let clients = (option::of(connection()), vec(presence(), 0..2));
    let stored = (value(), ttl(), proof(), option::of(key()), clients);
    let said = (vec(finding(), 0..3), vec(hold(), 0..3), vec(time(), 0..3), any::<Option<i64>>());
    (key(), reading, verdict, vec(holder(), 0..3), held, wants, stored, said, source()).prop_map(
        |(key, reading, verdict, holders, held_is, wants, stored, said, source)| {
            let base = sample::redisson();
            let (dialect, dialect_confidence, second_choice, kind) = reading;
            let (state, evidence, confidence) = verdict;
            let (waits, tries, failures_per_s, contenders, notices) = wants;
            let (value, ttl, proof, related, (connection, presence)) = stored;
            let (findings, past, beats, due_in_ms) = said;
            let usual = related.clone().map(|pattern| Usual {
                pattern,
                holds: 7,
                p50_ms: 1,
                p99_ms: 2,
                hand_over_ms: None,
                ends: Ends { taken: 3, ..Ends::default() },
                renewed: 4,
            });
            LockView {
                key,
                kind,
                dialect,
                dialect_confidence,
                second_choice,
                lost: (state == State::Lost).then(|| Lost {
                    by: Ending::Failover,
                    proven: confidence > 0.5,
                    at: Time(1),
                    holder: holders.first().map(|holder| holder.token.clone()),
                    holders: holders.len(),
                    lease_ends: held_is.map(|_| Time(2)),
                }),
                verdict: Verdict { state, evidence, confidence },
                holders,
                held_is,
                waits,
                tries,
                demand: Demand { failures_per_s, ..base.demand },
                contenders,
                notices,
                value,
                ttl,
                proof,
                related,
                usual,
                connection,
                presence,
                findings,
                past,
                beats,
                renewals: base.renewals.clone().map(|renewals| RenewalView { due_in_ms, ..renewals }),
                source,
                ..base
            }
        },
    )
}

proptest! {
    #[test]
    fn every_observation_reads_back_the_same(one in observation()) {
        survives(one)?;
    }

    #[test]
    fn every_transition_reads_back_the_same(one in transition()) {
        survives(one)?;
    }

    #[test]
    fn every_view_reads_back_the_same(one in view()) {
        survives(one)?;
    }
}

#[test]
fn a_record_of_another_version_is_refused_by_its_number_before_its_content() {
    for record in [r#"{"v":2,"of":{"Unheard":{"of":1}}}"#, r#"{"v":0,"of":null}"#] {
        let why = serde_json::from_str::<Record<Observation>>(record).unwrap_err().to_string();
        let version = &record[5..6];
        let sentence = format!("this record has version {version}, and this lockscope reads only version 1");
        assert!(why.starts_with(&sentence), "{why}");
    }
    assert!(serde_json::from_str::<Record<Observation>>(r#"{"of":{"Left":{"node":1}}}"#).is_err(), "no version at all");
}

#[test]
fn names_that_no_table_has_are_refused() {
    let finding = Finding { name: "starving", sentence: String::new(), confidence: 1.0, settle: None };
    let view = LockView { findings: vec![finding], second_choice: Some(("redsync", 0.4)), ..sample::redisson() };
    let text = serde_json::to_string(&Record::new(view)).unwrap();
    serde_json::from_str::<Record<LockView>>(&text).unwrap();
    for (name, sentence) in [
        ("\"redisson\"", "there is no dialect \"gone\""),
        ("\"redsync\"", "there is no dialect \"gone\""),
        ("\"starving\"", "there is no finding \"gone\""),
    ] {
        assert!(text.contains(name), "{text}");
        let why = serde_json::from_str::<Record<LockView>>(&text.replace(name, "\"gone\"")).unwrap_err();
        assert!(why.to_string().starts_with(sentence), "{why}");
    }
}
