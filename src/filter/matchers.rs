//! Label matchers of PromQL as a selector: those that a selector can mean, exactly.
//!
//! What it makes is written again by [`Selector::promql`] and compared, so that nothing is taken for something near to it.

use super::Selector;

impl Selector {
    /// The selector that means these matchers, each a label, its operator and its text.
    pub fn of_matchers(matchers: &[(String, String, String)]) -> Result<Selector, String> {
        let mut parts = Vec::new();
        for (label, op, text) in matchers {
            parts.push(one(label, op, text).ok_or_else(|| refused(label, op, text))?);
        }
        let text = match parts.as_slice() {
            [alone] => alone.strip_prefix('(').and_then(|text| text.strip_suffix(')')).unwrap_or(alone).to_string(),
            several => several.join(" "),
        };
        let selector = Selector::parse(&text)?;
        for ((label, op, text), told) in matchers.iter().zip(selector.promql()) {
            if told != format!("{label}{op}{}", super::selector::quoted(text)) {
                return Err(refused(label, op, text));
            }
        }
        match selector.promql().len() == matchers.len() {
            true => Ok(selector),
            false => Err("a selector can't mean what is in its braces".into()),
        }
    }
}

fn refused(label: &str, op: &str, text: &str) -> String {
    match label {
        "pattern" | "node" | "target" if op == "=" || op == "!=" => format!(
            "{label}{op}{text:?} names it exactly, and a selector matches a part of a name without its case; write {label}=~\"(?i).*…*\""
        ),
        "pattern" | "node" | "target" | "state" | "finding" | "ending" | "source" => {
            format!("a selector can't mean {label}{op}{text:?}")
        }
        _ => format!("series of lockscope have no label {label:?} that a selector asks for"),
    }
}

/// The condition in the filter language; it is checked by the caller.
fn one(label: &str, op: &str, text: &str) -> Option<String> {
    let is_name = matches!(label, "pattern" | "node" | "target");
    let negated = op.starts_with('!');
    let values: Vec<String> = match op {
        "=" | "!=" if is_name => return None,
        "=" | "!=" => vec![written(text)],
        _ => {
            let text = if is_name { text.strip_prefix("(?i)")? } else { text };
            alternatives(text)?.into_iter().map(|piece| literal(&piece, is_name)).collect::<Option<_>>()?
        }
    };
    let asked: Vec<String> = values.iter().map(|value| format!("{label}:{value}")).collect();
    Some(match (asked.as_slice(), negated) {
        ([one], false) => one.clone(),
        ([one], true) => format!("not {one}"),
        (several, false) => format!("({})", several.join(" or ")),
        (_, true) => return None,
    })
}

/// Splits a regular expression at its `|`; `None` if it has brackets.
fn alternatives(regex: &str) -> Option<Vec<String>> {
    let mut found = vec![String::new()];
    let mut chars = regex.chars();
    while let Some(c) = chars.next() {
        match c {
            '|' => found.push(String::new()),
            '(' | ')' | '[' | ']' | '{' | '}' => return None,
            '\\' => found.last_mut()?.extend(['\\', chars.next()?]),
            c => found.last_mut()?.push(c),
        }
    }
    Some(found)
}

/// The value as the filter language writes it: `.*` is the `*` of a glob, everything else is literal.
fn literal(regex: &str, in_part: bool) -> Option<String> {
    // A word that may stand anywhere in a name.
    let word = regex.strip_prefix(".*").and_then(|rest| rest.strip_suffix(".*")).filter(|_| in_part);
    if let Some(word) = word.and_then(|word| plain(word, false)) {
        return Some(written(&word));
    }
    plain(regex, true)
}

fn plain(regex: &str, is_glob: bool) -> Option<String> {
    let mut out = String::new();
    let mut chars = regex.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // A star of the text itself can't be told from one of a glob.
            '\\' => out.push(chars.next().filter(|c| !(c.is_ascii_alphanumeric() || is_glob && *c == '*'))?),
            '.' if is_glob => {
                chars.next_if_eq(&'*')?;
                out.push('*');
            }
            '.' | '+' | '*' | '?' | '^' | '$' => return None,
            c => out.push(c),
        }
    }
    (!out.is_empty()).then_some(out)
}

/// A text as the filter language reads it again, not as a glob.
fn written(value: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-:./".contains(c);
    match value.chars().all(safe) {
        true => value.to_string(),
        false => format!("\"{}\"", value.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(matchers: &[[&str; 3]]) -> Result<String, String> {
        let matchers: Vec<_> = matchers.iter().map(|[a, b, c]| (a.to_string(), b.to_string(), c.to_string())).collect();
        Selector::of_matchers(&matchers).map(|selector| selector.as_str().to_string())
    }

    #[test]
    fn what_a_selector_wrote_is_read_again() {
        for text in [
            "state:split",
            "not state:split",
            "(ending:evicted or ending:flushed)",
            "pattern:order target:x",
            "pattern:lock:*",
            "not state:n*",
            "(pattern:a or pattern:b*c)",
            "pattern:\"say \"\"hi\"\" \\n (x)\"",
            "pattern:\"a.b{x}*\"",
            "node:cache-1.example:6379",
        ] {
            let selector = Selector::parse(text).unwrap();
            let matchers: Vec<(String, String, String)> = selector
                .promql()
                .iter()
                .map(|told| {
                    let ops = ["!=", "!~", "=~", "="];
                    let (at, op) = ops
                        .iter()
                        .filter_map(|op| Some((told.find(op)?, *op)))
                        .min_by_key(|(at, op)| (*at, usize::MAX - op.len()))
                        .unwrap();
                    let quoted: String = serde_json::from_str(&told[at + op.len()..]).unwrap();
                    (told[..at].to_string(), op.to_string(), quoted)
                })
                .collect();
            let again = Selector::of_matchers(&matchers).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(again.promql(), selector.promql(), "{text}");
        }
    }

    #[test]
    fn what_a_selector_can_not_mean_is_refused() {
        for (matcher, part) in [
            (["pattern", "=", "lock:order:*"], "names it exactly"),
            (["pattern", "=~", "lock.*"], "can't mean"),
            (["pattern", "=~", "(?i)lo(ck)?.*"], "can't mean"),
            (["state", "=~", "s.?lit"], "can't mean"),
            (["state", "!~", "split|orphan"], "can't mean"),
            (["state", "=", "lost?"], "no state"),
            (["job", "=", "x"], "no label \"job\""),
        ] {
            let why = of(&[matcher]).expect_err(matcher[2]);
            assert!(why.contains(part), "{matcher:?}: {why}");
        }
    }
}
