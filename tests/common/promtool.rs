//! The promtool of a real Prometheus, which `scripts/ensure-prometheus` fetches.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use lockscope::alerts::Prometheus;

use super::server::target_directory;

/// The program: `LOCKSCOPE_PROMTOOL`, else the one that was fetched, else one on the PATH. `None`, counted as left out, if
/// there is none.
#[track_caller]
pub fn promtool() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("LOCKSCOPE_PROMTOOL").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    let fetched = target_directory().join("servers/prometheus-2.42/promtool");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|directory| directory.join("promtool"));
    let found = std::iter::once(fetched).chain(installed).find(|program| program.is_file());
    if found.is_none() {
        super::left_out("there is no promtool: run scripts/ensure-prometheus, which fetches one");
    }
    found
}

/// Runs it in this folder.
pub fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).current_dir(folder).output().expect("promtool runs")
}

/// Which Prometheus it belongs to.
pub fn version(program: &Path) -> Prometheus {
    let output = run(program, Path::new("."), &["--version"]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let number = text.split_once("version ").map(|(_, rest)| rest).unwrap_or_else(|| panic!("no version in {text:?}"));
    let mut parts = number.split(['.', '+', ' ']).map(|part| part.parse::<u32>().unwrap_or_default());
    match (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) {
        (major, _) if major >= 3 => Prometheus::Since3,
        (2, minor) if minor >= 51 => Prometheus::Before3,
        _ => Prometheus::Before2_51,
    }
}
