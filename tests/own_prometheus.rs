//! `lockscope tune --prometheus`: a real Prometheus with a real history, one behind TLS, a login and a prefix, and servers that
//! answer as none does.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::scripted::{Scripted, answer};
use common::server::free_port;
use common::{Certificates, Desk, Prometheus, Ran, Server, binary, process, promtool, wait_until};
use serde_json::Value;
use terminal::Terminal;

const PATIENCE: Duration = Duration::from_secs(60);
const CONFIG: &str =
    "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  evaluation_interval: 2s\nrule_files: [rules.yml]\n";
const RULES: &str = r#"
groups:
  - name: queues
    rules:
      - alert: Deep
        expr: queue_depth{q="a"} > 10 or (queue_depth{q="a"} > 3 and on (q) ALERTS{alertname="Deep", alertstate="firing"})
        for: 2s
        labels: {severity: page}
      - alert: Some
        expr: 5 <= queue_depth
        keep_firing_for: 4s
        labels: {severity: ticket, depth: '{{ $value }}'}
      - alert: Down
        expr: up == 0
      - alert: Both
        expr: queue_depth > 5 and up > 0
"#;

fn tune(url: &str, arguments: &[&str]) -> Ran {
    Desk::with_url("redis://127.0.0.1:1").run_bare(&[&["tune", "--prometheus", url], arguments].concat())
}

/// Something to scrape whose figure can be set.
fn exporter() -> (Scripted, Arc<AtomicU64>) {
    let depth = Arc::new(AtomicU64::new(0));
    let told = depth.clone();
    let exporter = Scripted::start(move |_| {
        let depth = told.load(Ordering::Relaxed);
        Some(answer(
            200,
            "text/plain; version=0.0.4",
            &format!("queue_depth{{q=\"a\"}} {depth}\nqueue_depth{{q=\"b\"}} 1\n"),
        ))
    });
    (exporter, depth)
}

fn sum(document: &Value, key: &str) -> u64 {
    document["rules"][0]["current"][key].as_u64().unwrap_or_else(|| panic!("{document}"))
}

#[test]
fn a_history_replays_as_it_was_recorded_and_says_so_first() {
    let (exporter, depth) = exporter();
    let target = exporter.url().replace("http://", "");
    let config = format!("{CONFIG}scrape_configs: [{{job_name: q, static_configs: [{{targets: ['{target}']}}]}}]\n");
    let Some(prometheus) = Prometheus::start(&config, RULES) else { return };
    let firing = |rule: &str| format!("ALERTS{{alertname=\"{rule}\", alertstate=\"firing\"}}");
    prometheus.waits_for("count_over_time(queue_depth{q=\"b\"}[1m]) > 5", true);
    for high in [20, 12, 30] {
        depth.store(high, Ordering::Relaxed);
        prometheus.waits_for(&firing("Deep"), true);
        // Between the two levels it goes on.
        depth.store(4, Ordering::Relaxed);
        prometheus.waits_for(&firing("Some"), false);
        prometheus.waits_for(&firing("Deep"), true);
        depth.store(0, Ordering::Relaxed);
        prometheus.waits_for(&firing("Deep"), false);
    }
    let url = prometheus.url();
    for rule in ["Deep", "Some"] {
        let ran = tune(&url, &["--rule", rule, "--from", "10m"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let first = ran.out.lines().nth(1).unwrap_or_default();
        assert_eq!(first, "calibration: reproduces 3 of 3 recorded firings", "{rule}: {}", ran.out);
    }
    let ran = tune(&url, &["--rule", "Deep", "--set", "above=25", "--from", "10m", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why} {} {}", ran.out, ran.err));
    assert_eq!(
        (sum(&document, "firings"), &document["rules"][0]["candidate"]["firings"]),
        (3, &1.into()),
        "{document}"
    );
    assert_eq!(document["rules"][0]["calibration"]["reproduced"], 3);
    assert!(document["rules"][0]["coverage"]["share"].as_f64().unwrap() < 0.8, "it runs for less than ten minutes");
    let gaps = document["rules"][0]["coverage"]["gaps"].as_array().unwrap();
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    the_list_says_what_can_be_tuned(&url);
    the_screen_says_the_same(&url);
    prometheus.change_rules(&RULES.replace("> 10 or", "> 1000 or"));
    wait_until("the rule to change", PATIENCE, || tune(&url, &[]).out.contains("> 1000"));
    let ran = tune(&url, &["--rule", "Deep", "--from", "10m"]);
    for part in ["reproduces 0 of 3 recorded firings", "recorded only: ", "the rule may have been another one"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

/// The tuner of the console, in a real terminal.
fn the_screen_says_the_same(url: &str) {
    let server = Server::notifying(&[]);
    let mut terminal = Terminal::start(binary().to_str().unwrap(), &["-u", &server.url()], &[]);
    terminal.wait_for("the console", |screen| screen.contains("live"));
    terminal.press(&format!(":tune --prometheus {url} --rule Dep\r"));
    terminal.wait_for("what is meant", |screen| screen.contains("did you mean \"Deep\"?"));
    // A key right after an escape would be another key.
    terminal.press("\x1b");
    terminal.wait_for("the alerts", |screen| !screen.contains("did you mean"));
    terminal.press(&format!(":tune --prometheus {url} --rule Deep --from 10m\r"));
    let screen = terminal.wait_for("the tuner", |screen| screen.contains("as it is"));
    let line = |part: &str| screen.lines().position(|line| line.contains(part));
    let calibration = line("calibration: reproduces 3 of 3 recorded firings");
    assert!(calibration.is_some() && calibration < line("% covered"), "the calibration comes first: {screen}");
    let firings = |screen: &str| {
        let row = screen.lines().rfind(|line| line.contains(" firings "))?.split_once(" firings ")?.1.to_string();
        Some(row.split_whitespace().map(String::from).collect::<Vec<_>>())
    };
    assert_eq!(firings(&screen).unwrap(), ["3"], "{screen}");
    // A page of steps: 20 and 30 are above 15, 12 is not.
    terminal.press("\x1b[5~");
    terminal.wait_for("the candidate", |screen| firings(screen).is_some_and(|row| row.len() == 2 && row[1] != "3"));
    for (key, told) in [("o", "labels are kept in stores only"), ("w", "the rule belongs to the Prometheus")] {
        terminal.press(key);
        terminal.wait_for("what it can't", |screen| screen.contains(told));
    }
    terminal.press("q");
    assert_eq!(terminal.wait_for_end().status.exit_code(), 0);
}

fn the_list_says_what_can_be_tuned(url: &str) {
    let ran = tune(url, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let encrypted = tune(&url.replace("http://", "https://"), &[]);
    assert!(encrypted.code == 2 && encrypted.err.contains("write http://"), "{} {}", encrypted.code, encrypted.err);
    for (rule, parts) in [
        ("Deep", ["> 10", "2s", "yes"]),
        ("Some", [">= 5", "0s", "yes"]),
        ("Down", ["-", "0s", "no: '=='"]),
        ("Both", ["-", "0s", "no: \"and\" joins two conditions"]),
    ] {
        let line = ran.out.lines().find(|line| line.starts_with(rule)).unwrap_or_else(|| panic!("{rule}: {}", ran.out));
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    for (arguments, part) in [
        (&["--rule", "Down"][..], "can't be tuned: '=='"),
        (&["--rule", "Dep"], "did you mean \"Deep\"?"),
        (&["--rule", "Deep", "--set", "below=3"], "set above=NUMBER"),
        (&["--rule", "Deep", "--from", "1s", "--to", "1h"], "--from has to be before"),
        (&["--set", "above=3"], "--rule"),
        (&["--store", "x"], "cannot be used with"),
    ] {
        let ran = tune(url, arguments);
        assert!(ran.code == 2 && ran.err.contains(part), "{arguments:?}: {} {}", ran.code, ran.err);
    }
}

/// A Prometheus behind TLS that wants a client certificate and a login, under a prefix.
struct Guarded {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Guarded {
    fn start() -> Option<Guarded> {
        let program = promtool::promtool()?.with_file_name("prometheus");
        if !program.is_file() {
            common::left_out("there is no prometheus beside promtool");
            return None;
        }
        let directory = process::temporary_directory();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        Certificates::generate().write_to(directory.path());
        write("other.pem", &Certificates::generate().ca);
        write("password", "test\n");
        write("wrong", "hunter2\n");
        write("prometheus.yml", "rule_files: [rules.yml]\n");
        write("rules.yml", RULES);
        // The password is "test".
        write(
            "web.yml",
            "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert\n  \
             client_ca_file: ca.pem\nbasic_auth_users:\n  ops: $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay\n",
        );
        let port = free_port();
        let child = launch(&program, directory.path(), port);
        Some(Guarded { child, port, directory })
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_string()
    }

    fn ask(&self, url: &str, files: &[(&str, &str)], user: bool) -> Ran {
        let mut arguments: Vec<String> = Vec::new();
        for (option, name) in files {
            arguments.extend([option.to_string(), self.path(name)]);
        }
        if user {
            arguments.extend(["--user".into(), "ops".into()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        tune(&url.replace("PORT", &self.port.to_string()), &arguments)
    }
}

fn launch(program: &Path, folder: &Path, port: u16) -> Child {
    let mut command = Command::new(program);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.config.file=web.yml"]);
    command.args(["--web.external-url=https://localhost/prometheus/", "--web.route-prefix=/prometheus"]);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    process::spawn(command).expect("prometheus starts")
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn tls_login_client_certificate_and_prefix_are_used_and_what_is_wrong_with_them_is_told() {
    let Some(guarded) = Guarded::start() else { return };
    const URL: &str = "https://localhost:PORT/prometheus";
    const CERTS: [(&str, &str); 3] =
        [("--tls-ca", "ca.pem"), ("--tls-cert", "client.pem"), ("--tls-key", "client.key")];
    let with = |more: &[(&'static str, &'static str)]| [&CERTS[..], more].concat();
    let right = with(&[("--password-file", "password")]);
    wait_until("the Prometheus to answer", PATIENCE, || guarded.ask(URL, &right, true).code == 0);
    let ran = guarded.ask(URL, &right, true);
    assert!(ran.out.contains("Deep"), "{}", ran.out);
    let other_ca = [("--tls-ca", "other.pem"), CERTS[1], CERTS[2], ("--password-file", "password")];
    for (url, files, user, code, part) in [
        (URL, with(&[("--password-file", "wrong")]), true, 3, "asks for a login"),
        (URL, with(&[]), false, 3, "asks for a login"),
        (URL, with(&[("--bearer-file", "wrong")]), false, 3, "asks for a login"),
        (URL, other_ca.to_vec(), true, 3, "no TLS connection"),
        (URL, vec![CERTS[0], ("--password-file", "password")], true, 3, "client certificate"),
        (URL, with(&[]), true, 2, "needs a password"),
        ("https://localhost:PORT/wrong", right.clone(), true, 2, "prefix"),
        ("http://localhost:PORT/prometheus", right.clone(), true, 2, "write https://"),
    ] {
        let ran = guarded.ask(url, &files, user);
        assert!(ran.code == code && ran.err.contains(part), "{url} {files:?}: {} {} {}", ran.code, ran.err, ran.out);
        assert_eq!(ran.err.lines().count(), 1, "one sentence: {}", ran.err);
        assert!(!ran.err.contains("hunter2") && !ran.err.contains("test\n"), "{}", ran.err);
    }
    let login = format!("https://ops:test@localhost:{}/prometheus", guarded.port);
    let mut arguments = Vec::new();
    for (option, name) in CERTS {
        arguments.extend([option.to_string(), guarded.path(name)]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_eq!(tune(&login, &arguments).code, 0, "the login of the address is used too");
}

const DEEP: &str = r#"{"status":"success","data":{"groups":[{"name":"g","interval":15,"rules":[{"type":"alerting","name":"A","query":"m > 1","duration":0,"labels":{}}]}]}}"#;

/// Rules as they should be, and this for every query.
fn with_answer(query: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static) -> Scripted {
    Scripted::start(move |asked| match asked.line.contains("/rules") {
        true => Some(answer(200, "application/json", DEEP)),
        false => query(&asked.body),
    })
}

#[test]
fn what_is_no_prometheus_is_told_in_one_sentence_with_the_fix() {
    let json = |body: &'static str| move |_: &str| Some(answer(200, "application/json", body));
    let cases: Vec<(Scripted, i32, &str)> = vec![
        (Scripted::with(403, "text/plain", "no"), 3, "does not permit it"),
        (Scripted::with(404, "text/plain", "404 page not found"), 2, "prefix"),
        (Scripted::with(200, "text/html", "<!doctype html><title>Grafana"), 2, "a web page"),
        (Scripted::with(302, "text/html", "<a href=/login>"), 2, "login page"),
        (Scripted::with(200, "application/json", "{\"data\": 7}"), 3, "is it a Prometheus?"),
        (Scripted::with(200, "application/json", "{\"data\": {\"groups\": []}}"), 2, "no alerting rules"),
        (Scripted::start(|_| Some(b"SSH-2.0-OpenSSH\r\n".to_vec())), 2, "does not speak HTTP"),
        (Scripted::start(|_| Some(Vec::new())), 3, "broke off"),
        (Scripted::start(|_| None), 3, "did not answer within 500ms"),
        (with_answer(|_| None), 3, "did not answer within 500ms"),
        (
            with_answer(|_| {
                Some(answer(
                    422,
                    "application/json",
                    r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory"}"#,
                ))
            }),
            3,
            "choose a shorter time with --from and --to",
        ),
        (
            with_answer(|_| {
                Some(answer(
                    400,
                    "application/json",
                    r#"{"status":"error","errorType":"bad_data","error":"exceeded maximum resolution of 11,000 points"}"#,
                ))
            }),
            3,
            "shorter time",
        ),
        (
            with_answer(json(
                r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"9000000"]]}]}}"#,
            )),
            2,
            "9000000 series",
        ),
        (
            with_answer(|_| {
                Some(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxyz".to_vec())
            }),
            3,
            "gzip is damaged",
        ),
    ];
    for (server, code, part) in cases {
        // Only those that never answer need a short one.
        let timeout = if part.contains("500ms") { "500ms" } else { "30s" };
        let ran = tune(&server.url(), &["--rule", "A", "--from", "1h", "--timeout", timeout]);
        assert!(ran.code == code && ran.err.contains(part), "{part}: {} {} {}", ran.code, ran.err, ran.out);
        assert_eq!(ran.err.lines().count(), 1, "one sentence: {}", ran.err);
    }
    for (url, code, part) in [
        ("http://127.0.0.1:1", 3, "nobody listens there"),
        ("http://nowhere.invalid", 3, "can't be reached"),
        ("prom:9090", 2, "http://127.0.0.1:9090"),
        ("http://user:hunter2@[", 2, "http://127.0.0.1:9090"),
    ] {
        let ran = tune(url, &[]);
        assert!(
            ran.code == code && ran.err.contains(part) && !ran.err.contains("hunter2"),
            "{url}: {} {}",
            ran.code,
            ran.err
        );
    }
}

#[test]
fn values_that_are_no_numbers_fire_nothing_and_headers_are_sent() {
    let server = with_answer(|body| {
        let start: f64 = body.split("start=").nth(1).and_then(|rest| rest.split('&').next()).unwrap().parse().unwrap();
        let values = if body.contains("count%28m") {
            format!("[[{start},\"1\"]]")
        } else if body.contains("ALERTS") {
            "[]".into()
        } else {
            format!(
                "[[{start},\"NaN\"],[{},\"+Inf\"],[{},\"NaN\"],[{},\"-Inf\"]]",
                start + 15.0,
                start + 30.0,
                start + 45.0
            )
        };
        let text = format!("{{\"data\":{{\"result\":[{{\"metric\":{{\"x\":\"y\"}},\"values\":{values}}}]}}}}");
        Some(answer(200, "application/json", &text))
    });
    let ran = tune(&server.url(), &["--rule", "A", "--from", "1h", "--json", "--header", "X-Scope-OrgID: hunter2"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(sum(&document, "firings"), 1, "infinity is above 1: {document}");
    assert!(server.asked().iter().all(|asked| asked.headers.contains("x-scope-orgid: hunter2")));
    assert!(server.asked().iter().all(|asked| asked.headers.contains("accept-encoding: gzip")));
    assert!(!ran.out.contains("hunter2") && !ran.err.contains("hunter2"));
}

#[test]
fn a_long_time_is_asked_for_in_parts_on_one_grid() {
    let server = with_answer(|_| Some(answer(200, "application/json", r#"{"data":{"result":[]}}"#)));
    let ran = tune(&server.url(), &["--rule", "A", "--from", "168h"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("does not mean that all was well"), "{}", ran.out);
    let field = |body: &str, name: &str| -> f64 {
        let rest = body.split(&format!("{name}=")).nth(1).unwrap_or_else(|| panic!("{name} in {body}"));
        rest.split('&').next().unwrap().parse().unwrap()
    };
    let mut queries: Vec<(f64, f64)> = server
        .asked()
        .iter()
        .filter(|asked| asked.body.starts_with("query=m&"))
        .map(|asked| {
            assert_eq!(field(&asked.body, "step"), 15.0);
            (field(&asked.body, "start"), field(&asked.body, "end"))
        })
        .collect();
    // Two are under way at a time.
    queries.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(queries.len(), 5, "a week has 40,320 evaluations: {queries:?}");
    for (start, end) in &queries {
        let millis = ((start - queries[0].0) * 1_000.0).round() as i64;
        assert!((end - start) / 15.0 < 10_000.0 && millis % 15_000 == 0, "{queries:?}");
    }
    for pair in queries.windows(2) {
        assert_eq!((pair[1].0 - pair[0].1).round(), 15.0, "no evaluation is missing and none is asked for twice");
    }
}
