use super::*;
use crate::base::glob::Glob;
use crate::sources::sampling::frames::Text;

/// A stream as the server sends it: `> key event` is an event, anything else the end of a line.
struct Stage {
    recogniser: Recogniser,
    scripts: Scripts,
    notified: bool,
}

impl Stage {
    fn new() -> Stage {
        let recogniser = Recogniser::new(vec![Glob::new("lock:*").unwrap()], Vec::new(), Vec::new());
        Stage { recogniser, scripts: Scripts::default(), notified: true }
    }

    fn acts(&mut self, items: &[&str]) -> Vec<Act> {
        let mut acts = Vec::new();
        let mut judge = Judge::new(&self.recogniser, &mut self.scripts, 0, self.notified, Time(0));
        for (index, item) in items.iter().enumerate() {
            if let Some(event) = item.strip_prefix("> ") {
                let (key, event) = event.split_once(' ').unwrap();
                judge.message(format!("__keyspace@0__:{key}").as_bytes(), event.as_bytes());
                continue;
            }
            let (by, words) = item.split_once(' ').unwrap();
            let by = if by == "lua" { "lua".to_string() } else { format!("10.0.0.1:{by}") };
            let words: Vec<String> = words.split(' ').map(|word| format!("\"{word}\"")).collect();
            let text = format!("1.000001 [0 {by}] {}", words.join(" "));
            let line = Line::parse(Text { bytes: text.as_bytes(), whole: true }).unwrap();
            // Late enough that no release belongs to an attempt before the burst.
            judge.line(&line, Time(1000 + index as i64), &mut |act| acts.push(act));
        }
        judge.end(true, &mut |act| acts.push(act));
        acts
    }

    /// In short: `8 lock:a won t1`.
    fn short(&mut self, items: &[&str]) -> Vec<String> {
        let line = |act: Act| {
            let port = act.address.as_ref().map_or("?", |address| address.as_str().rsplit(':').next().unwrap());
            let what = match &act.what {
                What::Tried(outcome) => format!("{outcome:?}").to_lowercase(),
                What::Renewed => "renewed".into(),
                What::Released => "released".into(),
                What::Late { renewal: true } => "late renewal".into(),
                What::Late { renewal: false } => "late release".into(),
                What::Unclear => "unclear".into(),
                What::FreedBy { holder: None } => "freed".into(),
                What::FreedBy { holder: Some(holder) } => format!("freed from {holder}"),
            };
            let token = act.token.map_or("-".to_string(), |token| token.to_string());
            format!("{port} {} {what} {token}", act.key)
        };
        self.acts(items).into_iter().map(line).collect()
    }
}

fn reported(items: &[&str]) -> Vec<String> {
    Stage::new().short(items)
}

#[test]
fn a_set_with_an_event_was_won_and_one_without_is_lost() {
    let items = [
        "> lock:a set",
        "> lock:a expire",
        "1 SET lock:a t1 NX PX 100",
        "2 set lock:a t2 px 100 nx",
        "> lock:b set",
        "3 SETNX lock:b t3",
        "4 SETNX lock:b t4",
        "4 SETNX cart:b t4",
        "> lock:h hset",
        "5 HSETNX lock:h f 1",
        "6 HSETNX lock:h f 1",
        "7 MSETNX lock:a x lock:z x",
    ];
    let expected = [
        "1 lock:a won t1",
        "2 lock:a lost t2",
        "3 lock:b won t3",
        "4 lock:b lost t4",
        "5 lock:h won f",
        "6 lock:h lost f",
        "7 lock:a lost x",
        "7 lock:z lost x",
    ];
    assert_eq!(reported(&items), expected);
}

#[test]
fn the_end_of_the_last_holder_right_before_is_no_win() {
    let items = ["> lock:a expired", "1 SET lock:b t NX", "> lock:a expired", "> lock:a set", "2 SET lock:a t NX"];
    assert_eq!(reported(&items), ["1 lock:b lost t", "2 lock:a won t"]);
}

#[test]
fn events_belong_to_the_line_that_follows_them() {
    let items =
        ["> lock:a set", "1 SET lock:a other", "2 SET lock:a t NX", "> lock:a set", "3 GET x", "4 SETNX lock:a t"];
    assert_eq!(reported(&items), ["2 lock:a lost t", "4 lock:a lost t"]);
}

#[test]
fn without_notifications_nothing_is_invented() {
    let mut stage = Stage::new();
    stage.notified = false;
    let items = ["1 SET lock:a t1 NX", "2 DEL lock:a", "3 EVAL text 1 lock:a t", "lua set lock:a t NX"];
    assert_eq!(stage.short(&items), ["1 lock:a unknown t1", "3 lock:a unknown t"]);
    // Inner calls show the outcome without notifications.
    let redisson =
        ["4 EVALSHA sha 1 lock:r 3000 u:1", "lua exists lock:r", "lua hexists lock:r u:1", "lua pttl lock:r"];
    assert_eq!(stage.short(&redisson), ["4 lock:r lost u:1"]);
}

#[test]
fn an_event_shows_that_notifications_are_on() {
    let mut stage = Stage::new();
    stage.notified = false;
    let items =
        ["1 SET lock:a t1 NX", "> lock:b set", "2 SET lock:b t2 NX", "3 SET lock:b t3 NX", "4 HSETNX lock:h f 1"];
    assert_eq!(
        stage.short(&items),
        ["1 lock:a unknown t1", "2 lock:b won t2", "3 lock:b lost t3", "4 lock:h unknown f"]
    );
}

#[test]
fn a_script_is_judged_by_its_inner_calls() {
    let items = [
        // Redisson: taken, entered again, refused, left twice.
        "1 EVALSHA lock 1 lock:r 30000 u:1",
        "lua exists lock:r",
        "> lock:r hincrby",
        "lua hincrby lock:r u:1 1",
        "> lock:r expire",
        "lua pexpire lock:r 30000",
        "1 EVALSHA lock 1 lock:r 30000 u:1",
        "lua exists lock:r",
        "lua hexists lock:r u:1",
        "> lock:r hincrby",
        "lua hincrby lock:r u:1 1",
        "> lock:r expire",
        "lua pexpire lock:r 30000",
        "2 EVALSHA lock 1 lock:r 30000 v:7",
        "lua exists lock:r",
        "lua hexists lock:r v:7",
        "lua pttl lock:r",
        "1 EVALSHA unlock 1 lock:r 0 30000 u:1",
        "lua hexists lock:r u:1",
        "> lock:r hincrby",
        "lua hincrby lock:r u:1 -1",
        "> lock:r expire",
        "lua pexpire lock:r 30000",
        "2 PING",
    ];
    assert_eq!(
        reported(&items),
        ["1 lock:r won u:1", "1 lock:r won u:1", "2 lock:r lost v:7", "1 lock:r released u:1"]
    );
}

#[test]
fn a_hash_that_the_server_does_not_know_is_no_attempt() {
    let items = [
        "1 EVALSHA sha 1 lock:s t1",
        "1 EVAL text 1 lock:s t1",
        "lua exists lock:s",
        "> lock:s set",
        "lua set lock:s t1 PX 100",
    ];
    assert_eq!(reported(&items), ["1 lock:s won t1"]);
}

#[test]
fn one_refused_run_of_a_script_that_is_known_by_its_hash_is_an_attempt() {
    // Spring's: it was not seen to take anything here, and nobody repeats it.
    let obtain = "1 EVALSHA 175897a4e379e99e79a54937be09226f76cdcfe5 1 lock:s t1 500";
    assert_eq!(reported(&[obtain, "lua GET lock:s"]), ["1 lock:s lost t1"]);
    assert_eq!(reported(&["1 EVALSHA another 1 lock:s t1 500", "lua GET lock:s"]), ["1 lock:s unclear t1"]);
}

#[test]
fn the_same_looks_are_an_attempt_or_too_late_by_what_the_script_is_for() {
    let mut stage = Stage::new();
    let items = [
        // Its purpose is not known here, but by the end of the burst it is.
        "1 EVALSHA obtain 1 lock:a t1 500",
        "lua GET lock:a",
        "> lock:b new",
        "> lock:b set",
        "2 SET lock:b x",
        "2 EVALSHA obtain 1 lock:c t2 500",
        "lua GET lock:c",
        "> lock:c new",
        "> lock:c set",
        "lua SET lock:c t2 PX 500",
        "3 EVALSHA renew 1 lock:c t2 500",
        "lua GET lock:c",
        "> lock:c expire",
        "lua PEXPIRE lock:c 500",
        "4 EVALSHA renew 1 lock:c gone 500",
        "lua GET lock:c",
        "5 EVALSHA never-seen 1 lock:c who",
        "lua GET lock:c",
    ];
    assert_eq!(
        stage.short(&items),
        [
            "2 lock:c won t2",
            "3 lock:c renewed t2",
            "1 lock:a lost t1",
            "4 lock:c late renewal gone",
            "5 lock:c unclear who"
        ]
    );
    assert_eq!(
        stage.short(&["1 EVALSHA obtain 1 lock:a t9 500", "lua GET lock:a"]),
        ["1 lock:a lost t9"],
        "still known"
    );
}

#[test]
fn a_script_that_is_repeated_and_only_reads_takes() {
    let mut stage = Stage::new();
    let refused = ["1 EVALSHA obtain 1 lock:a t1 500", "lua GET lock:a"];
    assert_eq!(stage.short(&refused.repeat(2)), ["1 lock:a unclear t1"; 2], "that may be a late release");
    assert_eq!(stage.short(&refused.repeat(3)), ["1 lock:a lost t1"; 3]);
    assert_eq!(stage.short(&refused), ["1 lock:a lost t1"], "still known");
    let asked = ["1 EVALSHA left 1 lock:a t1", "lua GET lock:a", "lua PTTL lock:a"];
    assert_eq!(stage.short(&asked.repeat(3)), ["1 lock:a unclear t1"; 3], "who asks for the time left may hold it");
    let unheard = ["1 EVALSHA odd 1 lock:a t1", "lua OBJECT ENCODING lock:a"];
    assert_eq!(stage.short(&unheard.repeat(3)), ["1 lock:a unclear t1"; 3]);
    let text = ["1 EVAL redis.call('get',KEYS[1]) 1 lock:a t1", "lua get lock:a"];
    assert!(stage.short(&text.repeat(3)).is_empty(), "its text takes nothing");
}

#[test]
fn a_holder_that_looks_at_its_own_lock_is_no_contender() {
    let mut items = vec!["> lock:a set", "1 SET lock:a t1 NX"];
    items.extend(["1 EVALSHA mine 1 lock:a t1", "lua GET lock:a"].repeat(4));
    let mut expected = vec!["1 lock:a won t1"];
    expected.extend(["1 lock:a unclear t1"; 4]);
    assert_eq!(reported(&items), expected);
}

#[test]
fn who_finds_a_free_slot_was_not_refused_at_the_others() {
    let items = [
        "1 EVALSHA funnel 3 lock:f1 lock:f2 lock:f3 t1 60",
        "lua mget lock:f1 lock:f2 lock:f3",
        "> lock:f2 new",
        "> lock:f2 set",
        "lua set lock:f2 t1 EX 60",
        "2 EVALSHA funnel 3 lock:f1 lock:f2 lock:f3 t2 60",
        "lua mget lock:f1 lock:f2 lock:f3",
    ];
    assert_eq!(reported(&items), ["1 lock:f2 won t1", "2 lock:f1 lost t2", "2 lock:f2 lost t2", "2 lock:f3 lost t2"]);
}

#[test]
fn a_release_after_a_lost_attempt_is_only_tidy() {
    let items = [
        "1 EVALSHA free 1 lock:a t1",
        "lua get lock:a",
        "> lock:a del",
        "lua del lock:a",
        "2 SET lock:a t2 NX PX 100",
        "2 EVALSHA free 1 lock:a t2",
        "lua get lock:a",
        "3 EVALSHA free 1 lock:a t3",
        "lua get lock:a",
    ];
    assert_eq!(reported(&items), ["1 lock:a released t1", "2 lock:a lost t2", "3 lock:a late release t3"]);
}

#[test]
fn a_renewal_that_sets_again_is_no_attempt() {
    let items = [
        "1 EVALSHA lock 1 lock:n t1 100",
        "lua exists lock:n",
        "> lock:n set",
        "lua set lock:n t1 PX 100",
        "1 EVALSHA extend 1 lock:n t1 100",
        "lua get lock:n",
        "> lock:n set",
        "lua set lock:n t1 PX 100",
        "2 EVALSHA lock 1 lock:n t2 100",
        "lua exists lock:n",
    ];
    assert_eq!(reported(&items), ["1 lock:n won t1", "1 lock:n renewed t1", "2 lock:n lost t2"]);
}

#[test]
fn who_deletes_what_another_holds_is_reported() {
    let items = [
        "> lock:a set",
        "1 SET lock:a t1 NX",
        "> lock:a del",
        "2 DEL lock:a other",
        "> lock:a set",
        "1 SET lock:a t1 NX",
        "> lock:a del",
        "1 DEL lock:a",
        "> lock:b del",
        "3 UNLINK lock:b lock:c",
        // Compared by the client itself, as StackExchange.Redis does.
        "4 WATCH lock:d",
        "4 GET lock:d",
        "4 MULTI",
        "> lock:d del",
        "4 DEL lock:d",
        "4 EXEC",
    ];
    let expected = [
        "1 lock:a won t1",
        "2 lock:a freed from t1 -",
        "1 lock:a won t1",
        "1 lock:a released -",
        "3 lock:b freed -",
        "4 lock:d released -",
    ];
    assert_eq!(reported(&items), expected);
}

#[test]
fn commands_that_compare_by_themselves_are_understood() {
    let items = [
        "> lock:a set",
        "1 SET lock:a t1 IFEQ t1 PX 100",
        "2 SET lock:a t2 IFEQ t2 PX 100",
        "3 DELEX lock:a IFEQ t3",
        "> lock:a del",
        "1 DELIFEQ lock:a t1",
    ];
    let expected =
        ["1 lock:a renewed t1", "2 lock:a late renewal t2", "3 lock:a late release t3", "1 lock:a released t1"];
    assert_eq!(reported(&items), expected);
}

#[test]
fn another_database_is_not_ours() {
    let mut stage = Stage::new();
    let mut acts = 0;
    let mut judge = Judge::new(&stage.recogniser, &mut stage.scripts, 0, true, Time(0));
    let text = br#"1.000001 [3 10.0.0.1:1] "SET" "lock:a" "t" "NX""#;
    judge.message(b"__keyspace@3__:lock:a", b"set");
    judge.line(&Line::parse(Text { bytes: text, whole: true }).unwrap(), Time(1), &mut |_| acts += 1);
    assert_eq!((acts, judge.events.len()), (0, 0));
}

#[test]
fn what_the_operator_frees_is_nobodys_mishap() {
    let freed = |called: &str| Stage::new().short(&[called, "lua GET lock:a", "> lock:a del", "lua DEL lock:a"]);
    assert!(freed("1 EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 lock:a lockscope t1").is_empty());
    assert!(!freed("1 EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1 lock:a t1").is_empty(), "somebody else's");
}

#[test]
fn arguments_of_scripts_on_other_keys_are_not_kept() {
    let stage = Stage::new();
    let text = br#"1.000001 [0 10.0.0.1:1] "EVAL" "text" "1" "cart:a" "secret""#;
    let line = Line::parse(Text { bytes: text, whole: true }).unwrap();
    let run = Run::open(Verb::Eval, &line, None, Time(0), &mut Scripts::default(), &stage.recogniser);
    assert!(!format!("{run:?}").contains(&format!("{:?}", b"secret".to_vec())));
}

#[test]
fn floods_are_bounded() {
    let mut stage = Stage::new();
    let mut judge = Judge::new(&stage.recogniser, &mut stage.scripts, 0, true, Time(0));
    for number in 0..100_000 {
        judge.message(format!("__keyspace@0__:lock:{number}").as_bytes(), b"set");
    }
    assert_eq!(judge.events.len(), EVENTS);
    let mut acts = Vec::new();
    let text = br#"1.000001 [0 10.0.0.1:1] "SET" "lock:x" "t" "NX""#;
    let line = Line::parse(Text { bytes: text, whole: true }).unwrap();
    judge.line(&line, Time(1), &mut |act| acts.push(act.what));
    assert_eq!(acts, [What::Tried(Outcome::Unknown)], "its event may be among those left out");
    for number in 0..2 * LOCKS {
        let text = format!(r#"1.000001 [0 10.0.0.1:1] "SET" "lock:{number}" "t" "NX""#);
        let line = Line::parse(Text { bytes: text.as_bytes(), whole: true }).unwrap();
        judge.line(&line, Time(1), &mut |_| {});
    }
    assert_eq!(judge.states.len(), LOCKS);
}
