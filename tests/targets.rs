//! `:target NAME` in a real terminal, between real servers: what holds at one target never reaches another.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::path::PathBuf;

use common::process::temporary_directory;
use common::server::free_port;
use common::{Server, binary, wait_until};
use lockscope::store::History;
use tempfile::TempDir;
use terminal::{PATIENCE, Terminal};

/// Three servers and a config that names them.
struct Scene {
    orders: Server,
    billing: Server,
    archive: Server,
    home: TempDir,
    config: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let [orders, billing, archive] = [(); 3].map(|()| Server::notifying(&[]));
        let home = temporary_directory();
        orders.cli(&["SET", "lock:order", "worker-1", "PX", "600000"]);
        billing.cli(&["SET", "lock:bill", "worker-2", "PX", "600000"]);
        archive.cli(&["SET", "lock:old", "worker-3", "PX", "600000"]);
        let config = home.path().join("config.toml");
        let (nowhere, at) = (free_port(), |server: &Server| server.url());
        let text = format!(
            "[target.orders]\nurl = \"{}\"\nenvironment = \"dev\"\n\
             [target.billing]\nurl = \"{}\"\nenvironment = \"prod\"\n\
             [target.archive]\nurl = \"{}\"\nread_only = true\n\
             [target.nowhere]\nurl = \"redis://127.0.0.1:{nowhere}\"\n",
            at(&orders),
            at(&billing),
            at(&archive),
        );
        std::fs::write(&config, text).unwrap();
        Scene { orders, billing, archive, home, config }
    }

    fn named(&self, file: &str) -> String {
        self.home.path().join(file).display().to_string()
    }

    fn open(&self, options: &[&str]) -> Terminal {
        let config = self.config.display().to_string();
        let arguments = [&["--config", &config], options].concat();
        let state = self.named("state");
        Terminal::start(binary().to_str().unwrap(), &arguments, &[("XDG_STATE_HOME", &state)])
    }
}

fn header(screen: &str) -> &str {
    screen.lines().next().unwrap_or_default()
}

fn go(terminal: &mut Terminal, name: &str, key: &str) -> String {
    terminal.press(&format!(":target {name}\r"));
    terminal.wait_for(name, |screen| header(screen).contains(name) && screen.contains(key))
}

/// Leaves what is asked. The next key would else be taken for a part of the escape.
fn escape(terminal: &mut Terminal) {
    terminal.press("\x1b");
    terminal.wait_for("the keys", |screen| screen.contains("? help"));
}

#[test]
fn nothing_of_a_target_is_seen_at_the_next_one() {
    let scene = Scene::new();
    let mut terminal = scene.open(&["-t", "orders", "--write"]);
    let screen = terminal.wait_for("the first target", |screen| screen.contains("lock:order"));
    assert!(header(&screen).contains("DEV  orders") && header(&screen).contains("WRITING"), "{screen}");
    terminal.press("/order\r");
    terminal.wait_for("the filter", |screen| screen.contains("1 of 1"));
    terminal.press(" ");
    terminal.press("P");
    terminal.wait_for("privacy", |screen| screen.contains("are hidden"));
    let screen = go(&mut terminal, "billing", "lock:bill");
    assert!(header(&screen).contains("PROD  billing"), "{screen}");
    assert!(header(&screen).contains("READ-ONLY") && !screen.contains("WRITING"), "writing is off: {screen}");
    assert!(!screen.contains("lock:order"), "{screen}");
    assert!(screen.contains("now at billing; writing is off"), "{screen}");
    assert!(!screen.contains("worker-2"), "a screen that was private stays private: {screen}");
    terminal.press("/\x1b[A");
    terminal.wait_for("no filter to bring back", |screen| {
        screen.lines().last().is_some_and(|line| line.starts_with("/ ") && !line.contains("order"))
    });
    escape(&mut terminal);
    terminal.press("3");
    let screen = terminal.wait_for("the events", |screen| screen.contains("Events") && !screen.contains("lock:bill"));
    assert!(!screen.contains("order"), "{screen}");
    scene.billing.cli(&["SET", "lock:bill:2", "worker-3", "PX", "600000"]);
    terminal.press("1");
    terminal.wait_for("it is live", |screen| screen.contains("lock:bill:2"));
    // On production the name is asked for, whatever was asked at the target before.
    terminal.press("W");
    terminal.wait_for("writing", |screen| header(screen).contains("WRITING"));
    terminal.press("x");
    let screen = terminal.wait_for("the question", |screen| screen.contains("Type lock:bill"));
    assert!(screen.contains("lock:bill"), "{screen}");
    escape(&mut terminal);
    let screen = go(&mut terminal, "orders", "lock:order");
    assert!(header(&screen).contains("READ-ONLY") && !screen.contains("lock:bill"), "{screen}");
    terminal.press("q");
    let left = terminal.wait_for_end();
    left.assert_restored();
    assert_eq!(left.status.exit_code(), 0);
    for server in [&scene.orders, &scene.billing] {
        wait_until("nobody is connected any more", PATIENCE, || {
            let clients: String = server.ask(&["CLIENT", "LIST"]);
            clients.lines().count() == 1
        });
    }
}

#[test]
fn a_target_that_is_read_only_stays_so() {
    let scene = Scene::new();
    let mut terminal = scene.open(&["-t", "orders", "--write"]);
    terminal.wait_for("the first target", |screen| header(screen).contains("WRITING"));
    go(&mut terminal, "archive", "lock:old");
    terminal.press("W");
    let screen = terminal.wait_for("a refusal", |screen| screen.contains("this is read-only: the target \"archive\""));
    assert!(header(&screen).contains("READ-ONLY"), "{screen}");
    terminal.press("q");
    terminal.wait_for_end();
    assert!(scene.archive.ask::<bool, _>(&["EXISTS", "lock:old"]));
}

#[test]
fn a_target_that_can_not_be_reached_or_is_not_known_leaves_the_old_one() {
    let scene = Scene::new();
    let mut terminal = scene.open(&["-t", "orders"]);
    terminal.wait_for("the first target", |screen| screen.contains("lock:order"));
    terminal.press(":target nowhere\r");
    let screen = terminal.wait_for("why not", |screen| screen.contains("could not go to nowhere, still at orders"));
    assert!(header(&screen).contains("orders"), "{screen}");
    scene.orders.cli(&["SET", "lock:order:2", "worker-1", "PX", "600000"]);
    terminal.wait_for("it is still live", |screen| screen.contains("lock:order:2"));
    terminal.press(":target biling\r");
    terminal.wait_for("the nearest", |screen| screen.contains("did you mean \"billing\"?"));
    escape(&mut terminal);
    terminal.press(":target\r");
    terminal.wait_for("the list", |screen| {
        screen.contains("archive (read-only)  billing (prod)  nowhere  orders (here, dev)")
    });
    terminal.press("b\t\r");
    terminal.wait_for("the other one", |screen| header(screen).contains("billing"));
    terminal.press("q");
    assert_eq!(terminal.wait_for_end().status.exit_code(), 0);
}

#[test]
fn test_locks_are_given_back_and_what_was_recorded_is_closed() {
    let scene = Scene::new();
    let mut terminal = scene.open(&["-t", "orders", "--write"]);
    terminal.wait_for("the first target", |screen| screen.contains("lock:order"));
    terminal.press(&format!(":record {}\r", scene.named("history")));
    terminal.wait_for("it records", |screen| header(screen).contains("REC"));
    terminal.press(":acquire lock:test ttl=600s watchdog\r");
    wait_until("the test lock", PATIENCE, || scene.orders.ask::<bool, _>(&["EXISTS", "lock:test"]));
    terminal.press("6");
    terminal.wait_for("that it is held", |screen| screen.contains("lock:test") && screen.contains("held"));
    terminal.press(":target billing\r");
    let screen = terminal.wait_for("the other one", |screen| header(screen).contains("billing"));
    assert!(screen.contains("gave back 1 test lock"), "{screen}");
    assert!(!scene.orders.ask::<bool, _>(&["EXISTS", "lock:test"]), "given back");
    assert!(!header(&screen).contains("REC"), "{screen}");
    assert!(!scene.home.path().join("history-recorder").exists(), "closed");
    let summary = History::open(&scene.home.path().join("history")).unwrap().summary().unwrap();
    assert_eq!((summary.recorder, summary.target), (None, "orders".to_string()));
    terminal.press("6");
    terminal.wait_for("an empty lab", |screen| screen.contains("Lab") && !screen.contains("lock:test"));
    terminal.press("q");
    assert_eq!(terminal.wait_for_end().status.exit_code(), 0);
}

#[test]
fn a_password_is_not_sent_to_another_target() {
    let scene = Scene::new();
    let secret = scene.named("password");
    std::fs::write(&secret, "s3cret\n").unwrap();
    scene.orders.cli(&["ACL", "SETUSER", "anna", "on", ">s3cret", "~*", "&*", "+@all"]);
    // Billing would let nobody in who says a wrong name; the default user needs no password there.
    let mut terminal = scene.open(&["-t", "orders", "--user", "anna", "--password-file", &secret]);
    terminal.wait_for("the first target", |screen| screen.contains("lock:order"));
    go(&mut terminal, "billing", "lock:bill");
    let log = format!("{:?}", scene.billing.cli(&["ACL", "LOG"]));
    assert!(!log.contains("anna"), "{log}");
    go(&mut terminal, "orders", "lock:order");
    terminal.press("q");
    assert_eq!(terminal.wait_for_end().status.exit_code(), 0);
}
