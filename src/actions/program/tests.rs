use super::*;
use crate::actions::comparisons::{ALL, SINGLE};
use crate::actions::plan::{Freeing, free};
use crate::dialects::Step;
use crate::dialects::scripts::OPENING;
use crate::lock::{Holder, RawValue};
use crate::server::permissions::{Need, Party};
use crate::testkit::sample;

/// What comes after the functions.
fn main_part(program: &Program) -> &str {
    program.text.rsplit("\n\n").next().expect("a last part")
}

fn readers(count: usize, name: &str) -> Program {
    let key = format!("lock:{name}").into_bytes();
    let member = |number: usize| format!("{name}-{number}").into_bytes();
    let mut checks: Vec<Check> =
        (0..count).map(|number| Check::Member { key: key.clone(), member: member(number) }).collect();
    checks.push(Check::Members { key: key.clone(), count: count as u64 });
    let writes: Vec<Write> =
        (0..count).map(|number| Write::Step(Step::RemoveScored { key: key.clone(), member: member(number) })).collect();
    Program::new(&key, &checks, &writes)
}

#[test]
fn what_runs_is_what_the_preview_says() {
    let checks = [Check::Value { key: b"lock:a".to_vec(), value: b"t1".to_vec() }];
    let writes =
        [Write::Step(Step::Delete(b"lock:a".to_vec())), Write::Tell { channel: b"c".to_vec(), message: b"0".to_vec() }];
    let program = Program::new(b"lock:a", &checks, &writes);
    let expected = r#"local stop
stop = stop or differs(1, 0, KEYS[1], value(KEYS[1], ARGV[2]))
stop = stop or may("DEL", KEYS[1])
if stop then return stop end
local fine, why = pcall(function()
  change("DEL", KEYS[1])
  tell(ARGV[3], ARGV[4])
end)
"#;
    assert!(main_part(&program).starts_with(expected), "{}", program.text);
    assert_eq!(program.keys, [b"lock:a"]);
    assert_eq!(program.args, [&b"lockscope"[..], b"t1", b"c", b"0"]);
    assert!(program.text.starts_with(OPENING));
    assert!(!program.text.contains("local function put("), "only what is used");
    assert!(!FUNCTIONS.contains('\''), "a shell quotes it whole");
}

#[test]
fn a_text_depends_on_the_shape_of_a_plan_alone() {
    let texts: std::collections::HashSet<String> =
        (2..60).map(|count| readers(count, &format!("of-{count}")).text).collect();
    assert_eq!(texts.len(), 1, "the server keeps every text");
    assert_ne!(readers(1, "one").text, readers(2, "two").text);
    let many = readers(3, "three");
    assert_eq!((many.keys.len(), many.args.len()), (7, 1 + 3 + 3 + 3), "all of them are operands");
    assert_eq!(many.check(1, 2), Some(&Check::Member { key: b"lock:three".to_vec(), member: b"three-2".to_vec() }));
    assert_eq!(many.check(2, 0), Some(&Check::Members { key: b"lock:three".to_vec(), count: 3 }));
    assert_eq!((many.check(0, 0), many.check(1, 3), many.check(3, 0)), (None, None, None));
}

#[test]
fn holders_that_are_compared_in_two_ways_by_turns_make_no_new_text() {
    let text = |count: usize| {
        let fields: Vec<(Vec<u8>, Vec<u8>)> =
            (0..count).map(|number| (format!("h{number}").into_bytes(), b"1".to_vec())).collect();
        let mut lock = sample::redisson();
        lock.value = RawValue::hash(fields.iter().map(|(field, value)| (&field[..], &value[..])));
        let holder =
            |number: usize| Holder { count: number.is_multiple_of(2).then_some(1), ..Holder::new(&fields[number].0) };
        lock.holders = (0..count).map(holder).collect();
        let plan = free(&lock, Freeing::default(), lock.at).expect("a plan");
        Program::new(plan.key.as_bytes(), &plan.checks, &plan.writes).text
    };
    assert_eq!(text(4), text(9));
}

#[test]
fn no_name_and_no_value_becomes_lua() {
    let evil = b"\"]) redis.call(\"FLUSHALL\") --".to_vec();
    let checks = [
        Check::Value { key: evil.clone(), value: evil.clone() },
        Check::FieldValue { key: evil.clone(), field: b"{key0}{value1}".to_vec(), value: evil.clone() },
        Check::NobodyListens(evil.clone()),
    ];
    let writes = [
        Write::Step(Step::WhenEmptied {
            key: evil.clone(),
            besides: Some(evil.clone()),
            then: vec![Step::Publish { channel: evil.clone(), message: evil.clone() }],
        }),
        Write::PutField { key: evil.clone(), field: evil.clone(), value: evil.clone(), until: None },
    ];
    let program = Program::new(&evil, &checks, &writes);
    assert!(!program.text.contains("FLUSHALL"));
    assert!(!main_part(&program).contains("{key") && !main_part(&program).contains("{value"), "{}", program.text);
    assert_eq!(program.keys, [evil], "one key, declared once");
}

#[test]
fn every_comparison_has_its_function() {
    // These comparisons are made before the script runs.
    let here = ["on_record", "keyspace", "confirmed", "held_since"];
    for name in [ALL, SINGLE].concat().into_iter().filter(|name| !here.contains(name)) {
        assert!(FUNCTIONS.contains(&format!("local function {name}(")), "{name}");
    }
}

#[test]
fn every_command_of_the_functions_is_one_that_an_operator_is_advised_to_have() {
    let advised = |command: &str| {
        let name = command.to_ascii_lowercase();
        let is_it = |need: &Need| need.command == name || need.command.starts_with(&format!("{name}|"));
        Party::Observer.own_needs().iter().chain(Party::Operator.own_needs()).any(is_it)
    };
    let called = FUNCTIONS.split("call(\"").skip(1).chain(FUNCTIONS.split("change(\"").skip(1));
    let called: Vec<&str> = called.filter_map(|rest| rest.split('"').next()).collect();
    assert!(called.contains(&"STRLEN") && called.contains(&"PEXPIREAT"), "{called:?}");
    assert!(called.iter().all(|command| advised(command)), "{called:?}");
}
