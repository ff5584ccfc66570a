//! The systemd unit and the scrape config of docs/alerts.md: both are tried.

mod common;

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use common::{Prometheus, Server, Serving, left_out, process};

/// The code block of that language on the page.
fn block(language: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/alerts.md");
    let page = std::fs::read_to_string(page).expect("the page on alerts");
    let (_, rest) = page.split_once(&format!("```{language}\n")).expect("a block of that language");
    rest.split_once("```").expect("an end of the block").0.to_string()
}

#[test]
fn the_unit_of_the_page_is_one_that_systemd_takes() {
    let directory = process::temporary_directory();
    // Where it is installed is not where it is now.
    let unit = block("ini").replace("/usr/bin/lockscope", env!("CARGO_BIN_EXE_lockscope"));
    let path = directory.path().join("lockscope.service");
    std::fs::write(&path, unit).unwrap();
    let Ok(output) = Command::new("systemd-analyze").arg("verify").arg(&path).output() else {
        return left_out("there is no systemd-analyze");
    };
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let about: Vec<&str> = said.lines().filter(|line| line.contains("lockscope.service")).collect();
    assert!(output.status.success() && about.is_empty(), "{said}");
}

#[test]
fn the_unit_of_the_page_starts_and_tells_systemd() {
    let server = Server::start();
    let directory = process::temporary_directory();
    let unit = block("ini");
    let started =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/lockscope serve ")).expect("its command");
    let store = directory.path().join("locks.history");
    let arguments = started.replace("/var/lib/lockscope/locks.history", store.to_str().unwrap());
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let socket = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let serving = Serving::with(&server, &arguments, &[("NOTIFY_SOCKET", &socket)]);
    let mut heard = [0; 64];
    let length = systemd.recv(&mut heard).unwrap();
    assert_eq!(&heard[..length], b"READY=1");
    assert!(serving.metrics().contains("lockscope_store_size_bytes"));
    assert!(serving.end(libc::SIGTERM).0.success());
}

#[test]
fn the_scrape_config_of_the_page_scrapes() {
    let server = Server::start();
    let serving = Serving::start(&server, &[]);
    let config = block("yaml").replace("127.0.0.1:9190", serving.address());
    let Some(prometheus) = Prometheus::start(&config, "") else { return };
    prometheus.waits_for("lockscope_up == 1", true);
    let targets = prometheus.targets().to_string();
    assert!(targets.contains("\"health\":\"up\"") && targets.contains("\"lastError\":\"\""), "{targets}");
}
