//! The sample locks: each can be created on a real server, and none disturbs another.

mod common;

use std::collections::HashMap;

use common::Server;
use common::samples::ALL;

/// All dialects that the samples must cover.
const DIALECTS: [&str; 33] = [
    "redis-py",
    "celery-once",
    "redbeat",
    "python-redis-lock",
    "redlock",
    "redsync",
    "redislock",
    "rslock",
    "pottery",
    "redlock-net",
    "redlock-py",
    "redlock-rb",
    "spring",
    "shedlock",
    "laravel",
    "medallion",
    "stackexchange",
    "hangfire",
    "celery-singleton",
    "resque-scheduler",
    "bullmq",
    "redis-semaphore-npm",
    "marker",
    "plain",
    "redisson",
    "redisson-semaphore",
    "redisson-permits",
    "reentrant",
    "symfony",
    "sidekiq-unique-jobs",
    "huey",
    "redis-semaphore",
    "leases",
];

#[test]
fn every_dialect_has_a_sample_and_no_two_samples_share_a_key() {
    let server = Server::start();
    let mut connection = server.connection();
    let mut made: HashMap<Vec<u8>, &str> = HashMap::new();
    let mut covered = Vec::new();
    for (name, create) in ALL {
        let sample = create(&mut connection);
        covered.push(sample.dialect);
        assert!(server.ask::<bool, _>(&[b"EXISTS", sample.key.as_slice()]), "{name}");
        for helper in &sample.helpers {
            assert!(server.ask::<bool, _>(&[b"EXISTS", helper.as_slice()]), "a helper of {name}");
        }
        assert_eq!(made.insert(sample.key, name), None, "{name}");
    }
    for dialect in DIALECTS {
        assert!(covered.contains(&dialect), "no sample of {dialect}");
    }
    for dialect in covered {
        assert!(DIALECTS.contains(&dialect), "{dialect} is none of the known names");
    }
}
