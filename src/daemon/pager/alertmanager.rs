//! One Alertmanager: what it has to know, and telling it again until it knows.
//!
//! It keeps the newest state of each alert, not a list of messages: after an outage it is told what is true then. What fires is
//! sent again every minute. What the Alertmanager refuses (4xx) is told and tried a few times, not for ever.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until};

use super::page::{Identity, Page};
use super::tally::{Outcome, Tally};
use crate::base::backoff::{Backoff, chance};
use crate::base::clock::Clock;
use crate::base::text::{fit, said};
use crate::base::time::Time;
use crate::http::{Body, Client, Trouble};

/// Alerts in one request.
const TOGETHER: usize = 64;
/// Alerts at one time.
const MOST: usize = 10_000;
/// How often something is sent that is refused.
const REFUSALS: u32 = 5;
/// How long the end of an alert is told.
const OVER: Duration = Duration::from_secs(900);

/// Why it does not know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unsent {
    /// It can't be asked now, or has trouble of its own: try again.
    Later(String),
    /// It does not want this.
    Refused(String),
}

/// Sends them once.
pub async fn send(client: &Client, pages: &[Page], now: Time, resend: Duration) -> Result<(), Unsent> {
    let list: Vec<_> = pages.iter().map(|page| page.alertmanager(now, resend)).collect();
    let body = Body::Json(serde_json::Value::from(list).to_string());
    let answer =
        client.send("/api/v2/alerts", body).await.map_err(|trouble: Trouble| Unsent::Later(trouble.sentence()))?;
    let text = fit(&said(&String::from_utf8_lossy(&answer.body[..answer.body.len().min(400)])), 160);
    let text = if text.is_empty() { String::new() } else { format!(" ({text})") };
    let status = answer.status;
    Err(match status {
        200..=299 => return Ok(()),
        300..=399 => Unsent::Refused(format!("answers {status}: it sends us elsewhere; write the address it means")),
        401 | 403 => {
            Unsent::Refused(format!("answers {status}: it wants a login; check user, password_file and bearer_file"))
        }
        404 => Unsent::Refused(
            "answers 404: there is no Alertmanager at that path; check the prefix of the address".into(),
        ),
        410 => Unsent::Refused("answers 410: this API is gone there; name an Alertmanager with API v2".into()),
        415 => Unsent::Refused(
            "answers 415: something between us changes the Content-Type; name the Alertmanager itself".into(),
        ),
        408 | 429 | 500.. => Unsent::Later(format!("answers {status}{text}")),
        _ => Unsent::Refused(format!("refuses an alert with {status}{text}")),
    })
}

struct Entry {
    page: Page,
    /// `None`: not before it changes.
    due: Option<Instant>,
    refusals: u32,
}

/// Everything that one Alertmanager has to know.
pub struct Outbox {
    client: Client,
    tally: Tally,
    entries: BTreeMap<Identity, Entry>,
    /// What fires is sent again after this time.
    resend: Duration,
    backoff: Backoff,
    clock: Clock,
}

impl Outbox {
    pub fn new(client: Client, tally: Tally, resend: Duration) -> Outbox {
        let backoff = Backoff::new(Duration::from_secs(1), resend.max(Duration::from_secs(1)));
        Outbox { client, tally, entries: BTreeMap::new(), resend, backoff, clock: Clock::start() }
    }

    /// Runs until nobody is left who could send something.
    pub async fn run(mut self, mut queue: Receiver<Page>) {
        loop {
            let due = self.entries.values().filter_map(|entry| entry.due).min();
            let open = tokio::select! {
                biased;
                page = queue.recv() => page.map(|page| self.keep(page)).is_some(),
                _ = at(due) => true,
            };
            while let Ok(page) = queue.try_recv() {
                self.keep(page);
            }
            self.send_due().await;
            if !open {
                return;
            }
        }
    }

    fn keep(&mut self, page: Page) {
        if self.entries.len() >= MOST && !self.entries.contains_key(&page.identity()) {
            self.tally.count(Outcome::Dropped, 1);
            self.tally.say(format!("more than {MOST} alerts at once: the rest is dropped"));
            return;
        }
        self.entries.insert(page.identity(), Entry { page, due: Some(Instant::now()), refusals: 0 });
    }

    async fn send_due(&mut self) {
        let now = Instant::now();
        let is_due = |entry: &Entry| entry.due.is_some_and(|due| due <= now);
        let due: Vec<Identity> =
            self.entries.iter().filter(|(_, entry)| is_due(entry)).map(|(identity, _)| identity.clone()).collect();
        for some in due.chunks(TOGETHER) {
            let sent = self.send(some).await;
            // One bad alert has a whole list refused: each by itself.
            if let (Err(Unsent::Refused(_)), true) = (&sent, some.len() > 1) {
                for one in some {
                    let sent = self.send(std::slice::from_ref(one)).await;
                    self.settle(std::slice::from_ref(one), sent);
                }
            } else {
                self.settle(some, sent);
            }
        }
    }

    async fn send(&self, some: &[Identity]) -> Result<(), Unsent> {
        let pages: Vec<Page> = some.iter().filter_map(|one| Some(self.entries.get(one)?.page.clone())).collect();
        send(&self.client, &pages, self.clock.now(), self.resend).await
    }

    fn settle(&mut self, some: &[Identity], sent: Result<(), Unsent>) {
        let count = some.len() as u64;
        match &sent {
            Ok(()) => {
                self.backoff.reset();
                self.tally.count(Outcome::Sent, count);
                self.tally.well("takes alerts again");
            }
            Err(Unsent::Later(why)) => {
                self.tally.count(Outcome::Retried, count);
                self.tally.say(format!("{why}; alerts are sent again until it takes them"));
            }
            Err(Unsent::Refused(why)) => self.tally.say(why.clone()),
        }
        let pause = self.backoff_for(&sent);
        let now = self.clock.now();
        for one in some {
            let Some(entry) = self.entries.get_mut(one) else { continue };
            let is_over = entry.page.ends.is_some();
            let is_old = entry.page.ends.is_some_and(|ends| now.since(ends) >= OVER);
            let mut forget = is_over && sent.is_ok();
            entry.due = Some(Instant::now() + pause);
            match &sent {
                Ok(()) => entry.refusals = 0,
                Err(Unsent::Later(_)) if is_old => {
                    self.tally.count(Outcome::Failed, 1);
                    forget = true;
                }
                Err(Unsent::Later(_)) => {}
                Err(Unsent::Refused(_)) => {
                    entry.refusals += 1;
                    if entry.refusals >= REFUSALS {
                        self.tally.count(Outcome::Failed, 1);
                        entry.due = None;
                        forget = is_over;
                    } else {
                        self.tally.count(Outcome::Retried, 1);
                    }
                }
            }
            if forget {
                self.entries.remove(one);
            }
        }
    }

    fn backoff_for(&mut self, sent: &Result<(), Unsent>) -> Duration {
        match sent {
            Err(Unsent::Later(_)) => self.backoff.next(chance()),
            _ => self.resend,
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
