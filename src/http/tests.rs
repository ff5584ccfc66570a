//! Addresses and logins. Requests to real servers are in `tests/pager.rs` and `tests/own_prometheus.rs`.

use super::*;

#[test]
fn an_address_is_shown_without_its_login() {
    let base = Base::read("https://ops:s3cret%40@prom.example/prometheus/", "--prometheus").unwrap();
    assert_eq!(base.shown(), "https://prom.example/prometheus");
    assert!(!format!("{base:?}").contains("s3cret"));
    assert_eq!((base.host(), base.port(), base.prefix(), base.is_tls()), ("prom.example", 443, "/prometheus", true));
    let base = Base::read("http://[::1]:9090", "--prometheus").unwrap();
    assert_eq!((base.host(), base.authority().as_str(), base.prefix()), ("::1", "[::1]:9090", ""));
    for text in ["prom:9090", "", "ftp://x", "http://x/?a=b", "http://x/#y", "http://", "redis://:s3cret@x"] {
        let fault = Base::read(text, "--prometheus").unwrap_err();
        assert!(fault.exit_code() == 2 && fault.to_string().contains("http://127.0.0.1:9090"), "{text}: {fault}");
        assert!(!fault.to_string().contains("s3cret"), "{fault}");
    }
}

#[test]
fn secrets_are_in_the_request_and_in_no_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let base = Base::read("http://u:fromurl@h", "--prometheus").unwrap();
    let basic = Files {
        user: Some("ops".into()),
        password_file: Some(file("p", "hunter2\n")),
        headers: vec!["X-Scope-OrgID: hunter3".into()],
        ..Files::default()
    };
    let bearer = Files { bearer_file: Some(file("b", "hunter4\n")), ..Files::default() };
    for (files, expected) in
        [(basic, "Basic b3BzOmh1bnRlcjI="), (bearer, "Bearer hunter4"), (Files::default(), "Basic dTpmcm9tdXJs")]
    {
        let access = Access::read(&files).unwrap();
        assert_eq!(access.authorization(&base).unwrap().unwrap(), expected);
        let client = Client::new(base.clone(), Arc::new(access), Duration::from_secs(1));
        let request = client.request("/x", Body::None).unwrap();
        let told = format!("{client:?} {request:?}");
        assert!(["hunter", "fromurl", "b3Bz", "dTpm"].iter().all(|secret| !told.contains(secret)), "{told}");
    }
    let wrong = [
        Files { user: Some("a".into()), ..Files::default() },
        Files { password_file: Some(file("p", "x")), ..Files::default() },
        Files { bearer_file: Some(file("e", "")), ..Files::default() },
        Files { headers: vec!["secret".into()], ..Files::default() },
        Files { ca: Some(file("ca", "secret")), ..Files::default() },
        Files { cert: Some(file("cert", "secret")), ..Files::default() },
    ];
    for files in wrong {
        let fault = Access::read(&files).expect_err("wrong");
        assert!(fault.exit_code() == 2 && !fault.to_string().contains("secret"), "{fault}");
    }
}
