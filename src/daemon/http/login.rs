//! Basic authentication: one user and password from a file. They are compared in constant time, and never shown.

use std::hint::black_box;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::fault::Fault;
use crate::base::secret::Secret;

/// `user:password`, as a client must send it.
pub struct Login(Secret);

impl Login {
    /// From the first line of a file.
    pub fn read(path: &Path) -> Result<Login, Fault> {
        let text = std::fs::read_to_string(path)
            .map_err(|why| Fault::usage(format!("can't read --auth-file {}: {why}", path.display())))?;
        let line = text.lines().next().unwrap_or_default();
        match line.split_once(':') {
            Some((user, password)) if !user.is_empty() && !password.is_empty() => Ok(Login(Secret::new(line))),
            _ => Err(Fault::usage(format!("--auth-file {} needs user:password in its first line", path.display()))),
        }
    }

    /// Whether a request's `Authorization` is this login.
    pub fn admits(&self, authorization: Option<&[u8]>) -> bool {
        let sent = authorization.and_then(|header| {
            let (scheme, rest) = header.split_at_checked("Basic ".len())?;
            scheme.eq_ignore_ascii_case(b"Basic ").then(|| STANDARD.decode(rest.trim_ascii()).ok())?
        });
        sent.is_some_and(|sent| same(&sent, self.0.reveal().as_bytes()))
    }
}

/// Compares in a time that does not depend on where the two differ.
fn same(sent: &[u8], secret: &[u8]) -> bool {
    let differ = |(at, byte): (usize, &u8)| sent.get(at).copied().unwrap_or_default() ^ byte;
    let differences = secret.iter().enumerate().map(differ).fold(0, |all, one| black_box(all | one));
    differences == 0 && sent.len() == secret.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(line: &str) -> Login {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), line).unwrap();
        Login::read(file.path()).unwrap_or_else(|fault| panic!("{fault}"))
    }

    #[test]
    fn only_the_whole_login_is_admitted() {
        let login = login("prom:s3:cret\nsecond line");
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text)).into_bytes();
        assert!(login.admits(Some(&basic("prom:s3:cret"))));
        assert!(login.admits(Some(&[b"basic ", STANDARD.encode("prom:s3:cret").as_bytes()].concat())));
        for wrong in ["", "prom", "prom:", "prom:s3:cre", "prom:s3:cret\0", "prom:s3:creT", "Prom:s3:cret"] {
            assert!(!login.admits(Some(&basic(wrong))), "{wrong}");
        }
        for wrong in [None, Some(&b""[..]), Some(b"Basic"), Some(b"Basic !!!"), Some(b"Bearer cHJvbTpzMzpjcmV0")] {
            assert!(!login.admits(wrong));
        }
    }

    #[test]
    fn a_file_without_a_login_is_told_and_its_content_is_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for content in ["", "hunter2", ":hunter2", "hunter2:", "\nuser:hunter2"] {
            std::fs::write(file.path(), content).unwrap();
            let fault = Login::read(file.path()).err().expect("no login");
            assert_eq!(fault.exit_code(), 2);
            assert!(fault.to_string().contains("user:password") && !fault.to_string().contains("hunter2"), "{fault}");
        }
        assert_eq!(Login::read(Path::new("/nowhere/auth")).err().expect("no file").exit_code(), 2);
    }
}
