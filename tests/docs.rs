//! The pages under `docs/` are true: one is generated from the dialects, the others are compared with the program's
//! output.
//!
//! `LOCKSCOPE_BLESS=1 cargo test --test docs` rewrites the generated page, and the tables of keys and metrics.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::Server;
use common::samples::{ALL, Sample};
use lockscope::alerts::{DEFAULT_RULES, Rules};
use lockscope::base::time::{Time, Ttl};
use lockscope::dialects::{self, Dialect, Sight};
use lockscope::lock::RawValue;
use lockscope::metrics::{self, METRICS};
use lockscope::model::{KNOBS, Knob, Seen, findings};
use lockscope::settings::keys::{self, BINDINGS, Binding, Keys, Place, Screen};
use lockscope::sources::look::{Wanted, look};
use regex::Regex;

fn page(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text_of(name: &str) -> String {
    std::fs::read_to_string(page(name)).unwrap_or_default()
}

/// A sample lock with what the server stores for it.
struct Kind {
    name: &'static str,
    sample: Sample,
    value: RawValue,
    ttl: Ttl,
}

impl Kind {
    fn sight(&self) -> Sight<'_> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        Sight {
            key: &self.sample.key,
            value: &self.value,
            ttl: self.ttl,
            now: Time(now),
            given: true,
            dialect_given: true,
        }
    }

    fn key(&self) -> String {
        lockscope::base::text::visible(&self.sample.key)
    }

    /// The text without what differs in every run, and without long ids.
    fn plain(&self, text: &str) -> String {
        let tokens = self.sample.holders.iter().map(|holder| lockscope::base::text::visible(&holder.token));
        // In the order in which the text names them: the server's own differs from run to run.
        let mut named: Vec<(usize, String)> =
            tokens.filter(|token| token.len() > 1).filter_map(|token| Some((text.find(&token)?, token))).collect();
        named.sort();
        // Told apart, so that what is done for each of two holders does not read like the same thing twice.
        let several = named.len() > 1;
        let name = |number: usize| if several { format!("<holder {}>", number + 1) } else { "<holder>".into() };
        let mut known: Vec<(String, String)> =
            named.into_iter().enumerate().map(|(number, (_, token))| (token, name(number))).collect();
        known.sort_by_key(|(token, _)| std::cmp::Reverse(token.len()));
        let text = known.iter().fold(text.to_string(), |text, (token, name)| text.replace(token, name));
        let ids = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}").unwrap();
        ids.replace_all(&text, "<id>").into_owned()
    }
}

async fn kinds(server: &Server) -> Vec<Kind> {
    let mut connection = server.connection();
    let client = redis::Client::open(server.url()).unwrap();
    let mut conn = client.get_multiplexed_async_connection().await.unwrap();
    let mut kinds = Vec::new();
    for (name, create) in ALL {
        let sample = create(&mut connection);
        // At once, before a second of its TTL has passed.
        let seen = look(&mut conn, &[Wanted { key: &sample.key, hint: None }]).await.unwrap();
        match seen.into_iter().next().flatten() {
            Some(Seen::Present { value, ttl }) => kinds.push(Kind { name, sample, value, ttl }),
            other => panic!("{name}: {other:?}"),
        }
    }
    kinds
}

/// A TTL as the library sets it: the time left, rounded up.
fn lease(ttl: Ttl) -> String {
    let Ttl::In(left) = ttl else { return "never expires".into() };
    let seconds = (left + Duration::from_millis(999)).as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds.div_ceil(60)),
        _ => format!("{}h", seconds.div_ceil(3600)),
    }
}

fn distinct(cells: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for cell in cells {
        if !seen.contains(&cell) {
            seen.push(cell);
        }
    }
    seen.join(", ")
}

fn libraries(kinds: &[Kind]) -> String {
    let mut out = String::from(
        "# Libraries\n\nHow each lock library that lockscope knows keeps its locks. This page is written from the code by\n\
         `LOCKSCOPE_BLESS=1 cargo test --test docs`; types and TTLs are those of sample locks made with the library's own\n\
         commands, and an application may use others. `KEY` is the lock's key, `<holder>` a holder's\n\
         token.\n\n\
         The name in the first column is what tables and JSON show, and what `--dialect NAME=GLOB` takes. Libraries without\n\
         a place of their own are recognised by their values under names that speak of a lock, and elsewhere where\n\
         `--pattern` points.\n\n\
         | library | where its locks live | type | TTL | renewal |\n|---|---|---|---|---|\n",
    );
    for dialect in dialects::all() {
        let own = of(*dialect, kinds);
        let patterns: Vec<String> = dialect.patterns().iter().map(|pattern| format!("`{pattern}`")).collect();
        let place = if patterns.is_empty() { "the caller's name".into() } else { patterns.join(", ") };
        let types = distinct(own.iter().map(|kind| kind.value.type_name().to_string()));
        let leases = distinct(own.iter().map(|kind| lease(kind.ttl)));
        let row = [format!("[{0}](#{0})", dialect.name()), place, types, leases, renewal(*dialect, &own)];
        let _ = writeln!(out, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    out.push_str("\nWhat waits for a lock, and what freeing it takes beyond comparing the holder, kind by kind:\n");
    for dialect in dialects::all() {
        let _ = writeln!(out, "\n## {}", dialect.name());
        // Kinds that differ only in the key are described together.
        let mut told: Vec<(String, Vec<String>)> = Vec::new();
        for kind in of(*dialect, kinds) {
            let text = account(*dialect, kind);
            let example = format!("{} (`{}`)", kind.name, kind.plain(&kind.key()));
            match told.iter_mut().find(|(other, _)| *other == text) {
                Some((_, examples)) => examples.push(example),
                None => told.push((text, vec![example])),
            }
        }
        for (text, examples) in told {
            let _ = write!(out, "\n{}:\n\n{text}", examples.join(", "));
        }
        if !dialect.facts().is_empty() {
            let facts: String = dialect.facts().iter().map(|fact| format!("- {fact}\n")).collect();
            let _ = write!(out, "\nAlso known:\n\n{facts}");
        }
    }
    out
}

/// What keeps the kinds of a library alive, those with a TTL and those without.
fn renewal(dialect: &dyn Dialect, own: &[&Kind]) -> String {
    let leased = own.iter().map(|kind| kind.ttl).find(|ttl| *ttl != Ttl::Never);
    let told = dialect.renewal().describe(leased.unwrap_or(Ttl::Never));
    match own.iter().any(|kind| kind.ttl == Ttl::Never) && leased.is_some() {
        true => format!("{told} Without a TTL it stays until it is freed."),
        false => told,
    }
}

/// How waiters wait for one kind of lock and how it is freed, with `KEY` for its key.
fn account(dialect: &dyn Dialect, kind: &Kind) -> String {
    let sight = kind.sight();
    let release = dialect.release(&sight);
    let steps: Vec<String> = release.describe().iter().map(|step| format!("`{step}`")).collect();
    let mut out = format!("- Waiting: {}\n", dialect.waiting(&sight).describe());
    let _ = writeln!(out, "- Freeing: {}", steps.join(", then "));
    for hazard in release.hazards {
        let _ = writeln!(out, "- Beware: {hazard}");
    }
    let _ = writeln!(out, "- Freed too early: {}.", dialect.if_freed().sentence());
    kind.plain(&out.replace(&kind.key(), "KEY"))
}

fn of<'a>(dialect: &dyn Dialect, kinds: &'a [Kind]) -> Vec<&'a Kind> {
    kinds.iter().filter(|kind| kind.sample.dialect == dialect.name()).collect()
}

#[tokio::test]
async fn the_page_on_libraries_is_what_the_dialects_say() {
    let server = Server::start();
    let written = libraries(&kinds(&server).await);
    if std::env::var_os("LOCKSCOPE_BLESS").is_some() {
        std::fs::write(page("docs/libraries.md"), &written).unwrap();
    }
    let kept = text_of("docs/libraries.md");
    let changed = written.lines().zip(kept.lines()).find(|(new, old)| new != old);
    assert!(
        written == kept,
        "docs/libraries.md is not what the dialects say; LOCKSCOPE_BLESS=1 cargo test --test docs writes it anew: \
         {changed:?}"
    );
}

#[test]
fn the_page_on_findings_names_each_of_them_and_its_thresholds() {
    let page = text_of("docs/findings.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let (thresholds, described): (Vec<&str>, Vec<&str>) =
        rows.into_iter().partition(|row| row.split(" | ").nth(1).is_some_and(|cell| cell.starts_with('`')));
    let name = |row: &str| row.trim_start_matches("| `").split('`').next().unwrap_or_default().to_string();
    let named: BTreeSet<String> = described.iter().map(|row| name(row)).collect();
    assert_eq!(named, findings::names().map(String::from).collect(), "the findings of docs/findings.md");
    assert_eq!(named.len(), described.len(), "a finding stands twice: {described:#?}");
    let row =
        |Knob { finding, key, what, default, .. }: &Knob| format!("| `{finding}` | `{key}` | {default} | {what} |");
    let known: Vec<String> = KNOBS.iter().map(row).collect();
    assert_eq!(thresholds, known, "the thresholds of docs/findings.md");
}

#[test]
fn the_links_between_the_pages_lead_somewhere() {
    let mut pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"].map(String::from).to_vec();
    for folder in ["docs", "docs/incidents"] {
        let entries = std::fs::read_dir(page(folder)).unwrap();
        pages.extend(entries.map(|entry| format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy())));
    }
    for name in pages.iter().filter(|name| name.ends_with(".md")) {
        let text = text_of(name);
        assert!(!text.is_empty(), "{name} is empty or missing");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if target.contains("://") {
                continue;
            }
            let file = if file.is_empty() { page(name) } else { page(name).parent().unwrap().join(file) };
            assert!(file.exists(), "{name} links to {target}");
            let headings = std::fs::read_to_string(&file).unwrap_or_default();
            let slug = |line: &str| line.trim_start_matches(['#', ' ']).to_lowercase().replace(' ', "-");
            let found = headings.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == anchor);
            assert!(anchor.is_empty() || found, "{name} links to {target}");
        }
    }
}

#[test]
fn the_page_on_screens_lists_the_keys_as_they_are() {
    let keys = keys::markdown();
    let kept = text_of("docs/screens.md");
    let (before, table) = kept.split_once("| keys | where |").expect("a table of keys");
    let after = table.find("\n\n").map_or("", |end| &table[end + 1..]);
    let written = format!("{before}{keys}{after}");
    if std::env::var_os("LOCKSCOPE_BLESS").is_some() {
        std::fs::write(page("docs/screens.md"), &written).unwrap();
    }
    assert!(
        text_of("docs/screens.md").contains(&keys),
        "LOCKSCOPE_BLESS=1 cargo test --test docs puts this into docs/screens.md:\n{keys}"
    );
}

/// The tables of metrics, as the page on alerts has them.
fn tables_of_metrics() -> [String; 2] {
    let mut all = String::from("| metric | kind | labels | |\n|---|---|---|---|\n");
    let mut derived = String::from("| metric | PromQL |\n|---|---|\n");
    for metric in METRICS {
        let kind = match metric.kind {
            metrics::Kind::Gauge => "gauge",
            metrics::Kind::Counter => "counter",
            metrics::Kind::Histogram(_) => "histogram",
            metrics::Kind::Derived => "derived",
        };
        let _ = writeln!(all, "| `{}` | {kind} | {} | {} |", metric.name, metric.labels.join(", "), metric.help);
        if metric.kind == metrics::Kind::Derived {
            let _ = writeln!(derived, "| `{}` | `{}` |", metric.name, metric.promql);
        }
    }
    [all, derived]
}

#[test]
fn the_page_on_alerts_lists_the_metrics_as_they_are() {
    let mut written = text_of("docs/alerts.md");
    for table in tables_of_metrics() {
        let header = table.lines().next().unwrap_or_default();
        let (before, rest) = written.split_once(header).expect("the table");
        let after = rest.find("\n\n").map_or("", |end| &rest[end + 1..]);
        written = format!("{before}{table}{after}");
    }
    if std::env::var_os("LOCKSCOPE_BLESS").is_some() {
        std::fs::write(page("docs/alerts.md"), &written).unwrap();
    }
    let same = text_of("docs/alerts.md") == written;
    assert!(same, "LOCKSCOPE_BLESS=1 cargo test --test docs puts the metrics into docs/alerts.md");
}

#[test]
fn the_page_on_alerts_explains_every_key_of_a_rule_and_its_example_is_one() {
    let text = text_of("docs/alerts.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let rules = Rules::parse(example).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(rules.named("OrdersWait").is_some() && rules.named("LockEvictionHazard").is_none());
    let keys = Regex::new(r"(?m)^#   ([a-z_, ]+?)  +").unwrap();
    let template =
        keys.captures_iter(DEFAULT_RULES).flat_map(|found| found[1].split(", ").map(String::from).collect::<Vec<_>>());
    let named: Vec<String> = template.collect();
    assert!(named.len() >= 14, "{named:?}");
    for key in named {
        assert!(text.contains(&format!("`{key}`")), "{key} is not explained in docs/alerts.md");
    }
}

/// The words of a picture, without its tags.
fn words_of(picture: &str) -> String {
    let tags = Regex::new("<[^>]*>").unwrap();
    tags.replace_all(&text_of(&format!("docs/pictures/{picture}.svg")), " ").into_owned()
}

#[test]
fn the_pictures_show_the_screens_as_they_are() {
    let keys = Keys::default();
    for picture in ["locks", "detail", "events", "servers"] {
        let words = words_of(picture);
        for (screen, command, tab) in Screen::TABS {
            // If many states are counted beside the tabs, the last tabs show only their keys.
            let key = keys.presses(command, Place::On(screen)).next().expect("each screen has a key");
            let shown = words.contains(tab) || picture != "locks" && words.contains(&format!(" {key} "));
            assert!(shown, "{picture}.svg has no tab {tab}; run 'make docs'");
        }
        for word in ["help", "quit"] {
            assert!(words.contains(word), "the footer of {picture}.svg has no {word}; run 'make docs'");
        }
    }
    let locks = words_of("locks");
    let here = |binding: &&Binding| binding.at.includes(Place::On(Screen::Locks));
    let reading = BINDINGS.iter().filter(here).filter(|binding| !binding.command.writes());
    for word in reading.filter_map(|binding| binding.footer) {
        assert!(locks.contains(word), "the footer of locks.svg has no {word}; run 'make docs'");
    }
    let shown = lockscope::model::Column::ALL.iter().map(|column| column.title()).filter(|title| *title != "LEASE");
    for title in shown.chain(["NO-TTL", "HELD", "redisson", "READ-ONLY"]) {
        assert!(locks.contains(title), "locks.svg does not show {title}; run 'make docs'");
    }
    let moving = text_of("docs/pictures/console.svg");
    for word in ["ORPHAN", "free it", "only if", "put it back", "@keyframes", "prefers-color-scheme:light"] {
        assert!(moving.contains(word), "console.svg does not show {word}; run 'make docs'");
    }
    let detail = words_of("detail");
    for word in ["ttl", "expected", "seen", "holder", "waiting", "freeing", "keys"] {
        assert!(detail.contains(word), "detail.svg does not show {word}; run 'make docs'");
    }
}
