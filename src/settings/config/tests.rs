//! Config files as people write them, right and wrong.

use super::*;

fn parse(text: &str) -> Result<Config, Fault> {
    Config::parse(text, Path::new("/etc/ls/config.toml"))
}

#[test]
fn everything_in_a_file_is_read() {
    let config = parse(
        r#"
        default_target = "orders"
        patterns = ["a:*", "b:*"]
        most_patterns = 1000
        [[dialect]]
        name = "plain"
        pattern = "job:*"
        [target.orders]
        url = "rediss://ops@cache:6380/2"
        user = "watch"
        password_file = "pw"
        environment = "prod"
        patterns = ["o:*"]
        read_only = true
        pace = "5%"
        tls_ca = "/abs/ca.pem"
        [target.other]
        urls = ["redis://other"]
        "#,
    )
    .unwrap();
    assert_eq!((config.patterns.len(), config.mappings.len(), config.targets.len()), (2, 1, 2));
    assert_eq!(config.most_patterns, Some(1_000));
    let orders = config.target("orders").unwrap();
    assert_eq!(orders.urls[0].shown(), "rediss://cache:6380/2");
    assert_eq!(orders.password_file.as_deref(), Some(Path::new("/etc/ls/pw")), "beside the config file");
    assert_eq!(orders.tls_ca.as_deref(), Some(Path::new("/abs/ca.pem")));
    assert_eq!((orders.environment, orders.pace), (Some(Environment::Prod), Some(PaceArg::Percent(5))));
    assert!(orders.read_only && !orders.tls_insecure);
}

#[test]
fn a_mistake_is_told_with_file_line_and_fix() {
    for (text, number, part) in [
        ("paterns = []", 1, "\"paterns\" is not a key of the top level; did you mean \"patterns\"?"),
        ("\n[target.a]\nurl = 'redis://h'\nred_only = true", 4, "not a key of [target.a]; did you mean \"read_only\"?"),
        ("[[dialect]]\nname='plain'\nglob='x'", 3, "not a key of [dialect]; its keys are name, pattern"),
        ("patterns = 'a:*'", 1, "a list of texts"),
        ("patterns = [\n1]", 2, "not a number"),
        ("patterns = ['a[']", 1, "never closed"),
        ("default_target = 3", 1, "a text in quotes, not a number"),
        ("default_target = 'ab'\n[target.abc]\nurl='redis://h'", 1, "did you mean \"abc\"?"),
        ("target = 'x'", 1, "[target.NAME]"),
        ("target.x = 'y'", 1, "[target.NAME]"),
        ("dialect = 'x'", 1, "[[dialect]]"),
        ("[[dialect]]\nname = 'plian'\npattern = 'x:*'", 2, "did you mean \"plain\"?"),
        ("[[dialect]]\nname = 'plain'", 1, "has no \"pattern\""),
        ("[target.a]\nuser = 'x'", 1, "has no \"url\""),
        ("[target.a]\nurl = 'redis://h'\nurls = ['redis://i']", 2, "not both"),
        ("[target.a]\nurl = 'localhost'", 2, "write redis://"),
        ("[target.a]\nurl = 'redis://h'\nread_only = 'yes'", 3, "true or false, without quotes"),
        ("[target.a]\nurl = 'redis://h'\nenvironment = 'live'", 3, "prod, staging or dev"),
        ("[target.a]\nurl = 'redis://h'\npace = 'slow'", 3, "1% to 100%"),
        ("most_patterns = 0", 1, "a whole number from 1 to 1000, not 0"),
        ("most_patterns = 1001", 1, "a whole number from 1 to 1000, not 1001"),
        ("\nmost_patterns = -5", 2, "a whole number from 1 to 1000, not -5"),
        ("most_patterns = 2.5", 1, "a whole number from 1 to 1000, not 2.5"),
        ("most_patterns = '200'", 1, "\"most_patterns\" has to be a number, without quotes, not a text"),
        ("most_paterns = 200", 1, "did you mean \"most_patterns\"?"),
        ("a = \n", 1, "not valid TOML"),
        ("a = 'x'\na = 'y'", 2, "not valid TOML"),
    ] {
        let fault = parse(text).unwrap_err();
        let sentence = fault.to_string();
        assert!(sentence.starts_with(&format!("/etc/ls/config.toml line {number}: ")), "{text}: {sentence}");
        assert!(sentence.contains(part), "{text}: {sentence}");
        assert!(!sentence.contains('\n') && fault.exit_code() == 2);
    }
}

#[test]
fn a_password_in_a_wrong_url_is_not_quoted() {
    for text in [
        "[target.a]\nurl = 'redis://:sekret@h:x'",
        "[target.a]\nurl = 'redis://:sekret@h",
        "url = ['redis://:sekret@h' 1]",
    ] {
        let sentence = parse(text).unwrap_err().to_string();
        assert!(!sentence.contains("sekret"), "{sentence}");
    }
}

#[test]
fn an_unknown_target_names_the_nearest() {
    let config = parse("[target.orders]\nurl = 'redis://h'").unwrap();
    assert!(config.target("order").unwrap_err().to_string().contains("did you mean \"orders\"?"));
    assert!(Config::default().target("x").unwrap_err().to_string().contains("config template"));
}

#[test]
fn the_template_is_a_valid_config_with_every_key_in_it() {
    assert!(parse(TEMPLATE).unwrap().targets.is_empty(), "as it is printed it changes nothing");
    let setting =
        |line: &str| line.strip_prefix('#').filter(|rest| !rest.starts_with([' ', '#'])).unwrap_or("").to_string();
    let text: String = TEMPLATE.lines().map(setting).collect::<Vec<_>>().join("\n");
    let config = parse(&text).unwrap();
    assert_eq!(config.default_target.as_deref(), Some("orders"));
    for key in TOP.iter().chain(DIALECT).chain(TARGET).filter(|key| **key != "urls") {
        assert!(text.contains(key), "{key} is not in the template");
    }
}

#[test]
fn a_named_file_has_to_be_there() {
    let fault = Config::load(Some(Path::new("/nonexistent/x.toml"))).unwrap_err();
    assert!(fault.to_string().contains("config template") && fault.exit_code() == 2);
}

#[test]
fn findings_are_silenced_and_tuned_for_all_and_for_one_server() {
    let text = "[findings]\nsilence = ['starving']\nlong.times = 7\n[target.a]\nurl = 'redis://h'\n\
                [target.a.findings]\nsilence = ['outlived']\nlong = { times = 2.5, holds = 50 }\n";
    let config = parse(text).unwrap();
    let everywhere = tuned(config.findings.iter());
    assert!(everywhere.is_silenced("starving") && !everywhere.is_silenced("outlived"));
    assert_eq!((everywhere.long_times, everywhere.long_holds), (7.0, 20.0));
    let here = tuned(config.findings.iter().chain(&config.targets["a"].findings));
    assert!(here.is_silenced("starving") && here.is_silenced("outlived"));
    assert_eq!((here.long_times, here.long_holds), (2.5, 50.0));
}

#[test]
fn a_wrong_finding_or_threshold_names_the_nearest() {
    for (text, number, part) in [
        ("[findings]\nsilence = ['starvin']", 2, "there is no finding \"starvin\"; did you mean \"starving\"?"),
        ("[findings]\nlng.times = 1", 2, "\"lng\" is not a key of [findings]; did you mean \"long\"?"),
        ("[findings.long]\ntime = 1", 2, "\"time\" is not a key of [findings.long]; did you mean \"times\"?"),
        ("[findings.long]\ntimes = 'x'", 2, "has to be a number that is not negative, not a text"),
        ("[findings.long]\ntimes = -1", 2, "has to be a number that is not negative"),
        ("[findings.long]\ntimes = nan", 2, "has to be a number that is not negative"),
        ("[findings.long]\ntimes = 0x10", 2, "has to be a number"),
        ("[findings]\nlong = 3", 2, "has to be a table, not a number"),
        ("findings = 3", 1, "has to be a table"),
        ("[target.a]\nurl = 'redis://h'\nfindings.long.tmes = 1", 3, "not a key of [target.a.findings.long]"),
    ] {
        let sentence = parse(text).unwrap_err().to_string();
        assert!(sentence.starts_with(&format!("/etc/ls/config.toml line {number}: ")), "{text}: {sentence}");
        assert!(sentence.contains(part), "{text}: {sentence}");
    }
}
