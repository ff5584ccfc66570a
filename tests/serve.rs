//! `lockscope serve` on real servers: what it answers, to whom, and what it does when something goes wrong.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Answer, Certificates, Server, Serving, lockscope, process, wait_until};

fn alice(server: &Server) {
    server.cli(&["SET", "lock:order:1", "alice", "NX", "PX", "600000"]);
}

#[test]
fn a_lock_that_is_taken_is_in_the_metrics() {
    let server = Server::notifying(&[]);
    let serving = Serving::start(&server, &[]);
    serving.shows("lockscope_up", &[], Some(1.0));
    alice(&server);
    let labels = ["pattern=\"lock:order:*\"", "state=\"held\""];
    serving.shows("lockscope_locks", &labels, Some(1.0));
    server.cli(&["DEL", "lock:order:1"]);
    serving.shows("lockscope_locks", &labels, Some(0.0));
    serving.shows("lockscope_holds_ended_total", &["lock:order:*", "released"], Some(1.0));
    let target = format!("target=\"{}\"", server.url());
    serving.shows("lockscope_patterns", &[&target], Some(1.0));
    for metric in ["process_start_time_seconds", "process_resident_memory_bytes", "process_open_fds"] {
        assert!(serving.value(metric, &[]).is_some_and(|value| value > 0.0), "{metric}");
    }
    assert_eq!(serving.value("lockscope_build_info", &["version=\"0.1.0\""]), Some(1.0));
    assert!(!serving.metrics().contains("lockscope_failures_per_second"), "nobody counts failures without --monitor");
}

#[test]
fn the_patterns_that_rules_name_have_series_of_their_own_first() {
    let server = Server::notifying(&[]);
    for name in ["a:lock:1", "b:lock:1", "c:lock:1", "Orders:lock:1"] {
        server.cli(&["SET", name, "holder", "NX", "PX", "600000"]);
    }
    let directory = process::temporary_directory();
    let config = directory.path().join("config.toml");
    let rule =
        "[[rules]]\nname = \"Orders\"\nmetric = \"lockscope_locks\"\nselector = \"pattern:orders:*\"\nabove = 0\n";
    std::fs::write(&config, format!("most_patterns = 2\n{rule}")).unwrap();
    let serving = Serving::start(&server, &["-p", "*lock*", "--config", config.to_str().unwrap()]);
    let held = |pattern: &str| serving.value("lockscope_locks", &[&format!("pattern=\"{pattern}\""), "\"held\""]);
    wait_until("all of them are counted", Duration::from_secs(20), || held("other") == Some(2.0));
    assert_eq!(
        (serving.value("lockscope_patterns", &[]), serving.value("lockscope_patterns_folded", &[])),
        (Some(2.0), Some(2.0))
    );
    assert_eq!(held("Orders:lock:*"), Some(1.0), "it came last, and a rule names it");
    refused(
        &server,
        &["--config", &{
            std::fs::write(&config, "most_patterns = 2000\n").unwrap();
            config.to_str().unwrap().to_string()
        }],
        2,
        "a whole number from 1 to 1000, not 2000",
    );
}

#[test]
fn only_what_is_there_is_answered() {
    let server = Server::start();
    let serving = Serving::start(&server, &[]);
    let metrics = serving.request("GET", "/metrics", &["X-Prometheus-Scrape-Timeout-Seconds: 10"]);
    assert_eq!((metrics.status, &*metrics.headers["content-type"]), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let head = serving.request("HEAD", "/metrics", &[]);
    assert_eq!((head.status, &*head.body), (200, ""));
    assert!(head.headers["content-length"].parse::<usize>().unwrap() > 1_000);
    assert_eq!(serving.request("GET", "/healthz", &[]).body, "ok\n");
    for (method, path, status) in [
        ("POST", "/metrics", 405),
        ("DELETE", "/healthz", 405),
        ("OPTIONS", "/metrics", 405),
        ("GET", "/", 404),
        ("GET", "/metrics/../etc/passwd", 404),
        ("GET", "http://elsewhere/metrics", 200),
    ] {
        assert_eq!(serving.request(method, path, &[]).status, status, "{method} {path}");
    }
    assert_eq!(serving.send(b"nonsense\r\n\r\n").status, 400);
    let body = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{}", "x".repeat(1_000));
    assert_eq!(serving.send(body.as_bytes()).status, 200, "a body that nobody asked for is not waited for");
}

#[test]
fn a_request_without_end_gets_no_room() {
    let server = Server::start();
    let serving = Serving::start(&server, &[]);
    let long = format!("X-Long: {}", "x".repeat(64 * 1024));
    assert_eq!(serving.request("GET", "/metrics", &[&long]).status, 431);
    let many: Vec<String> = (0..500).map(|n| format!("X-{n}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(serving.request("GET", "/metrics", &many).status, 431);
    let path = format!("/metrics?{}", "x".repeat(70_000));
    assert!([414, 431].contains(&serving.request("GET", &path, &[]).status));
    assert_eq!(serving.request("GET", "/healthz", &[]).status, 200);
}

#[test]
fn a_client_that_dawdles_is_dropped_and_holds_up_nobody() {
    let server = Server::start();
    let serving = Serving::start(&server, &[]);
    let mut slow: Vec<_> = (0..300).map(|_| serving.connect()).collect();
    for stream in &mut slow {
        // Those beyond the limit were closed already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow:");
    }
    assert_eq!(serving.request("GET", "/metrics", &[]).status, 200);
    let mut last = slow.pop().expect("the last one");
    let mut rest = Vec::new();
    let _ = last.read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "it is dropped: {}", String::from_utf8_lossy(&rest));
    assert_eq!(serving.request("GET", "/metrics", &[]).status, 200);
}

#[test]
fn a_hundred_scrapers_at_once_all_get_their_answer() {
    let server = Server::start();
    alice(&server);
    let serving = Serving::start(&server, &[]);
    let mut streams: Vec<_> = (0..100).map(|_| serving.connect()).collect();
    for stream in &mut streams {
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }
    for stream in &mut streams {
        assert_eq!(Answer::read(stream).status, 200);
    }
}

#[test]
fn a_stranger_gets_nothing_but_whether_it_lives() {
    let server = Server::start();
    let directory = process::temporary_directory();
    let file = directory.path().join("auth");
    std::fs::write(&file, "prom:pa:ss\n").unwrap();
    let mut serving = Serving::start(&server, &["--auth-file", file.to_str().unwrap(), "-v"]);
    let refused = serving.request("GET", "/metrics", &[]);
    assert_eq!((refused.status, &*refused.headers["www-authenticate"]), (401, "Basic realm=\"lockscope\""));
    // prom:wrong, prom:pa:ss
    assert_eq!(serving.request("GET", "/metrics", &["Authorization: Basic cHJvbTp3cm9uZw=="]).status, 401);
    assert_eq!(serving.request("GET", "/metrics", &["Authorization: Basic cHJvbTpwYTpzcw=="]).status, 200);
    assert_eq!(serving.request("GET", "/nothing", &[]).status, 401);
    assert_eq!(serving.request("GET", "/healthz", &[]).status, 200);
    serving.says("watching");
    let (status, said) = serving.end(libc::SIGTERM);
    assert!(status.success() && !said.contains("pa:ss") && !said.contains("cHJv"), "{said}");
}

#[test]
fn it_speaks_tls_with_the_certificate_that_it_was_given() {
    let server = Server::start();
    let directory = process::temporary_directory();
    let certificates = Certificates::generate();
    certificates.write_to(directory.path());
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let serving = Serving::start(&server, &["--listen-cert", &path("server.pem"), "--listen-key", &path("server.key")]);
    let mut roots = rustls::RootCertStore::empty();
    let ca = <rustls::pki_types::CertificateDer as rustls::pki_types::pem::PemObject>::from_pem_slice(
        certificates.ca.as_bytes(),
    );
    roots.add(ca.unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = std::sync::Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let client = rustls::ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
    let mut stream = rustls::StreamOwned::new(client, serving.connect());
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = Answer::read(&mut stream);
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("lockscope_up"));
    assert_eq!(serving.request("GET", "/metrics", &[]).status, 0, "no answer without TLS");
}

/// Runs `serve` with what it must refuse at once.
#[track_caller]
fn refused(server: &Server, arguments: &[&str], code: i32, part: &str) {
    let output = lockscope().args(["serve", "-u", &server.url()]).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(part) && said.lines().count() == 1, "{arguments:?}: {said}");
}

#[test]
fn what_is_wrong_at_the_start_is_one_sentence() {
    let server = Server::start();
    let directory = process::temporary_directory();
    let certificates = Certificates::generate();
    certificates.write_to(directory.path());
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    let (cert, key, other_key) = (path("server.pem"), path("server.key"), path("client.key"));
    std::fs::write(path("empty"), "").unwrap();
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().to_string();
    refused(&server, &["--listen", &port], 3, "is in use by another program; choose another address with --listen");
    refused(&server, &["--listen", "0.0.0.0:0"], 2, "--public");
    refused(&server, &["--listen", "[::]:0"], 2, "--auth-file");
    refused(&server, &["--listen", "203.0.113.7:9190", "--public"], 3, "no address of this machine");
    refused(&server, &["--listen", "9190"], 2, "127.0.0.1:9190");
    refused(&server, &["--listen-cert", &cert], 2, "--listen-key");
    refused(&server, &["--listen-cert", &path("empty"), "--listen-key", &key], 2, "no certificate in PEM form");
    refused(&server, &["--listen-cert", &cert, "--listen-key", &cert], 2, "no private key");
    refused(&server, &["--listen-cert", &cert, "--listen-key", &other_key], 2, "can't be used together");
    refused(&server, &["--listen-cert", &path("none"), "--listen-key", &key], 2, "--listen-cert");
    refused(&server, &["--auth-file", &path("empty")], 2, "user:password in its first line");
    refused(&server, &["--auth-file", &path("none")], 2, "--auth-file");
}

#[test]
fn a_public_address_is_served_when_that_is_meant() {
    let server = Server::start();
    let serving = Serving::start(&server, &["--public", "--listen", "0.0.0.0:0"]);
    assert_eq!(serving.request("GET", "/healthz", &[]).status, 200);
}

#[test]
fn a_server_that_pauses_or_dies_is_down_and_comes_back() {
    let mut server = Server::notifying(&[]);
    alice(&server);
    let mut serving = Serving::start(&server, &[]);
    let held = ["pattern=\"lock:order:*\"", "state=\"held\""];
    serving.shows("lockscope_locks", &held, Some(1.0));
    server.pause();
    serving.shows("lockscope_up", &[], Some(0.0));
    serving.shows("lockscope_locks", &held, None);
    server.resume();
    serving.shows("lockscope_up", &[], Some(1.0));
    serving.says(" answers again: watching ");
    serving.shows("lockscope_inventory_complete", &[], Some(1.0));
    serving.shows("lockscope_locks", &held, Some(1.0));
    server.kill();
    serving.shows("lockscope_up", &[], Some(0.0));
    serving.shows("lockscope_locks", &held, None);
    assert_eq!(serving.request("GET", "/healthz", &[]).status, 200, "lockscope itself is well");
    server.restart();
    serving.shows("lockscope_up", &[], Some(1.0));
    alice(&server);
    serving.shows("lockscope_locks", &held, Some(1.0));
}

/// In seconds.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn a_server_that_stops_answering_is_noticed_before_its_connection_is_given_up() {
    let server = Server::notifying(&[]);
    alice(&server);
    let mut serving = Serving::start(&server, &[]);
    let held = ["pattern=\"lock:order:*\"", "state=\"held\""];
    serving.shows("lockscope_locks", &held, Some(1.0));
    serving.shows("lockscope_blind_since_timestamp_seconds", &[], None);
    let before = now();
    server.pause();
    let paused = now();
    serving.shows("lockscope_up", &[], Some(0.0));
    let since = serving.value("lockscope_blind_since_timestamp_seconds", &[]).expect("it says since when");
    assert!(
        (before - 10.0..=paused + 0.5).contains(&since),
        "the last answer, not when it was noticed: {since} {paused}"
    );
    serving.shows("lockscope_locks", &held, None);
    serving.shows("lockscope_inventory_complete", &[], Some(0.0));
    serving.says("does not answer since ");
    assert!(!serving.story().contains("reconnecting"), "the connection is kept: {}", serving.story());
    server.resume();
    serving.shows("lockscope_up", &[], Some(1.0));
    serving.shows("lockscope_locks", &held, Some(1.0));
    serving.shows("lockscope_blind_since_timestamp_seconds", &[], None);
    assert_eq!(serving.value("lockscope_reconnects_total", &[]), Some(0.0), "{}", serving.story());
}

#[test]
fn systemd_is_told_and_a_signal_ends_it_in_order() {
    let server = Server::start();
    let directory = process::temporary_directory();
    let socket = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let watchdog = std::path::Path::new("30000000");
    let serving = Serving::with(&server, &[], &[("NOTIFY_SOCKET", &socket), ("WATCHDOG_USEC", watchdog)]);
    let mut heard = [0; 64];
    let mut next =
        || systemd.recv(&mut heard).map(|length| String::from_utf8_lossy(&heard[..length]).into_owned()).unwrap();
    assert_eq!([next(), next()], ["READY=1", "WATCHDOG=1"]);
    let (status, said) = serving.end(libc::SIGTERM);
    assert!(status.success(), "{said}");
    wait_until("it says that it stops", Duration::from_secs(20), || next() == "STOPPING=1");
}

#[test]
fn its_time_ends_it_too_and_every_signal_does() {
    let server = Server::start();
    let output =
        lockscope().args(["serve", "--listen", "127.0.0.1:0", "--for", "1s", "-u", &server.url()]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0), "stdout is for data");
    for signal in [libc::SIGINT, libc::SIGHUP] {
        assert!(Serving::start(&server, &[]).end(signal).0.success());
    }
}

#[test]
fn names_of_any_bytes_leave_the_text_whole() {
    let server = Server::notifying(&[]);
    let long = "x".repeat(1_000_000);
    let names: [&[u8]; 6] =
        [b"lock:a\"b", b"lock:a\\b", b"lock:a\nb", b"lock:\xff\xfe", "lock:\u{202e}锁".as_bytes(), long.as_bytes()];
    for name in names {
        server.cli(&[&b"SET"[..], name, b"holder", b"NX", b"PX", b"600000"]);
    }
    let serving = Serving::start(&server, &["-p", "lock:*", "-p", "x*"]);
    let labels = ["state=\"held\""];
    let held = || {
        let text = serving.metrics();
        let lines = text.lines().filter(|line| line.starts_with("lockscope_locks{") && line.contains(labels[0]));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>()
    };
    wait_until("all of them are held", Duration::from_secs(20), || held() == names.len() as f64);
    let text = serving.metrics();
    assert!(text.len() < 200_000, "a name of a megabyte is cut: {}", text.len());
    assert!(text.lines().all(|line| line.len() < 2_000 && !line.chars().any(char::is_control)));
}
