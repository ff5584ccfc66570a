//! Which server program to use.

use std::path::{Path, PathBuf};

use super::NoServer;

const NAMES: [&str; 2] = ["redis-server", "valkey-server"];

/// The named program, else the first on the PATH. Absolute, since it is started in another directory.
pub fn program(named: Option<&Path>) -> Result<PathBuf, NoServer> {
    match named {
        Some(path) => absolute(path).filter(|path| is_program(path)).ok_or_else(|| NoServer::NotAProgram(path.into())),
        None => on_path(&std::env::var_os("PATH").unwrap_or_default()).ok_or(NoServer::NotFound),
    }
}

fn on_path(path: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .flat_map(|directory| NAMES.map(|name| directory.join(name)))
        .filter_map(|program| absolute(&program))
        .find(|program| is_program(program))
}

fn absolute(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_first_program_on_the_path_is_taken_and_nothing_that_cannot_run() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("first"), directory.path().join("second"));
        for place in [&first, &second] {
            fs::create_dir(place).unwrap();
        }
        fs::write(first.join("redis-server"), "not to be run").unwrap();
        let wanted = second.join("valkey-server");
        fs::write(&wanted, "").unwrap();
        fs::set_permissions(&wanted, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(on_path(&std::env::join_paths([&first, &second]).unwrap()), Some(wanted));
        assert_eq!(on_path(first.as_os_str()), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_named_in_the_error() {
        let why = program(Some(Path::new("/nowhere/redis-server"))).unwrap_err();
        assert_eq!(why.to_string(), "--server names /nowhere/redis-server, and that is not a program");
        assert!(NoServer::NotFound.to_string().contains("--server PATH"));
    }
}
