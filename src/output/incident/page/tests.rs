//! Whatever the strings in it are, the page has the same markup.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A document whose every text that a server or a person can choose is this one.
fn document(text: &str) -> Value {
    json!({
        "schema": "lockscope/1", "at": "2026-11-18T12:00:00.000Z", "version": "1", "redacted": true,
        "headline": text, "sentences": [text, text],
        "server": { "target": text, "url": text, "environment": text, "server": text,
            "nodes": [{ "name": text, "flavor": text, "version": text, "mode": text, "role": text, "stream": text }] },
        "lock": { "key": text, "holders": [{ "token": text, "host": text, "connection": { "address": text } }],
            "contention": { "blocked_clients": [{ "address": text, "name": text, "blocked_ms": 7 }] } },
        "history": [{ "holder": text, "since": "2026-11-18T11:00:00.000Z", "until": "2026-11-18T11:30:00.000Z",
            "ended": text, "renewals": 3 }],
        "waiting": { "count": 2, "count_is": text, "why": text, "queue": [{ "id": text, "state": text }] },
        "lease": { "from": "2026-11-18T11:59:00.000Z", "now": "2026-11-18T12:00:00.000Z",
            "deadline": "2026-11-18T12:00:20.000Z", "lease_ms": 30_000, "left": [[1_795_003_140_000_i64, 30_000.0],
            [1_795_003_150_000_i64, null], [1_795_003_160_000_i64, 10_000.0]],
            "renewed": ["2026-11-18T11:59:50.000Z"], "due": [{ "at": "2026-11-18T11:59:55.000Z", "missed": true }] },
        "no_lease": text,
        "timeline": [{ "at": "2026-11-18T11:40:00.000Z", "key": text, "notable": text, "sentence": text }],
        "episode": { "fired": "2026-11-18T11:40:00.000Z", "until": "2026-11-18T11:50:00.000Z" },
        "episodes": [{ "number": 7, "rule": text, "severity": text, "labels": { "pattern": text }, "value": 1.0,
            "threshold": 0.0, "fired": text, "until": text, "end": text }],
        "figures": [{ "metric": text, "pattern": text, "threshold": 1.0,
            "points": [[1_795_003_140_000_i64, 3.0], [1_795_003_150_000_i64, 1.0]] }],
        "gaps": [{ "from": text, "to": null, "reason": text }],
        "actions": [{ "at": text, "user": text, "host": text, "action": text, "outcome": text, "key": text, "reason": text }],
    })
}

/// The tags of the page, without the text between them.
fn markup(page: &str) -> Vec<String> {
    page.split('<').skip(1).map(|part| part.split('>').next().unwrap_or_default().to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_string_changes_the_markup(text in "[<>&\"'a-zA-Z/=!;:(){} \\x00-\\x1f\u{202e}锁-]{1,40}") {
        prop_assert_eq!(markup(&page(&document(&text))), markup(&page(&document("plain"))));
    }
}

#[test]
fn a_script_in_every_field_is_text_and_nothing_can_be_loaded() {
    let hostile = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"'><style>@import 'http://x'</style>";
    let page = page(&document(hostile));
    for part in ["<script", "<img", "onerror=alert(1)>", "src=", "href=", "url("] {
        assert!(!page.contains(part) || part == "src=" && !page.contains("<img"), "{part}");
    }
    assert_eq!(page.matches("<style>").count(), 1);
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'"), "{page}");
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "it can be read: {page}");
}

#[test]
fn what_is_missing_or_of_another_kind_is_no_panic() {
    for document in
        [json!({}), json!(null), json!({ "lock": 3, "history": {}, "lease": { "from": 1 }, "figures": [7] })]
    {
        assert!(page(&document).ends_with("</html>\n"));
    }
}
