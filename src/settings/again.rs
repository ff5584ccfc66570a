//! How this session was started, as options for the next command: it leads to the same server, and shows no secret.

use std::path::PathBuf;

use super::cli::{Global, ScanOn};
use crate::base::shell::quoted;
use crate::base::text;
use crate::topology::url::ServerUrl;

/// The options as they were given, each after a space: ` -u redis://host:6379 --user anna`. What came from the
/// environment or the config comes from there again. A password in a URL is left out.
pub(super) fn again(cli: &Global, servers: &[ServerUrl]) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut option =
        |name: &str, value: &str| words.push(format!(" {name} {}", quoted(&text::visible(value.as_bytes()))));
    if cli.urls.is_empty() {
        cli.target.iter().for_each(|name| option("-t", name));
    } else {
        servers.iter().for_each(|server| option("-u", &server.shown()));
    }
    let in_url = servers.first().filter(|_| !cli.urls.is_empty()).and_then(|server| server.username.as_ref());
    cli.user.as_ref().or(in_url).into_iter().for_each(|user| option("--user", user));
    cli.sentinel_user.iter().for_each(|user| option("--sentinel-user", user));
    let files: [(&str, &Option<PathBuf>); 6] = [
        ("--password-file", &cli.password_file),
        ("--sentinel-password-file", &cli.sentinel_password_file),
        ("--tls-ca", &cli.tls_ca),
        ("--tls-cert", &cli.tls_cert),
        ("--tls-key", &cli.tls_key),
        ("--config", &cli.config),
    ];
    for (name, file) in files {
        file.iter().for_each(|file| option(name, &file.to_string_lossy()));
    }
    cli.map_hosts.iter().for_each(|pair| option("--map-host", pair));
    if cli.scan_on == Some(ScanOn::Replica) {
        words.push(" --scan-on replica".into());
    }
    if cli.single_node {
        words.push(" --single-node".into());
    }
    if cli.insecure {
        words.push(" --insecure".into());
    }
    words.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(cli: &Global) -> String {
        let servers: Vec<ServerUrl> = cli.urls.iter().map(|text| ServerUrl::parse(text).unwrap()).collect();
        again(cli, &servers)
    }

    #[test]
    fn it_is_as_the_session_was_started_and_without_a_password() {
        assert_eq!(options(&Global::default()), "", "what the environment says, it says again");
        let target = Global { target: Some("my shop".into()), ..Global::default() };
        assert_eq!(options(&target), " -t 'my shop'");
        let url = Global { urls: vec!["redis://anna:s3cret@cache:6380/2".into()], ..Global::default() };
        assert_eq!(options(&url), " -u redis://cache:6380/2 --user anna");
        let files = Global {
            urls: vec!["rediss://cache".into()],
            user: Some("bob".into()),
            password_file: Some("/run/pw".into()),
            tls_ca: Some("/etc/my ca.pem".into()),
            insecure: true,
            config: Some("c.toml".into()),
            ..Global::default()
        };
        let all = " -u rediss://cache:6379 --user bob --password-file /run/pw --tls-ca '/etc/my ca.pem' --config c.toml --insecure";
        assert_eq!(options(&files), all);
    }
}
