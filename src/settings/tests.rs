//! Which of several sources wins, and what is refused.

use super::*;

const CONFIG: &str = r#"
    patterns = ["all:*"]
    [[dialect]]
    name = "plain"
    pattern = "job:*"
    [target.orders]
    url = "rediss://ops@orders"
    user = "watch"
    password_file = "~/pw"
    environment = "prod"
    patterns = ["orders:*"]
    read_only = true
    pace = "5%"
    tls_ca = "ca.pem"
    [target.set]
    urls = ["redis://a", "redis://b"]
"#;

fn resolve(cli: Global, env: &[(&str, &str)], config: &str) -> Result<Settings, Fault> {
    let config = Config::parse(config, Path::new("/c/config.toml")).unwrap();
    let outside = Outside {
        env: &|name| env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()),
        read: &|path| match path.to_str() {
            Some("/home/me/pw") => Ok("from-target\n".into()),
            Some("pw") => Ok("from-file\r\nsecond line\n".into()),
            Some("empty") => Ok("\n".into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
        places: &places,
        stdout_is_terminal: true,
    };
    Settings::resolve(&cli, &outside, &config)
}

fn url(text: &str) -> Global {
    Global { urls: vec![text.into()], ..Global::default() }
}

#[test]
fn the_server_comes_from_the_most_explicit_source() {
    let both = [("LOCKSCOPE_URL", "redis://ours"), ("REDIS_URL", "redis://theirs")];
    let home = ("HOME", "/home/me");
    let defaulted = format!("default_target = 'orders'\n{CONFIG}");
    for (cli, env, config, expected) in [
        (url("redis://arg"), &both[..], CONFIG, "redis://arg:6379"),
        (
            Global { target: Some("orders".into()), ..Global::default() },
            &[both[0], home][..],
            CONFIG,
            "rediss://orders:6379",
        ),
        (Global::default(), &both[..], CONFIG, "redis://ours:6379"),
        (Global::default(), &both[1..], &defaulted, "redis://theirs:6379"),
        (Global::default(), &[("REDIS_URL", ""), home], &defaulted, "rediss://orders:6379"),
        (Global::default(), &[], "", "redis://127.0.0.1:6379"),
    ] {
        assert_eq!(resolve(cli, env, config).unwrap().servers[0].shown(), expected);
    }
}

#[test]
fn a_target_brings_its_settings() {
    let cli = Global { target: Some("orders".into()), ..Global::default() };
    let settings = resolve(cli, &[("HOME", "/home/me")], CONFIG).unwrap();
    assert_eq!(settings.login.user(), Some("ops"), "the URL is nearer than 'user'");
    assert_eq!(settings.login.password().unwrap().reveal(), "from-target");
    assert_eq!(settings.environment, Some(Environment::Prod));
    assert_eq!(settings.pace, Some(PaceArg::Percent(5)));
    assert_eq!(settings.tls.ca.as_deref(), Some(Path::new("/c/ca.pem")));
    assert!(settings.read_only.is_some() && settings.patterns.is_empty());
    let extra: Vec<&str> = settings.extra_patterns.iter().map(Glob::as_str).collect();
    assert_eq!(extra, ["all:*", "orders:*"]);
    let plain = resolve(url("redis://other"), &[], CONFIG).unwrap();
    assert!(
        plain.login == Login::Default && plain.read_only.is_none(),
        "a target's password never goes to another server"
    );
}

#[test]
fn the_password_comes_from_the_most_explicit_source() {
    let env = [("LOCKSCOPE_PASSWORD", "from-env")];
    let file = |path: &str| Global { password_file: Some(path.into()), ..url("redis://:from-url@h") };
    for (cli, env, expected) in [
        (file("pw"), &env[..], "from-file"),
        (url("redis://:from-url@h"), &env[..], "from-url"),
        (url("redis://h"), &env[..], "from-env"),
    ] {
        assert_eq!(resolve(cli, env, "").unwrap().login.password().unwrap().reveal(), expected);
    }
    assert!(resolve(file("nope"), &[], "").unwrap_err().to_string().contains("can't read the password file nope"));
    assert!(resolve(file("empty"), &[], "").unwrap_err().to_string().contains("first line"));
    let settings = resolve(url("redis://:sekret@h"), &env, "").unwrap();
    assert!(!format!("{settings:?}").contains("sekret"));
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() {
    let target = |name: &str| Global { target: Some(name.into()), ..Global::default() };
    for (cli, env, part, code) in [
        (
            Global { urls: vec!["redis://a".into(), "redis://b".into()], ..Global::default() },
            &[][..],
            "not supported yet",
            2,
        ),
        (target("set"), &[], "not supported yet", 2),
        (url("redis+cluster://a/1"), &[], "only database 0", 2),
        (Global { single_node: true, ..url("redis+cluster://a") }, &[], "--single-node", 2),
        (Global { single_node: true, ..url("redis+sentinel://a:1,b:2/main") }, &[], "--single-node", 2),
        (target("order"), &[], "did you mean \"orders\"?", 2),
        (Global { write: true, ..target("orders") }, &[("HOME", "/home/me")], "read_only", 1),
        (Global { tls_ca: Some("ca".into()), ..url("redis://a") }, &[], "rediss://", 2),
        (Global { tls_cert: Some("c".into()), ..url("rediss://a") }, &[], "--tls-key", 2),
        (Global { patterns: vec!["a[".into()], ..url("redis://a") }, &[], "never closed", 2),
        (Global { dialects: vec!["plian=x".into()], ..url("redis://a") }, &[], "did you mean \"plain\"", 2),
        (Global::default(), &[("REDIS_URL", "http://x")], "REDIS_URL: there is no URL scheme", 2),
    ] {
        let fault = resolve(cli, env, CONFIG).unwrap_err();
        assert!(fault.to_string().contains(part), "{fault}");
        assert_eq!(fault.exit_code(), code, "{fault}");
    }
}

#[test]
fn colour_needs_a_terminal_and_nobody_against_it() {
    assert!(resolve(Global::default(), &[], "").unwrap().color);
    assert!(resolve(Global::default(), &[("NO_COLOR", "")], "").unwrap().color, "an empty NO_COLOR is none");
    assert!(!resolve(Global::default(), &[("NO_COLOR", "1")], "").unwrap().color);
    assert!(!resolve(Global::default(), &[("TERM", "dumb")], "").unwrap().color);
    assert!(!resolve(Global { no_color: true, ..Global::default() }, &[], "").unwrap().color);
}

#[test]
fn mappings_of_the_command_line_come_first() {
    let cli = Global { dialects: vec!["plain=mine:*".into()], ..url("redis://a") };
    let globs: Vec<String> =
        resolve(cli, &[], CONFIG).unwrap().mappings.iter().map(|mapping| mapping.glob.as_str().into()).collect();
    assert_eq!(globs, ["mine:*", "job:*"]);
}

#[test]
fn talk_has_four_steps() {
    let talk = |quiet, verbose| resolve(Global { quiet, verbose, ..Global::default() }, &[], "").unwrap().talk;
    assert_eq!(
        [talk(true, 0), talk(false, 0), talk(false, 1), talk(false, 5)],
        [Talk::Quiet, Talk::Normal, Talk::Verbose, Talk::Loud]
    );
    assert!(Talk::Quiet < Talk::Normal && Talk::Normal < Talk::Verbose);
}
