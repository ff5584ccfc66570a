//! The page of an incident: one file that opens anywhere, offline, without a script. It is drawn from the JSON alone.
//!
//! The order is that of the questions: what is it, why, which rule fired, who held it and who waited, what happened when, what was
//! done, on which server.

use serde_json::Value;

use super::html::Html;
use super::picture;

/// Nothing is loaded and nothing runs; only the style in the page itself applies.
const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
    base-uri 'none'; form-action 'none'\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta name=\"color-scheme\" content=\"light dark\"><meta name=\"referrer\" content=\"no-referrer\"><style>";
const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn page(document: &Value) -> String {
    let mut html = Html::default();
    let headline = text(&document["headline"]);
    html.tag(HEAD).tag(STYLE).tag("</style><title>").text(&headline).tag("</title></head><body><main><h1>");
    html.text(&headline).tag("</h1>");
    sentences(&mut html, document);
    rules(&mut html, document);
    figures(&mut html, document);
    lease(&mut html, document);
    waiting(&mut html, document);
    timeline(&mut html, document);
    holders(&mut html, document);
    actions(&mut html, document);
    server(&mut html, document);
    html.tag("<p class=\"dim\">Written by lockscope ").text(&text(&document["version"])).tag(" at ");
    html.text(&text(&document["at"])).tag(". ");
    if document["redacted"] == true {
        html.tag("Tokens and values were left out; each holder has a name of its own instead.");
    }
    html.tag(" incident.json beside this page has the same for programs.</p></main></body></html>\n");
    html.finish()
}

/// A value as it is read: a text without its quotes, nothing for `null`.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn sentences(html: &mut Html, document: &Value) {
    html.tag("<ul>");
    for sentence in list(&document["sentences"]) {
        html.tag("<li>").text(&text(sentence)).tag("</li>");
    }
    html.tag("</ul>");
}

/// A table; one without rows is left out.
fn table(html: &mut Html, heads: &[&'static str], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    html.tag("<div class=\"scroll\"><table><tr>");
    for head in heads {
        html.tag("<th>").tag(head).tag("</th>");
    }
    html.tag("</tr>");
    for row in rows {
        html.tag("<tr>");
        for cell in row {
            html.tag("<td>").text(cell).tag("</td>");
        }
        html.tag("</tr>");
    }
    html.tag("</table></div>");
}

fn rules(html: &mut Html, document: &Value) {
    let episodes = list(&document["episodes"]);
    if episodes.is_empty() {
        return;
    }
    html.tag("<h2>Rules that fired</h2>");
    let row = |episode: &Value| {
        let labels = episode["labels"].as_object().into_iter().flatten().filter(|(name, _)| *name != "target");
        let labels: Vec<String> = labels.map(|(name, value)| format!("{name} {}", text(value))).collect();
        let until = match episode["end"].as_str() {
            Some("over") => text(&episode["until"]),
            Some("firing") => format!("still, at {}", text(&episode["until"])),
            _ => format!("not seen; recorded until {}", text(&episode["until"])),
        };
        let level = format!("{} (threshold {})", text(&episode["value"]), text(&episode["threshold"]));
        let rule = format!("{} ({})", text(&episode["rule"]), text(&episode["severity"]));
        vec![text(&episode["number"]), rule, labels.join(", "), text(&episode["fired"]), until, level]
    };
    let rows: Vec<Vec<String>> = episodes.iter().map(row).collect();
    table(html, &["Episode", "Rule", "About", "Fired", "Until", "Value"], &rows);
}

fn figures(html: &mut Html, document: &Value) {
    for figure in list(&document["figures"]) {
        let mut drawn = Html::default();
        if picture::figure(&mut drawn, figure, &document["episode"]) {
            html.tag("<h2>").text(&text(&figure["metric"]));
            for (before, field) in [(" within ", "window"), (" of ", "pattern")] {
                if figure[field].as_str().is_some_and(|text| !text.is_empty()) {
                    html.tag(before).text(&text(&figure[field]));
                }
            }
            html.tag("</h2>");
            html.append(drawn);
        }
    }
    if !list(&document["gaps"]).is_empty() {
        let row = |gap: &Value| {
            let to = if gap["to"].is_null() { "still".to_string() } else { text(&gap["to"]) };
            vec![text(&gap["from"]), to, text(&gap["reason"])]
        };
        html.tag("<h2>Not recorded</h2>");
        let rows: Vec<Vec<String>> = list(&document["gaps"]).iter().map(row).collect();
        table(html, &["From", "To", "Why"], &rows);
    }
}

fn lease(html: &mut Html, document: &Value) {
    if document["lock"].is_null() {
        return;
    }
    html.tag("<h2>TTL and renewals</h2>");
    if document["lease"].is_object() {
        picture::lease(html, &document["lease"]);
        html.tag("<p class=\"dim\">Green marks are renewals, a red × is one that did not come.</p>");
    } else {
        html.tag("<p>No picture: ").text(&text(&document["no_lease"])).tag(".</p>");
    }
}

/// Who waits: those in the queue, and the clients that are blocked.
fn waiting(html: &mut Html, document: &Value) {
    let (waiting, contention) = (&document["waiting"], &document["lock"]["contention"]);
    if waiting.is_null() && contention.is_null() {
        return;
    }
    html.tag("<h2>Who waited</h2>");
    let count = match waiting["count"].as_u64() {
        Some(count) => format!("{count} ({})", text(&waiting["count_is"])),
        None => "not known".into(),
    };
    html.tag("<p>Waiters: ").text(&count);
    if let Some(why) = waiting["why"].as_str() {
        html.tag("; ").text(why);
    }
    html.tag("</p>");
    let queue = list(&waiting["queue"]).iter().map(|waiter| vec![text(&waiter["id"]), text(&waiter["state"])]);
    table(html, &["In the queue", "State"], &queue.collect::<Vec<_>>());
    let blocked = list(&contention["blocked_clients"]).iter().map(|client| {
        let name = Some(text(&client["name"])).filter(|name| !name.is_empty()).map(|name| format!(" ({name})"));
        (format!("{}{}", text(&client["address"]), name.unwrap_or_default()), client["blocked_ms"].as_u64())
    });
    let blocked: Vec<(String, Option<u64>)> = blocked.collect();
    if !blocked.is_empty() {
        picture::waiters(html, &blocked);
    }
}

fn timeline(html: &mut Html, document: &Value) {
    let entries = list(&document["timeline"]);
    html.tag("<h2>What happened</h2>");
    if entries.is_empty() && list(&document["history"]).is_empty() {
        html.tag("<p>Nothing notable was seen.</p>");
        return;
    }
    picture::story(html, document);
    let row = |entry: &Value| {
        let change = match (entry["from"].as_str(), entry["to"].as_str()) {
            (Some(from), Some(to)) => format!("{from} → {to}"),
            _ => text(&entry["notable"]),
        };
        vec![text(&entry["at"]), text(&entry["key"]), change, text(&entry["sentence"])]
    };
    table(html, &["At", "Lock", "What", ""], &entries.iter().map(row).collect::<Vec<_>>());
}

fn holders(html: &mut Html, document: &Value) {
    let now = list(&document["lock"]["holders"]).iter().map(|holder| {
        let client = &holder["connection"]["address"];
        let place = [&holder["host"], client].map(text).into_iter().filter(|text| !text.is_empty());
        vec![text(&holder["token"]), "now".to_string(), place.collect::<Vec<_>>().join(", "), String::new()]
    });
    let before = list(&document["history"]).iter().rev().map(|hold| {
        let time = format!("{} to {}", text(&hold["since"]), text(&hold["until"]));
        let renewals = format!("{} renewals", text(&hold["renewals"]));
        vec![text(&hold["holder"]), time, text(&hold["ended"]), renewals]
    });
    let rows: Vec<Vec<String>> = now.chain(before).collect();
    if !rows.is_empty() {
        html.tag("<h2>Who held it</h2>");
        table(html, &["Holder", "When", "", ""], &rows);
    }
}

fn actions(html: &mut Html, document: &Value) {
    html.tag("<h2>What was done</h2>");
    let entries = list(&document["actions"]);
    if entries.is_empty() {
        html.tag("<p>Nothing is on record.</p>");
        return;
    }
    // What was meant is told only where the result is not on record.
    let ended = |id: &Value| entries.iter().any(|other| other["id"] == *id && other["phase"] != "intent");
    let told = entries.iter().filter(|entry| entry["phase"] != "intent" || !ended(&entry["id"]));
    let row = |entry: &Value| {
        let outcome =
            if entry["outcome"].is_null() { "begun; its result is not known".into() } else { text(&entry["outcome"]) };
        let what = format!("{} {outcome}", text(&entry["action"]));
        let who = format!("{} at {}", text(&entry["user"]), text(&entry["host"]));
        vec![text(&entry["at"]), who, what, text(&entry["key"]), text(&entry["reason"])]
    };
    table(html, &["At", "Who", "What", "Lock", "Why"], &told.map(row).collect::<Vec<_>>());
}

fn server(html: &mut Html, document: &Value) {
    html.tag("<h2>Server</h2>");
    let server = &document["server"];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for name in ["target", "url", "environment", "server"] {
        if !server[name].is_null() {
            rows.push(vec![name.to_string(), text(&server[name])]);
        }
    }
    for node in list(&server["nodes"]) {
        let facts = ["flavor", "version", "mode", "role", "stream"].map(|name| text(&node[name]));
        let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
        rows.push(vec![text(&node["name"]), facts.join(" · ")]);
    }
    table(html, &["", ""], &rows);
}

#[cfg(test)]
mod tests;
