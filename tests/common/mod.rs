//! What the tests on real servers share: their own servers, real lock libraries, sample locks, and the binary.
//!
//! A test starts and owns what it needs: a server lives as long as its [`Server`] value and never longer than the test
//! process. Nothing here sleeps for a fixed time; [`wait_until`] waits for a condition.

// Each test binary compiles this module and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod acting;
pub mod alertmanager;
pub mod burst;
pub mod bus;
pub mod cluster;
pub mod desk;
pub mod engine;
pub mod feed;
pub mod history;
pub mod judged;
pub mod left_out;
pub mod library;
pub mod listener;
pub mod process;
pub mod program;
pub mod prometheus;
pub mod promtool;
pub mod samples;
pub mod scripted;
pub mod sentinels;
pub mod server;
pub mod serving;
pub mod tls;
pub mod watching;
pub mod worker;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

pub use cluster::Cluster;
pub use desk::{Desk, Ran};
pub use feed::Feed;
pub use left_out::{left_out, left_to_the_matrix};
pub use library::{Driver, Library, Load, Taken};
pub use listener::Listener;
pub use prometheus::Prometheus;
pub use samples::{ExpectedHolder, Sample};
pub use sentinels::Sentinels;
pub use server::Server;
pub use serving::{Answer, Serving};
pub use tls::Certificates;
pub use watching::Watching;
pub use worker::Worker;

/// Waits until `condition` holds, and fails the test with `what` after `timeout`.
#[track_caller]
pub fn wait_until(what: &str, timeout: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !condition() {
        assert!(start.elapsed() < timeout, "waited {timeout:?} in vain: {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Whether a lock is listed in this state, however wide the columns are.
pub fn row(screen: &str, state: &str, key: &str) -> bool {
    screen.lines().any(|line| {
        let mut words = line.trim_start_matches(['▌', '●', ' ']).split_whitespace();
        words.next() == Some(state) && words.find(|word| !word.starts_with('!')) == Some(key)
    })
}

/// The binary under test in an empty environment: no configuration, no targets, no user's home.
pub fn lockscope() -> assert_cmd::Command {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    // Not created: a command that keeps nothing must leave nothing behind.
    lockscope_at(&process::scratch(&format!("home-{call}")))
}

/// The same with `home` as its home, for tests whose commands share files: a config, a history, an audit trail.
pub fn lockscope_at(home: &Path) -> assert_cmd::Command {
    let mut command = assert_cmd::Command::new(binary());
    command.env_clear().envs(clean_environment(home)).timeout(Duration::from_secs(60));
    command
}

/// The same as a plain process, for commands that run while the test continues.
pub fn lockscope_process(home: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(binary());
    command.env_clear().envs(clean_environment(home)).stdin(std::process::Stdio::null());
    process::dies_with_us(&mut command);
    command
}

/// The path of the binary under test.
pub fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_lockscope"))
}

/// The environment of the binary under test.
pub fn clean_environment(home: &Path) -> Vec<(&'static str, std::ffi::OsString)> {
    let mut environment = vec![
        ("HOME", home.into()),
        ("XDG_CONFIG_HOME", home.join("config").into()),
        ("XDG_STATE_HOME", home.join("state").into()),
        ("XDG_DATA_HOME", home.join("data").into()),
        ("XDG_CACHE_HOME", home.join("cache").into()),
        ("XDG_RUNTIME_DIR", home.join("run").into()),
        ("LANG", "C.UTF-8".into()),
        ("TZ", "UTC".into()),
    ];
    environment.extend(std::env::var_os("PATH").map(|path| ("PATH", path)));
    environment
}
