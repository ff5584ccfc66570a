//! Takes tokens and values out of the JSON of an incident. The page is drawn from that JSON, so nothing else can show them.
//!
//! A token becomes a name for its holder, the same everywhere, so that the story can still be followed. In sentences only
//! tokens of a few characters or more are looked for: a token like `1` says nothing, and is part of many words.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::base::text::short_token;

/// Stands for a value.
const REDACTED: &str = "(redacted)";
/// Shorter tokens are not looked for within sentences.
const SHORTEST: usize = 4;
/// Fields that hold a token, or a list of them.
const TOKENS: [&str; 4] = ["token", "holder", "previous", "holders"];
/// Fields whose texts name things by themselves, and stay.
const NAMES: [&str; 6] = ["key", "key_base64", "keys", "pattern", "schema", "rule"];

/// Takes them out.
pub fn redact(document: &mut Value) {
    let mut tokens = BTreeMap::new();
    collect(document, "", &mut tokens);
    // A token that is part of another would leave the rest of it to be seen.
    let mut texts: Vec<(String, String)> = tokens
        .iter()
        .flat_map(|(token, name)| [(token.clone(), name.clone()), (short_token(token), name.clone())])
        .filter(|(text, _)| text.chars().count() >= SHORTEST)
        .collect();
    texts.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    replace(document, "", &tokens, &texts);
}

fn is_token(field: &str) -> bool {
    TOKENS.contains(&field)
}

/// One that stands in a queue: its id is its token.
fn is_waiter(fields: &Map<String, Value>) -> bool {
    fields.contains_key("id") && fields.contains_key("deadline_ms")
}

fn field_of<'a>(fields: &Map<String, Value>, name: &'a str) -> &'a str {
    if name == "id" && is_waiter(fields) { "token" } else { name }
}

fn collect(value: &Value, field: &str, tokens: &mut BTreeMap<String, String>) {
    match value {
        Value::String(text) if is_token(field) && !text.is_empty() && !tokens.contains_key(text) => {
            tokens.insert(text.clone(), format!("holder-{}", tokens.len() + 1));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, field, tokens)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| collect(value, field_of(fields, name), tokens));
            // The client of a library that numbers its threads is most of the token.
            let part = fields.get("client").and_then(Value::as_str).filter(|client| !client.is_empty());
            let whole = fields
                .get("token")
                .and_then(Value::as_str)
                .filter(|token| part.is_some_and(|part| token.contains(part)));
            if let (Some(part), Some(name)) = (part, whole.and_then(|token| tokens.get(token)).cloned()) {
                tokens.entry(part.to_string()).or_insert(name);
            }
        }
        _ => {}
    }
}

fn replace(value: &mut Value, field: &str, tokens: &BTreeMap<String, String>, texts: &[(String, String)]) {
    match value {
        Value::String(_) if NAMES.contains(&field) => {}
        Value::String(text) => {
            if let Some(name) = tokens.get(text.as_str()).filter(|_| is_token(field) || field == "client") {
                *text = name.clone();
            } else {
                texts.iter().for_each(|(token, name)| {
                    if text.contains(token.as_str()) {
                        *text = text.replace(token.as_str(), name);
                    }
                });
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, field, tokens, texts)),
        Value::Object(fields) => {
            strip(fields);
            let waits = is_waiter(fields);
            for (name, value) in fields.iter_mut() {
                replace(value, if waits && name == "id" { "token" } else { name }, tokens, texts);
            }
        }
        _ => {}
    }
}

/// Exact bytes of tokens, and what is stored under the key.
fn strip(fields: &mut Map<String, Value>) {
    let waits = is_waiter(fields);
    fields.retain(|name, _| !name.strip_suffix("_base64").is_some_and(|name| is_token(name) || waits && name == "id"));
    if fields.contains_key("dialect") && fields.contains_key("value") {
        fields.insert("value".into(), REDACTED.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_token_and_no_value_is_left_and_the_story_can_be_followed() {
        let token = "3f2a8c00-1111-4222-8333-444455556666:57";
        let mut document = json!({
            "lock": {
                "key": format!("lock:{token}"), "dialect": "redisson",
                "holders": [{ "token": token, "token_base64": "eA==", "host": "worker-7", "thread": "57",
                    "client": "3f2a8c00-1111-4222-8333-444455556666" }],
                "evidence": [format!("{token} is gone, {} came", short_token(token))],
                "value": { "type": "string", "text": token },
            },
            "history": [{ "holder": "w", "since": "x" }, { "holder": token }],
            "timeline": [{ "previous": token, "sentence": format!("taken from {token} by w"), "holder": "other-token" }],
            "actions": [{ "holders": [token], "commands": [format!("EVAL … {token}")], "holders_base64": ["eA=="] }],
            "waiting": { "queue": [{ "id": "9c1e0b7a:1", "id_base64": "eA==", "deadline_ms": 5 }] },
            "sentences": ["held by other-token"],
        });
        redact(&mut document);
        let name = document["lock"]["holders"][0]["token"].clone();
        assert!(name.as_str().unwrap().starts_with("holder-"));
        assert_eq!(document["timeline"][0]["previous"], name);
        assert_eq!(document["actions"][0]["holders"][0], name);
        assert_eq!(document["history"][0]["holder"].as_str().unwrap().len(), "holder-1".len());
        assert_eq!(document["lock"]["value"], REDACTED);
        assert_eq!(document["lock"]["key"], format!("lock:{token}"), "the name of a lock stays");
        assert_eq!(document["lock"]["holders"][0]["host"], "worker-7");
        let mut rest = document.clone();
        rest["lock"]["key"] = json!("");
        let text = rest.to_string();
        for secret in [token, "3f2a8c00", "other-token", "base64", "9c1e0b7a"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}
