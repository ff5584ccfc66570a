//! The version that the program tells: with the commit and its date, from a checkout and from a tarball, and without git.

#[path = "../build.rs"]
// Its `main` is cargo's.
#[allow(dead_code)]
mod build;

use std::path::Path;
use std::process::Command;

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]);
    let output = command.args(arguments).output().expect("git");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A checkout with one commit of 3 February 2026.
fn checkout(folder: &Path) {
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    for file in [".gitattributes", "src/commit.txt"] {
        std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(file), folder.join(file)).expect("a file");
    }
    git(folder, &["init", "-q"]);
    git(folder, &["add", "."]);
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first"]);
    let dated =
        command.env("GIT_COMMITTER_DATE", "2026-02-03T12:00:00Z").env("GIT_AUTHOR_DATE", "2026-02-03T12:00:00Z");
    assert!(dated.status().expect("git").success());
}

fn is_commit_and_date(text: &str) -> bool {
    let (commit, date) = text.split_once(' ').unwrap_or_default();
    commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()) && date == "2026-02-03"
}

#[test]
fn a_checkout_and_its_tarball_tell_the_same_commit() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, there) = (folder.path().join("here"), folder.path().join("there"));
    checkout(&here);
    assert_eq!(build::archived(&here), None, "a checkout holds only the form");
    let told = build::checked_out(&here).expect("a commit");
    assert!(is_commit_and_date(&told), "{told}");
    assert_eq!(build::told("0.1.0", Some(&told)), format!("0.1.0 ({told})"));
    let watched = build::watched(&here);
    assert_eq!(watched.len(), 2, "{watched:?}");

    std::fs::create_dir(&there).expect("a folder");
    git(&here, &["archive", "-o", "../it.tar", "HEAD"]);
    let unpacked = Command::new("tar").arg("-xf").arg(folder.path().join("it.tar")).arg("-C").arg(&there).status();
    assert!(unpacked.expect("tar").success());
    assert_eq!(build::archived(&there).as_deref(), Some(&*told));
}

#[test]
fn without_git_it_is_the_bare_version() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!((build::archived(folder.path()), build::checked_out(folder.path())), (None, None));
    assert!(build::watched(folder.path()).is_empty(), "a file that does not exist makes cargo build each time");
    assert_eq!(build::told("0.1.0", None), "0.1.0");
    // Sources inside of another project's checkout are not of its commit.
    checkout(folder.path());
    let inside = folder.path().join("src");
    assert_eq!(build::checked_out(&inside), None);
}
