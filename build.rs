//! Tells the program its version: `0.1.0 (dcb2780 2026-11-18)`, with the commit it was built from and that commit's date.
//!
//! Only release builds ask git, and only when the commit changed: a development build would otherwise be compiled anew after
//! every commit. A tarball made by `git archive` has both in `src/commit.txt`. Without either it is the bare version.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/commit.txt");
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where it is"));
    let version = std::env::var("CARGO_PKG_VERSION").expect("cargo says which version it is");
    let release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = archived(&root).or_else(|| release.then(|| checked_out(&root)).flatten());
    if release {
        for file in watched(&root) {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    println!("cargo::rustc-env=LOCKSCOPE_VERSION={}", told(&version, commit.as_deref()));
}

pub fn told(version: &str, commit: Option<&str>) -> String {
    commit.map_or_else(|| version.into(), |commit| format!("{version} ({commit})"))
}

/// The commit and its date as `git archive` wrote them.
pub fn archived(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join("src/commit.txt")).ok()?;
    let text = text.trim();
    (!text.is_empty() && !text.contains('$')).then(|| text.to_string())
}

/// The commit and its date by git, if `root` is the top of a checkout and not a folder inside of another project's.
pub fn checked_out(root: &Path) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    (top.canonicalize().ok()? == root.canonicalize().ok()?)
        .then(|| git(root, &["log", "-1", "--format=%h %cs"]))
        .flatten()
}

/// The files that change with every commit and checkout. A file that does not exist would make cargo ask each time.
pub fn watched(root: &Path) -> Vec<PathBuf> {
    let paths = ["HEAD", "logs/HEAD"].iter().filter_map(|name| git(root, &["rev-parse", "--git-path", name]));
    paths.map(|path| root.join(path)).filter(|path| path.exists()).collect()
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string()).filter(|text| !text.is_empty())
}
