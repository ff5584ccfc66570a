//! What `make demo` and `make test` fetch is pinned: a file with another checksum is not used, and nothing is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Whether `scripts/fetch.sh` takes a file.
fn taken(file: &Path, target: &Path) -> bool {
    let line = format!(". scripts/fetch.sh && pinned '{}'", file.display());
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(root()).env("CARGO_TARGET_DIR", target).env_remove("LOCKSCOPE_PIN");
    command.output().expect("bash").status.success()
}

#[test]
fn a_download_with_another_checksum_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let pins = std::fs::read_to_string(root().join("scripts/servers.sha256")).expect("the list of checksums");
    let (_, name) = pins.lines().next().and_then(|line| line.split_once("  ")).expect("a checksum and a name");
    let forged = folder.path().join(name);
    std::fs::write(&forged, "something else").expect("a file");
    assert!(!taken(&forged, folder.path()), "{name} with other bytes");
    let unknown = folder.path().join("redis-server_99_amd64.deb");
    std::fs::write(&unknown, "").expect("a file");
    assert!(!taken(&unknown, folder.path()), "a version that is not in the list");
    assert_eq!(std::fs::read_to_string(root().join("scripts/servers.sha256")).expect("the list"), pins);
}

#[test]
fn every_version_that_the_scripts_ask_for_has_a_checksum() {
    let pins = std::fs::read_to_string(root().join("scripts/servers.sha256")).expect("the list of checksums");
    let mut asked = 0;
    for script in ["ensure-server", "ensure-matrix", "ensure-cli"] {
        let text = std::fs::read_to_string(root().join("scripts").join(script)).expect("a script");
        for word in text.split_whitespace() {
            let Some((package, version)) = word.split_once("==") else { continue };
            asked += 1;
            let wheel = format!("  {}-{version}-", package.replace('-', "_"));
            assert!(pins.contains(&wheel), "{script} asks for {word}, which has no checksum");
        }
    }
    assert!(asked >= 6, "only {asked} wheels are asked for");
    let wanted = std::fs::read_to_string(root().join("tests/libs/requirements.txt")).expect("the Python libraries");
    for library in wanted.replace("\\\n", " ").lines().filter(|line| line.contains("==")) {
        assert!(library.contains("--hash=sha256:"), "{library}");
    }
}

#[test]
fn no_script_installs_into_the_system() {
    for entry in std::fs::read_dir(root().join("scripts")).expect("the scripts") {
        let path = entry.expect("a script").path();
        let text = std::fs::read_to_string(&path).expect("a script");
        for word in ["apt-get install", "apt install", "policy-rc.d", "systemctl", "update-rc.d", "sudo "] {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
}
