//! Who is in the fleet: each worker with its name and its role.

use super::dice::Dice;
use super::fair::{DyingWaiter, InTurn};
use super::jobs::{BullWorker, Scheduler, UniqueJobs};
use super::plain::{Everyday, Leaver, Leaving, Payments, Seizer, Token};
use super::python::{AutoRenewal, Buckets, Crossing, Poller};
use super::read_write::{Reader, Writer};
use super::redisson::{Failing, Failure, Healthy};
use super::web::{Laravel, SpringThread, Symfony};
use super::{Crew, millis, secs};

const SHELVES: &str = "shelf-lock:";

/// One of the locks that are held all the time.
pub fn lasting(dice: &mut Dice) -> String {
    format!("{SHELVES}{}", dice.number(0, Buckets::ALL as u64))
}

pub fn assemble(crew: &mut Crew) {
    // The numbers in the names of locks come from the seed too.
    let mut dice = Dice::new(crew.site.seed, "names of locks");
    healthy(crew, &mut dice);
    failing(crew, &mut dice);
    busy(crew, &mut dice);
    queues(crew, &mut dice);
    jobs(crew, &mut dice);
    frameworks(crew, &mut dice);
    everyday(crew);
    buckets(crew, &mut dice);
}

fn healthy(crew: &mut Crew, dice: &mut Dice) {
    let orders = [dice.number(1000, 5000), dice.number(5000, 9999)];
    // Two workers share the first lock, so that one of them always waits.
    for (name, order) in [("orders-1", orders[0]), ("orders-2", orders[0]), ("orders-7", orders[1])] {
        let key = format!("orders-lock:{order}");
        crew.add(name, Healthy { key, work: (secs(35), secs(80)), pause: (millis(300), secs(1)) });
    }
    for name in ["reports-1", "reports-2"] {
        crew.add(name, AutoRenewal { name: crew.tagged("report-daily"), work: (secs(45), secs(75)) });
    }
    let keys: Vec<String> = (0..4).map(|_| format!("cart-lock:{}", dice.number(100, 999))).collect();
    for name in ["carts-1", "carts-2"] {
        let (work, pause) = ((millis(300), secs(2)), (millis(200), secs(1)));
        crew.add(name, Poller { keys: keys.clone(), lease: secs(10), sleep: millis(100), work, pause });
    }
}

fn failing(crew: &mut Crew, dice: &mut Dice) {
    // Half a round apart, so that after the first seconds one of them is always dead.
    for (name, delay) in [("stock-3", secs(0)), ("stock-4", secs(13))] {
        let key = format!("stock-lock:{}", dice.number(1000, 9999));
        crew.add(name, Failing { key, lease: secs(15), beats: 2, how: Failure::Crash, delay });
    }
    for (name, lease) in [("billing-1", secs(30)), ("billing-2", secs(9))] {
        let key = format!("billing-lock:{}", dice.number(1000, 9999));
        crew.add(name, Failing { key, lease, beats: 3, how: Failure::Stall, delay: secs(0) });
    }
    crew.add("search-3", Leaver { key: "reindex-lock", with: Leaving::RedisPy });
    crew.add("importer-1", Leaver { key: "import.lock", with: Leaving::SetNx });
    let key = format!("invoice-lock:{}", dice.number(1000, 9999));
    for (name, delay) in [("invoices-1", secs(0)), ("invoices-2", secs(4))] {
        crew.add(name, Seizer { key: key.clone(), work: (secs(5), secs(9)), delay });
    }
}

fn busy(crew: &mut Crew, dice: &mut Dice) {
    for number in 1..=6 {
        let (work, pause) = ((millis(400), millis(1200)), (millis(10), millis(100)));
        let sleep = millis(dice.number(50, 101));
        let keys = vec!["flash-sale-lock".into()];
        crew.add(&format!("sale-{number}"), Poller { keys, lease: secs(10), sleep, work, pause });
    }
    let accounts = [10, 60].map(|from| format!("transfer-lock:{}", dice.number(from, from + 40)));
    for (name, way, patience) in [("transfers-1", [0, 1], secs(18)), ("transfers-2", [1, 0], secs(24))] {
        let [first, second] = way.map(|index| accounts[index].clone());
        crew.add(name, Crossing { first, second, lease: secs(60), patience, delay: secs(1) });
    }
    let keys = vec![format!("export-lock:{}", dice.number(10, 99))];
    for name in ["exports-1", "exports-2"] {
        let (work, pause) = ((secs(5), secs(7)), (secs(1), secs(2)));
        crew.add(name, Poller { keys: keys.clone(), lease: secs(4), sleep: millis(100), work, pause });
    }
}

fn queues(crew: &mut Crew, dice: &mut Dice) {
    let key = format!("print-lock:{}", dice.number(1, 9));
    for number in 0..4 {
        let delay = if number == 0 { secs(0) } else { millis(1000 + 300 * number) };
        // The first worker holds it until the deadline of the dead waiter behind it has passed.
        let first = (number == 0).then_some(secs(46));
        crew.add(
            &format!("print-{}", number + 1),
            InTurn { key: key.clone(), work: (secs(11), secs(13)), delay, first },
        );
    }
    crew.add("print-9", DyingWaiter { key, delay: millis(500), wait: secs(15) });

    let reading = |work, pause| Reader { key: "catalogue-lock".into(), work, pause };
    crew.add("catalogue-1", reading((secs(3), secs(8)), (secs(1), secs(3))));
    crew.add("catalogue-2", reading((secs(3), secs(8)), (secs(1), secs(3))));
    crew.add("catalogue-3", reading((secs(18), secs(28)), (secs(2), secs(5))));
    let (work, pause) = ((secs(2), secs(4)), (secs(12), secs(20)));
    crew.add("catalogue-9", Writer { key: "catalogue-lock".into(), work, pause });
    let (work, pause) = ((secs(12), secs(25)), (secs(1), secs(2)));
    crew.add("prices-1", Writer { key: "prices-lock".into(), work, pause });
    for name in ["prices-2", "prices-3"] {
        let (work, pause) = ((millis(300), secs(1)), (secs(1), secs(4)));
        crew.add(name, Reader { key: "prices-lock".into(), work, pause });
    }
}

fn jobs(crew: &mut Crew, dice: &mut Dice) {
    crew.add("scheduler-1", Scheduler { job: "nightlyReport".into(), at_least: secs(60) });
    crew.add("scheduler-2", Scheduler { job: "cleanUp".into(), at_least: secs(45) });
    let digests: Vec<String> = (0..3).map(|_| format!("uniquejobs:{}", dice.hex(16))).collect();
    // Its script needs keys of several slots, so that nobody runs it on a cluster.
    let sidekiq = if crew.site.place.is_cluster() { 0 } else { 3 };
    for number in 1..=sidekiq {
        let (work, pause) = ((secs(5), secs(15)), (millis(500), secs(2)));
        crew.add(&format!("sidekiq-{number}"), UniqueJobs { digests: digests.clone(), work, pause });
    }
    for name in ["mail-1", "mail-2"] {
        crew.add(name, BullWorker { queue: crew.tagged("mail"), id: dice.uuid4(), jobs: 0, work: (secs(8), secs(40)) });
    }
    for (name, from) in [("payments-1", 1000), ("payments-2", 5000)] {
        let next = from + dice.number(1, 999);
        crew.add(name, Payments { next, work: (millis(500), secs(2)), pause: (secs(2), secs(5)) });
    }
}

fn frameworks(crew: &mut Crew, dice: &mut Dice) {
    let cache = "shop-database-shop-cache-";
    let laravel = |key: String, lease, work| Laravel { key, lease, work, pause: (millis(300), secs(2)) };
    let checkout = format!("{cache}checkout-lock:{}", dice.number(10, 99));
    crew.add("shop-1", laravel(checkout.clone(), Some(secs(120)), (millis(500), secs(3))));
    crew.add("shop-2", laravel(checkout, Some(secs(120)), (millis(500), secs(3))));
    let schedule = format!("{cache}framework/schedule-{}", dice.hex(20));
    crew.add("shop-cron", laravel(schedule, Some(secs(86_400)), (secs(8), secs(20))));
    let unique = format!(r"{cache}laravel_unique_job:App\Jobs\Import:{}", dice.number(10, 99));
    crew.add("shop-queue-1", laravel(unique, None, (secs(5), secs(15))));

    for name in ["pdf-1", "pdf-2"] {
        let (work, pause) = ((secs(2), secs(6)), (millis(300), secs(1)));
        crew.add(name, Symfony { key: "pdf-lock".into(), work, pause });
    }
    let paths: Vec<String> = (0..3).map(|_| format!("inventory-{}", dice.number(100, 999))).collect();
    let (id, other) = (dice.uuid4(), dice.uuid4());
    let thread = |paths, id| SpringThread { paths, id, work: (secs(10), secs(45)), pause: (millis(300), secs(2)) };
    // Threads of one process, each with its own lock, and another process that wants all of them.
    for (number, path) in paths.iter().enumerate() {
        crew.add(&format!("inventory-1.{number}"), thread(vec![path.clone()], id.clone()));
    }
    crew.add("inventory-2", thread(paths, other));
}

fn everyday(crew: &mut Crew) {
    let role = |prefix, keys, token, lease| Everyday {
        prefix,
        keys,
        token,
        lease,
        work: (millis(20), millis(150)),
        pause: (millis(80), millis(400)),
    };
    for number in 1..=4 {
        crew.add(&format!("web-{number}"), role("lock:session:", 60, Token::Name, secs(5)));
    }
    for number in 1..=3 {
        crew.add(&format!("accounts-{number}"), role("locks:account:", 25, Token::Hex16, secs(10)));
    }
    for number in 1..=3 {
        crew.add(&format!("seats-{number}"), role("seat-mutex:", 25, Token::Base64, secs(8)));
    }
}

fn buckets(crew: &mut Crew, dice: &mut Dice) {
    let endless = dice.number(1, Buckets::ALL as u64) as usize;
    crew.add("shelves-1", Buckets { prefix: SHELVES, tokens: Vec::new(), endless, lease: secs(30) });
}
