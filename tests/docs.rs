//! The pages under `docs/` are true: one is generated from the dialects, the others are compared with the program's
//! output.
//!
//! `LOCKSCOPE_BLESS=1 cargo test --test docs` rewrites the generated page.

mod common;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::Server;
use common::samples::{ALL, Sample};
use lockscope::base::time::{Time, Ttl};
use lockscope::dialects::{self, Dialect, Sight};
use lockscope::lock::RawValue;
use lockscope::model::{KNOBS, Knob, Seen, findings};
use lockscope::settings::keys::{self, BINDINGS, Keys, Place, Screen};
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
        let mut tokens: Vec<String> =
            self.sample.holders.iter().map(|holder| lockscope::base::text::visible(&holder.token)).collect();
        tokens.sort_by_key(|token| std::cmp::Reverse(token.len()));
        let known = tokens.iter().filter(|token| token.len() > 1);
        let text = known.fold(text.to_string(), |text, token| text.replace(token, "<holder>"));
        let ids = Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}").unwrap();
        ids.replace_all(&text, "<id>").into_owned()
    }
}

async fn kinds(server: &Server) -> Vec<Kind> {
    let mut connection = server.connection();
    let samples: Vec<(&str, Sample)> = ALL.iter().map(|(name, create)| (*name, create(&mut connection))).collect();
    let client = redis::Client::open(server.url()).unwrap();
    let mut conn = client.get_multiplexed_async_connection().await.unwrap();
    let wanted: Vec<Wanted> = samples.iter().map(|(_, sample)| Wanted { key: &sample.key, hint: None }).collect();
    let seen = look(&mut conn, &wanted).await.unwrap();
    let kind = |((name, sample), seen): ((&'static str, Sample), Option<Seen>)| match seen {
        Some(Seen::Present { value, ttl }) => Kind { name, sample, value, ttl },
        other => panic!("{name}: {other:?}"),
    };
    samples.into_iter().zip(seen).map(kind).collect()
}

/// A TTL as the library sets it: the time left, rounded up.
fn lease(ttl: Ttl) -> String {
    let Ttl::In(left) = ttl else { return "never expires".into() };
    let seconds = (left + Duration::from_millis(999)).as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
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
        let row =
            [format!("[{0}](#{0})", dialect.name()), place, types, leases, dialect.renewal().describe(Ttl::Never)];
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

/// How waiters wait for one kind of lock and how it is freed, with `KEY` for its key.
fn account(dialect: &dyn Dialect, kind: &Kind) -> String {
    let sight = kind.sight();
    let release = dialect.release(&sight);
    let plain = |text: &str| kind.plain(&text.replace(&kind.key(), "KEY"));
    let steps: Vec<String> = release.describe().iter().map(|step| format!("`{}`", plain(step))).collect();
    let mut out = format!("- Waiting: {}\n", plain(&dialect.waiting(&sight).describe()));
    let _ = writeln!(out, "- Freeing: {}", steps.join(", then "));
    for hazard in release.hazards {
        let _ = writeln!(out, "- Beware: {hazard}");
    }
    out
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
    let mut pages = vec!["README.md".to_string(), "CONTRIBUTING.md".into(), "CHANGELOG.md".into()];
    let docs = std::fs::read_dir(page("docs")).unwrap();
    pages.extend(docs.map(|entry| format!("docs/{}", entry.unwrap().file_name().to_string_lossy())));
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
fn the_readme_lists_the_keys_as_they_are() {
    let keys = keys::markdown();
    assert!(text_of("README.md").contains(&keys), "put this into the README:\n{keys}");
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
    let reading = BINDINGS.iter().filter(|binding| !binding.command.writes());
    for word in reading.filter_map(|binding| binding.footer) {
        assert!(locks.contains(word), "the footer of locks.svg has no {word}; run 'make docs'");
    }
    let shown = lockscope::model::Column::ALL.iter().map(|column| column.title()).filter(|title| *title != "LEASE");
    for title in shown.chain(["NO-TTL", "HELD", "redisson", "READ-ONLY"]) {
        assert!(locks.contains(title), "locks.svg does not show {title}; run 'make docs'");
    }
    let detail = words_of("detail");
    for word in ["ttl", "expected", "seen", "holder", "waiting", "freeing", "keys"] {
        assert!(detail.contains(word), "detail.svg does not show {word}; run 'make docs'");
    }
}
