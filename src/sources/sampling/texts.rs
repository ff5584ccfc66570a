//! The texts of scripts and functions that a burst saw and did not understand, asked of the server where it tells them and
//! permits it: `FUNCTION LIST WITHCODE`, and `SCRIPT SHOW` of Valkey. If it is refused, they stay not understood, and the reader says so.

use std::collections::HashMap;

use redis::{FromRedisValue, Value, cmd};

use super::habits::{Called, Name, ScriptId, Scripts};
use crate::topology::{Node, ServerConnection};

/// At most this many texts are asked for after one burst.
const MOST: usize = 16;
/// A larger text is not read: no lock needs it.
const LARGEST: usize = 256 * 1024;

/// Learns what these scripts are for from their texts, each of them once.
pub async fn learn(node: &Node, scripts: &mut Scripts, unclear: Vec<ScriptId>) {
    let unasked = scripts.ask(unclear, MOST);
    if unasked.is_empty() {
        return;
    }
    let Ok(mut conn) = node.connect().await else { return };
    let functions = unasked.iter().any(|name| name.called == Called::Function);
    let libraries = if functions { codes(&mut conn).await } else { Vec::new() };
    for Name { script, called, name } in unasked {
        match called {
            Called::Function => {
                let text = libraries.iter().find_map(|code| function_text(code, &name));
                text.into_iter().for_each(|text| scripts.tell(script, text));
            }
            Called::Hash => {
                let show = cmd("SCRIPT").arg("SHOW").arg(&*name).query_async::<Vec<u8>>(&mut conn).await;
                let text = show.ok().filter(|text| text.len() <= LARGEST);
                text.into_iter().for_each(|text| scripts.tell(script, &text));
            }
        }
    }
}

/// The code of each library of functions.
async fn codes(conn: &mut ServerConnection) -> Vec<Vec<u8>> {
    let answer: Vec<Value> = cmd("FUNCTION").arg("LIST").arg("WITHCODE").query_async(conn).await.unwrap_or_default();
    let code = |library: Value| {
        let mut fields = HashMap::<String, Value>::from_redis_value(library).ok()?;
        Vec::<u8>::from_redis_value(fields.remove("library_code")?).ok().filter(|code| code.len() <= LARGEST)
    };
    answer.into_iter().filter_map(code).collect()
}

const REGISTER: &[u8] = b"register_function";

/// The text of one function of a library; the whole code where the function calls others of it, or can't be told apart.
/// `None`: it is not of this library.
fn function_text<'a>(code: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let registered = |at: usize| {
        let rest = &code[at + REGISTER.len()..];
        let open = rest.iter().position(|byte| matches!(byte, b'\'' | b'"'))?;
        let quoted = rest[open + 1..].split(|byte| *byte == rest[open]).next()?;
        (quoted == name).then_some(at + REGISTER.len() + open + quoted.len() + 2)
    };
    let after = places(code, REGISTER).into_iter().find_map(registered)?;
    let callback = code.get(after..).unwrap_or_default().trim_ascii_start();
    let callback = callback.strip_prefix(b",").unwrap_or(callback).trim_ascii_start();
    let callback = callback.strip_prefix(b"callback").map_or(callback, |rest| rest.trim_ascii_start());
    let callback = callback.strip_prefix(b"=").unwrap_or(callback).trim_ascii_start();
    let begin = match callback.starts_with(b"function") {
        true => code.len() - callback.len(),
        false => {
            let known = word(callback);
            let defined = |at: &usize| word(code[at + b"function".len()..].trim_ascii_start()) == known;
            match places(code, b"function ").into_iter().find(defined) {
                Some(at) if !known.is_empty() => at,
                _ => return Some(code),
            }
        }
    };
    let body = &code[begin..];
    // It ends where another begins at the latest.
    let ends = [&b"\nfunction "[..], b"\nlocal function ", REGISTER];
    let end = ends.iter().filter_map(|end| places(body, end).into_iter().find(|at| *at > 0)).min();
    let body = &body[..end.unwrap_or(body.len())];
    let names =
        places(code, b"function ").into_iter().map(|at| word(code[at + b"function ".len()..].trim_ascii_start()));
    let own = word(body.strip_prefix(b"function").unwrap_or(body).trim_ascii_start());
    let calls = |other: &[u8]| places(body, other).into_iter().any(|at| body[at + other.len()..].starts_with(b"("));
    let calls_another = names.filter(|other| !other.is_empty() && *other != own).any(calls);
    Some(if calls_another { code } else { body })
}

/// The name at the beginning of a text.
fn word(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    &text[..end.unwrap_or(text.len())]
}

fn places(text: &[u8], word: &[u8]) -> Vec<usize> {
    text.windows(word.len()).enumerate().filter(|(_, here)| *here == word).map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &[u8] = b"#!lua name=locks
local function mine(key, token) return redis.call('GET', key) == token end
local function acquire(keys, args)
    if redis.call('EXISTS', keys[1]) == 1 then return 0 end
    redis.call('SET', keys[1], args[1], 'PX', args[2]) return 1
end
local function release(keys, args)
    if redis.call('GET', keys[1]) == args[1] then return redis.call('DEL', keys[1]) end
end
redis.register_function('acquire_lock', acquire)
redis.register_function{function_name='release_lock', callback=release}
redis.register_function('renew_lock', function(keys, args)
    if mine(keys[1], args[1]) then return redis.call('PEXPIRE', keys[1], args[2]) end
end)
redis.register_function(\"look\", function(keys) return redis.call('GET', keys[1]) end)
";

    #[test]
    fn each_function_of_a_library_has_its_own_text() {
        let text = |name: &str| String::from_utf8(function_text(CODE, name.as_bytes()).unwrap().to_vec()).unwrap();
        assert!(text("acquire_lock").contains("EXISTS") && !text("acquire_lock").contains("DEL"));
        assert!(text("release_lock").contains("DEL") && !text("release_lock").contains("EXISTS"));
        assert!(text("look").contains("GET") && !text("look").contains("PEXPIRE"));
        assert_eq!(text("renew_lock").len(), CODE.len(), "it calls another, so that its own text is not all");
        assert_eq!(function_text(CODE, b"acquire"), None, "a name is a name as it is registered");
        assert_eq!(function_text(b"", b"x"), None);
        assert!(function_text(b"register_function('x', other)", b"x").is_some());
        assert_eq!(function_text(b"register_function('x", b"x"), Some(&b"register_function('x"[..]), "cut off");
    }
}
