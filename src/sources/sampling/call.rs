//! What one command does to the key of a lock, whichever library sent it. Pure.

use super::line::Line;

/// The commands that matter to locks, by what they do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// SET in one of its many forms.
    Set,
    /// SETNX, HSETNX: writes only what is not there.
    WriteIfFree,
    /// MSETNX: the same with several keys, all or none.
    WriteAllIfFree,
    /// Writes unconditionally: HSET, ZADD, SADD, MSET and the like.
    Write,
    /// HINCRBY: enters or leaves, depending on its sign.
    Count,
    /// DECR, DECRBY: takes permits from a counter of free ones.
    CountDown,
    /// EXPIRE and its variants.
    Renew,
    /// Removes one holder: HDEL, ZREM, SREM.
    Leave,
    /// DEL, UNLINK, GETDEL.
    Delete,
    /// DELEX, DELIFEQ: deletes a key that has a certain value.
    DeleteIfEqual,
    /// EXISTS.
    Exists,
    /// Asks for one holder: HEXISTS, HGET, ZSCORE, SISMEMBER.
    Member,
    /// Reads the whole value.
    Read,
    /// Asks how long it lives.
    Lifetime,
    /// Asks how many hold it: ZCOUNT and the like.
    Size,
    /// Removes holders whose time is over: ZREMRANGEBYSCORE.
    Prune,
    /// EVAL, with the script's text as the first argument.
    Eval,
    /// EVALSHA or FCALL, with the script's name as the first argument.
    Run,
    Watch,
}

impl Verb {
    pub fn parse(command: &[u8]) -> Option<Verb> {
        let mut upper = [0u8; 16];
        let upper = upper.get_mut(..command.len())?;
        upper.copy_from_slice(command);
        upper.make_ascii_uppercase();
        Some(match &*upper {
            b"SET" => Verb::Set,
            b"SETNX" | b"HSETNX" => Verb::WriteIfFree,
            b"MSETNX" => Verb::WriteAllIfFree,
            b"MSET" | b"HSET" | b"HMSET" | b"ZADD" | b"SADD" | b"SETEX" | b"PSETEX" | b"GETSET" => Verb::Write,
            b"DECR" | b"DECRBY" => Verb::CountDown,
            b"HINCRBY" => Verb::Count,
            b"EXPIRE" | b"PEXPIRE" | b"EXPIREAT" | b"PEXPIREAT" | b"PERSIST" | b"GETEX" => Verb::Renew,
            b"HDEL" | b"ZREM" | b"SREM" => Verb::Leave,
            b"DEL" | b"UNLINK" | b"GETDEL" => Verb::Delete,
            b"DELEX" | b"DELIFEQ" => Verb::DeleteIfEqual,
            b"EXISTS" => Verb::Exists,
            b"HEXISTS" | b"HGET" | b"ZSCORE" | b"SISMEMBER" => Verb::Member,
            b"GET" | b"MGET" | b"GETRANGE" | b"HGETALL" | b"HKEYS" | b"SMEMBERS" => Verb::Read,
            b"PTTL" | b"TTL" | b"PEXPIRETIME" | b"EXPIRETIME" => Verb::Lifetime,
            b"HLEN" | b"SCARD" | b"ZCARD" | b"ZCOUNT" => Verb::Size,
            b"ZREMRANGEBYSCORE" => Verb::Prune,
            b"EVAL" | b"EVAL_RO" => Verb::Eval,
            b"EVALSHA" | b"EVALSHA_RO" | b"FCALL" | b"FCALL_RO" => Verb::Run,
            b"WATCH" => Verb::Watch,
            _ => return None,
        })
    }

    /// Whether no script takes a lock by it alone.
    fn takes_nothing(self) -> bool {
        use Verb::*;
        matches!(self, Renew | Leave | Delete | DeleteIfEqual | Exists | Member | Read | Lifetime | Size | Prune)
    }

    /// Whether a client can change a lock with it, or try to, outside of a script.
    pub fn acts(self) -> bool {
        use Verb::*;
        matches!(self, Set | WriteIfFree | WriteAllIfFree | Delete | DeleteIfEqual | Eval | Run | Watch)
    }

    /// The distance between its keys, where it takes several; `None` where only the first argument is a key.
    pub fn keys_every(self, command: &[u8]) -> Option<usize> {
        match self {
            Verb::WriteAllIfFree => Some(2),
            Verb::Write if command.eq_ignore_ascii_case(b"MSET") => Some(2),
            Verb::Delete | Verb::Exists | Verb::Watch if !command.eq_ignore_ascii_case(b"GETDEL") => Some(1),
            Verb::Read if command.eq_ignore_ascii_case(b"MGET") => Some(1),
            _ => None,
        }
    }
}

/// Whether the text of a script has a command that could take a lock, or may have one that we can't read.
pub fn may_take(script: &[u8]) -> bool {
    !commands(script).all(|command| command.is_some_and(|command| is_harmless(&command)))
}

/// Whether the text of a script takes what nobody has and does nothing else to a lock: it asks first whether it is there, or
/// writes only what is not. One that compares and writes may be a renewal as well.
pub fn takes(script: &[u8]) -> bool {
    let verbs: Vec<Option<Verb>> = commands(script).flatten().map(|command| Verb::parse(&command)).collect();
    let has = |wanted: &[Verb]| verbs.iter().flatten().any(|verb| wanted.contains(verb));
    let quoted = |word: &[u8]| script.windows(word.len()).any(|here| here.eq_ignore_ascii_case(word));
    let only_if_free = has(&[Verb::WriteIfFree, Verb::WriteAllIfFree])
        || has(&[Verb::Set]) && (quoted(b"'NX'") || quoted(b"\"NX\""))
        || has(&[Verb::Exists]) && has(&[Verb::Set, Verb::Write, Verb::Count]);
    only_if_free && !has(&[Verb::Leave, Verb::Delete, Verb::DeleteIfEqual]) && commands(script).all(|one| one.is_some())
}

fn is_harmless(command: &[u8]) -> bool {
    Verb::parse(command).is_some_and(Verb::takes_nothing) || HARMLESS.contains(&command)
}

/// The commands that the text of a script calls; `None` for one that can't be read: another name for the function, or a
/// computed command.
fn commands(script: &[u8]) -> impl Iterator<Item = Option<Vec<u8>>> + '_ {
    let mut rest = script;
    std::iter::from_fn(move || {
        let at = rest.windows(CALL.len()).position(|word| word == CALL)?;
        rest = rest[at + CALL.len()..].trim_ascii_start();
        Some((|| {
            let argument = rest.strip_prefix(b"(").map(<[u8]>::trim_ascii_start)?;
            let (quote, argument) = argument.split_first().filter(|(quote, _)| matches!(quote, b'\'' | b'"'))?;
            let end = argument.iter().position(|byte| byte == quote)?;
            rest = &argument[end..];
            Some(argument[..end].to_ascii_uppercase())
        })())
    })
}

/// `redis.call`, `redis.pcall`, `server.call` and the usual short names for them.
const CALL: &[u8] = b"call";
/// What scripts of locks call beside the verbs, and takes nothing.
const HARMLESS: [&[u8]; 8] = [b"PUBLISH", b"SPUBLISH", b"TIME", b"TYPE", b"STRLEN", b"LLEN", b"LRANGE", b"ZRANGE"];

/// One call about one key.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    pub does: Does,
    /// The holder that it names.
    pub token: Option<Vec<u8>>,
}

/// What it does to the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    TakeIfFree,
    Write,
    /// A holder enters once more.
    Enter,
    CountDown,
    Renew,
    /// Only if its value is the token.
    RenewIfEqual,
    Leave,
    Delete,
    DeleteIfEqual,
    Look(Verb),
}

impl Call {
    /// The call about the key that is the argument at `index`.
    pub fn parse(verb: Verb, line: &Line<'_>, index: usize) -> Call {
        // Few commands name a holder, and it follows the key closely.
        let mut after = line.args().skip(index + 1);
        let mut next = || after.next().map(|arg| arg.into_owned());
        let (does, token) = match verb {
            Verb::Set => return Call::set(next(), line),
            Verb::WriteIfFree | Verb::WriteAllIfFree => (Does::TakeIfFree, next()),
            Verb::Write => {
                let first = next();
                // The options and the score of ZADD, and the lease of SETEX, come before what is written.
                let token = match &*line.command.to_ascii_uppercase() {
                    b"ZADD" => line.args().last().map(|arg| arg.into_owned()),
                    b"SETEX" | b"PSETEX" => next(),
                    _ => first,
                };
                (Does::Write, token)
            }
            Verb::Count => {
                let token = next();
                let leaves = next().is_some_and(|by| by.starts_with(b"-"));
                (if leaves { Does::Leave } else { Does::Enter }, token)
            }
            Verb::CountDown => (Does::CountDown, None),
            Verb::Renew => (Does::Renew, None),
            Verb::Leave => (Does::Leave, next()),
            Verb::Delete => (Does::Delete, None),
            Verb::DeleteIfEqual => match next() {
                Some(option) if option.eq_ignore_ascii_case(b"IFEQ") => (Does::DeleteIfEqual, next()),
                // DELEX without a condition is DEL; with one we do not know, it names nobody.
                option if line.command.eq_ignore_ascii_case(b"DELEX") => {
                    (if option.is_none() { Does::Delete } else { Does::DeleteIfEqual }, None)
                }
                token => (Does::DeleteIfEqual, token),
            },
            Verb::Member => (Does::Look(verb), next()),
            _ => (Does::Look(verb), None),
        };
        // Redisson's read-write lock stores its mode in a field; that field is not a holder.
        Call { does, token: token.filter(|token| token.len() <= Call::TOKEN && **token != *b"mode") }
    }

    /// Longer values are not tokens.
    const TOKEN: usize = 1024;

    fn set(value: Option<Vec<u8>>, line: &Line<'_>) -> Call {
        let mut does = Does::Write;
        let mut token = value;
        let mut options = line.args().skip(2);
        while let Some(option) = options.next() {
            match &*option.to_ascii_uppercase() {
                b"NX" => does = Does::TakeIfFree,
                b"XX" => does = Does::Renew,
                b"IFEQ" => {
                    does = Does::RenewIfEqual;
                    token = options.next().map(|arg| arg.into_owned());
                }
                b"EX" | b"PX" | b"EXAT" | b"PXAT" => {
                    options.next();
                }
                _ => {}
            }
        }
        Call { does, token: token.filter(|token| token.len() <= Call::TOKEN) }
    }

    /// Whether this event shows that the call changed the key.
    pub fn is_shown_by(&self, verb: Verb, event: &[u8]) -> bool {
        match self.does {
            Does::TakeIfFree => event == b"set" || event == b"hset",
            Does::RenewIfEqual => event == b"set",
            Does::Renew if verb == Verb::Set => event == b"set",
            Does::Renew => matches!(event, b"expire" | b"persist" | b"del" | b"expired"),
            Does::Leave => matches!(event, b"hincrby" | b"hdel" | b"zrem" | b"srem"),
            Does::Delete | Does::DeleteIfEqual => event == b"del",
            Does::Write | Does::Enter | Does::CountDown => !matches!(event, b"expired" | b"evicted" | b"del" | b"new"),
            Does::Look(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::Text;
    use super::*;

    fn call(text: &str) -> (Does, String) {
        let text = format!("1.000001 [0 a:1] {text}");
        let line = Line::parse(Text { bytes: text.as_bytes(), whole: true }).unwrap();
        let call = Call::parse(Verb::parse(line.command).unwrap(), &line, 0);
        (call.does, String::from_utf8(call.token.unwrap_or_default()).unwrap())
    }

    #[test]
    fn the_options_of_set_come_in_any_order() {
        for text in [r#""SET" "k" "t" "NX" "PX" "9""#, r#""set" "k" "t" "px" "9" "nx""#, r#""SET" "k" "t" "NX" "GET""#]
        {
            assert_eq!(call(text), (Does::TakeIfFree, "t".into()), "{text}");
        }
        assert_eq!(call(r#""SET" "k" "NX""#), (Does::Write, "NX".into()), "that is its value");
        assert_eq!(call(r#""SET" "k" "t" "XX" "PX" "9""#), (Does::Renew, "t".into()));
        assert_eq!(call(r#""SET" "k" "new" "IFEQ" "t" "PX" "9""#), (Does::RenewIfEqual, "t".into()));
    }

    #[test]
    fn holders_are_read_where_each_command_names_them() {
        assert_eq!(call(r#""HINCRBY" "k" "uuid:1" "1""#), (Does::Enter, "uuid:1".into()));
        assert_eq!(call(r#""HINCRBY" "k" "uuid:1" "-1""#), (Does::Leave, "uuid:1".into()));
        assert_eq!(call(r#""ZADD" "k" "NX" "17" "member""#), (Does::Write, "member".into()));
        assert_eq!(call(r#""PSETEX" "k" "17" "t""#), (Does::Write, "t".into()));
        assert_eq!(call(r#""DELEX" "k" "IFEQ" "t""#), (Does::DeleteIfEqual, "t".into()));
        assert_eq!(call(r#""DELEX" "k""#), (Does::Delete, "".into()));
        assert_eq!(call(r#""DELIFEQ" "k" "t""#), (Does::DeleteIfEqual, "t".into()));
        assert_eq!(call(r#""HEXISTS" "k" "f""#), (Does::Look(Verb::Member), "f".into()));
        assert_eq!(call(r#""HGET" "k" "mode""#).0, Does::Look(Verb::Member));
        assert_ne!(call(r#""HGET" "k" "mode""#).1, "mode", "that is no holder");
    }

    #[test]
    fn a_text_that_takes_nothing_is_known_by_its_commands() {
        for text in [
            "return redis.call('GET', KEYS[1])",
            "if redis.call(\"get\", KEYS[1]) == ARGV[1] then return redis.pcall( 'del', KEYS[1] ) end",
            "redis.call('publish', KEYS[2], 1)",
            "return 1",
        ] {
            assert!(!may_take(text.as_bytes()), "{text}");
        }
        for text in [
            "if not redis.call('get', KEYS[1]) then redis.call('set', KEYS[1], ARGV[1]) end",
            "local c = redis.call; c('set', KEYS[1], 1)",
            "redis.call(ARGV[1], KEYS[1])",
            "redis.call('no-such-command', KEYS[1])",
            "redis.call('get",
        ] {
            assert!(may_take(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_is_about_no_lock_is_none() {
        for command in [&b"PING"[..], b"LPUSH", b"", b"a-command-that-is-far-too-long"] {
            assert_eq!(Verb::parse(command), None);
        }
    }
}
