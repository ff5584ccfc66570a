//! The page of an incident in a real browser: it opens from disk, asks nobody for anything, and names are text.
//!
//! `make test-browser` runs it, with the headless Chromium that scripts/ensure-browser finds.

mod common;

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Desk, Server, process, wait_until};

const HOSTILE: &[u8] = b"lock:</title><script>document.title='ran'</script><img src=http://probe.invalid/x>\"'\n\xff";

/// A browser whose every request goes to us.
struct Browser {
    program: PathBuf,
    profile: tempfile::TempDir,
    proxy: String,
    asked: Arc<AtomicUsize>,
}

impl Browser {
    fn start() -> Browser {
        let program = std::env::var_os("LOCKSCOPE_BROWSER").expect("make test-browser sets LOCKSCOPE_BROWSER").into();
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let proxy = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let mut request = [0; 1_024];
                let length = stream.read(&mut request).unwrap_or(0);
                // What the browser wants for itself is none of the page's.
                if request[..length].windows(13).any(|part| part == b"probe.invalid") {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Browser { program, profile: process::temporary_directory(), proxy, asked }
    }

    fn run(&self, page: &Path, arguments: &[&str]) -> String {
        let output = Command::new(&self.program)
            .arg(format!("--user-data-dir={}", self.profile.path().display()))
            .arg(format!("--proxy-server={}", self.proxy))
            .args(["--proxy-bypass-list=<-loopback>", "--hide-scrollbars", "--virtual-time-budget=2000"])
            .args(arguments)
            .arg(format!("file://{}", page.display()))
            .output()
            .expect("the browser runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn requests(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[test]
#[ignore = "needs a browser: make test-browser"]
fn the_page_opens_offline_and_a_script_in_a_name_is_text() {
    let browser = Browser::start();
    let directory = process::temporary_directory();
    // That a request and a script are noticed at all.
    let control = directory.path().join("control.html");
    std::fs::write(&control, "<title>x</title><img src=http://probe.invalid/x><script>document.title='ran'</script>")
        .unwrap();
    let dom = browser.run(&control, &["--dump-dom"]);
    assert!(dom.contains("<title>ran</title>"), "{dom}");
    wait_until("the control asks for its picture", Duration::from_secs(20), || browser.requests() > 0);
    let before = browser.requests();

    let server = Server::notifying(&[]);
    let desk = Desk::at(&server);
    server.cli(&[
        &b"SET"[..],
        HOSTILE,
        b"<script>document.title='ran'</script><img src=http://probe.invalid/v>",
        b"PX",
        b"60000",
    ]);
    let key = lockscope::base::text::visible(HOSTILE);
    let out = directory.path().join("out");
    let watched = std::thread::spawn({
        let mut renewer = server.connection();
        move || {
            for _ in 0..8 {
                std::thread::sleep(Duration::from_millis(700));
                let _: bool = redis::cmd("PEXPIRE").arg(HOSTILE).arg(60_000).query(&mut renewer).unwrap();
            }
        }
    });
    let ran = desk.run(&["bundle", &key, "--observe", "6s", "--reveal", "--out", out.to_str().unwrap()]);
    watched.join().unwrap();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = PathBuf::from(ran.out.trim());
    let dom = browser.run(&page, &["--dump-dom"]);
    assert!(dom.contains("<main>") && dom.contains("<svg") && !dom.contains("<script"), "{dom}");
    assert!(!dom.contains("<img") && !dom.contains("<title>ran"), "{dom}");
    assert!(dom.contains("lock:&lt;/title&gt;&lt;script&gt;document.title='ran'&lt;/script&gt;"), "{dom}");
    // To be looked at, and every request of it is over then.
    let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser");
    std::fs::create_dir_all(&pictures).unwrap();
    for (name, arguments) in [
        ("phone", &["--window-size=390,1600"][..]),
        ("light", &["--window-size=1000,1600"]),
        ("dark", &["--window-size=1000,1600", "--blink-settings=preferredColorScheme=0"]),
    ] {
        let picture = pictures.join(format!("{name}.png"));
        let shot = format!("--screenshot={}", picture.display());
        browser.run(&page, &[&[&*shot][..], arguments].concat());
        assert!(std::fs::metadata(&picture).unwrap().len() > 10_000, "{name}: there is something to see");
    }
    assert_eq!(browser.requests(), before, "no request has left the page");
}
