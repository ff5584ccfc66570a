//! Which server program the tests start, and what its version can do.
//!
//! What an older version lacks is left out, and counted by name ([`has`]).

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::server::target_directory;

/// The server program: `LOCKSCOPE_TEST_SERVER`, else one on the PATH, else the one `scripts/ensure-server` fetched.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("LOCKSCOPE_TEST_SERVER").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path)
        .flat_map(|directory| ["redis-server", "valkey-server"].map(|name| directory.join(name)));
    let fetched = ["redis-7.0.15/redis-server", "valkey-9.1.2/valkey-server"];
    installed
        .chain(fetched.map(|program| target_directory().join("servers").join(program)))
        .find(|program| program.is_file())
        .expect("no redis-server or valkey-server here: run scripts/ensure-server, which fetches one")
}

/// Major and minor version of the server program, by its own number: Valkey's differs from Redis's.
pub fn version() -> (u32, u32) {
    static VERSION: OnceLock<(u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let output = Command::new(program()).arg("--version").output().expect("a server tells its version");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text.split_once("v=").map(|(_, rest)| rest).unwrap_or_else(|| panic!("no version in {text:?}"));
        let mut numbers = version.split(['.', ' ']).map(|number| number.parse().expect("a number of a version"));
        let mut next = || numbers.next().expect("major and minor version");
        (next(), next())
    })
}

/// Whether the server program is new enough. If not, `what` it lacks is counted as left out.
#[track_caller]
pub fn has(since: (u32, u32), what: &str) -> bool {
    let (major, minor) = version();
    if (major, minor) < since {
        super::left_out(&format!("version {major}.{minor} of the server has no {what}"));
    }
    (major, minor) >= since
}

/// Every class of events that locks need, letter by letter: `A` would leave out `n`, which came with version 7.
pub fn events() -> &'static str {
    if version() >= (7, 0) { "Kg$lshzxen" } else { "Kg$lshzxe" }
}
