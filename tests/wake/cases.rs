//! One lock of each kind: its set-up, what may happen to it before it is freed, who listens, and what must be true
//! afterwards.

pub type Line = &'static [&'static str];

/// A lock, what may happen to it before it is freed, and what must be true afterwards.
pub struct Case {
    pub name: &'static str,
    pub set_up: &'static [Line],
    pub key: &'static str,
    pub dialect: &'static str,
    pub holder: Option<&'static str>,
    /// After any of these the release must be refused.
    pub changes: &'static [&'static [Line]],
    /// How and where clients listen, and which messages they get.
    pub listens: &'static [(&'static str, &'static str, &'static [&'static str])],
    /// Commands and their replies.
    pub after: &'static [(Line, &'static str)],
}

pub const LOCK: Case =
    Case { name: "", set_up: &[], key: "", dialect: "", holder: None, changes: &[], listens: &[], after: &[] };

pub const A: &str = "3f2a8c00-1111-4222-8333-444455556666:57";
pub const B: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9";
pub const C: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:10";
pub const A_WRITES: &str = "3f2a8c00-1111-4222-8333-444455556666:57:write";
pub const UUID: &str = "3f2a8c00-1111-4222-8333-444455556666";
pub const OTHER_UUID: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d";
pub const FAR: &str = "99999999999999";
pub const PERMIT: &str = "\u{1}234567890abcdef";
pub const OTHER_PERMIT: &str = "\u{2}234567890abcdef";
pub const PYTHON: &str = "q6bGZ0cQ1m3yq8Vb0h9s5kXo";
pub const SYMFONY: &str = "q6bGZ0cQ1m3yq8Vb0h9s5kXo2n7Jr4tLw1eUzPaYdcA=";
pub const OTHER_SYMFONY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub const MEDALLION: &str = "WEB-02_910_0b5e7c1a94f24d3b8e6a2f1c9d7b3a50";
pub const OTHER_MEDALLION: &str = "WEB-03_911_f3a9c07be15d28466cb1709e5ad2488f";
pub const HAS_TTL: &str = "return redis.call('PTTL', KEYS[1]) > 0 and 1 or 0";

pub const CASES: &[Case] = &[
    Case {
        name: "Redisson lock",
        set_up: &[&["HSET", "lock:a", A, "2"], &["PEXPIRE", "lock:a", "30000"]],
        key: "lock:a",
        dialect: "redisson",
        holder: Some(A),
        changes: &[&[&["DEL", "lock:a"], &["HSET", "lock:a", B, "2"]], &[&["DEL", "lock:a"]]],
        listens: &[
            ("SUBSCRIBE", "redisson_lock__channel:{lock:a}", &["0"]),
            ("SSUBSCRIBE", "redisson_lock__channel:{lock:a}", &["0"]),
            ("SUBSCRIBE", "redisson_lock__channel:{lock:b}", &[]),
        ],
        after: &[(&["DBSIZE"], "0")],
    },
    Case {
        name: "Redisson lock of a name with braces, which nobody waits for, as for a spin lock",
        set_up: &[&["HSET", "{map}:aGk=:lock", A, "1"], &["PEXPIRE", "{map}:aGk=:lock", "30000"]],
        key: "{map}:aGk=:lock",
        dialect: "redisson",
        changes: &[&[&["HSET", "{map}:aGk=:lock", B, "1"]]],
        listens: &[("SUBSCRIBE", "redisson_lock__channel:{map}:aGk=:lock", &["0"])],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
    Case {
        name: "Redisson fenced lock: its tokens must go on rising",
        set_up: &[
            &["HSET", "lock:f", A, "1"],
            &["PEXPIRE", "lock:f", "30000"],
            &["SET", "redisson_lock_token:{lock:f}", "42"],
        ],
        key: "lock:f",
        dialect: "redisson",
        holder: Some(A),
        changes: &[&[&["DEL", "lock:f"], &["HSET", "lock:f", B, "1"]]],
        listens: &[("SUBSCRIBE", "redisson_lock__channel:{lock:f}", &["0"])],
        after: &[(&["KEYS", "*"], "redisson_lock_token:{lock:f}"), (&["GET", "redisson_lock_token:{lock:f}"], "42")],
    },
    Case {
        name: "Redisson fair lock: the dead heads go, the first living waiter is told, nobody else",
        set_up: &[
            &["HSET", "lock:fair", A, "1"],
            &["PEXPIRE", "lock:fair", "30000"],
            &["RPUSH", "redisson_lock_queue:{lock:fair}", "dead-1", "dead-2", B, C],
            &["ZADD", "redisson_lock_timeout:{lock:fair}", "1", "dead-1", "2", "dead-2", FAR, B, FAR, C],
        ],
        key: "lock:fair",
        dialect: "redisson",
        holder: Some(A),
        changes: &[
            &[&["DEL", "lock:fair"], &["HSET", "lock:fair", C, "1"]],
            // What would stop the script half-way.
            &[&["DEL", "redisson_lock_queue:{lock:fair}"], &["SET", "redisson_lock_queue:{lock:fair}", "x"]],
        ],
        listens: &[
            ("SUBSCRIBE", "redisson_lock__channel:{lock:fair}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9", &["0"]),
            ("SSUBSCRIBE", "redisson_lock__channel:{lock:fair}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9", &["0"]),
            ("SUBSCRIBE", "redisson_lock__channel:{lock:fair}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:10", &[]),
            ("SUBSCRIBE", "redisson_lock__channel:{lock:fair}:dead-1", &[]),
        ],
        after: &[
            (&["EXISTS", "lock:fair"], "0"),
            (&["LINDEX", "redisson_lock_queue:{lock:fair}", "0"], B),
            (&["LINDEX", "redisson_lock_queue:{lock:fair}", "1"], C),
            (&["LLEN", "redisson_lock_queue:{lock:fair}"], "2"),
            (&["ZCARD", "redisson_lock_timeout:{lock:fair}"], "2"),
            (&["ZSCORE", "redisson_lock_timeout:{lock:fair}", "dead-2"], "nil"),
        ],
    },
    Case {
        name: "Redisson writer that also reads",
        set_up: &[
            &["HSET", "lock:rw", "mode", "write", A_WRITES, "1", A, "1"],
            &["PEXPIRE", "lock:rw", "30000"],
            &["SET", "{lock:rw}:3f2a8c00-1111-4222-8333-444455556666:57:rwlock_timeout:1", "1", "PX", "30000"],
        ],
        key: "lock:rw",
        dialect: "redisson",
        holder: Some(A_WRITES),
        changes: &[
            &[&["HDEL", "lock:rw", A_WRITES], &["HSET", "lock:rw", C, "1"]],
            &[&["HSET", "lock:rw", "mode", "read"]],
        ],
        listens: &[
            ("SUBSCRIBE", "redisson_rwlock:{lock:rw}", &["1"]),
            ("SSUBSCRIBE", "redisson_rwlock:{lock:rw}", &["1"]),
        ],
        after: &[(&["DBSIZE"], "0")],
    },
    Case {
        name: "one Redisson reader of two: the lock stays, nobody is woken",
        set_up: &[
            &["HSET", "lock:rw", "mode", "read", A, "2", B, "1"],
            &["PEXPIRE", "lock:rw", "30000"],
            &["SET", "{lock:rw}:3f2a8c00-1111-4222-8333-444455556666:57:rwlock_timeout:1", "1", "PX", "30000"],
            &["SET", "{lock:rw}:3f2a8c00-1111-4222-8333-444455556666:57:rwlock_timeout:2", "1", "PX", "30000"],
            &["SET", "{lock:rw}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9:rwlock_timeout:1", "1", "PX", "30000"],
        ],
        key: "lock:rw",
        dialect: "redisson",
        holder: Some(A),
        changes: &[&[&["HDEL", "lock:rw", A]], &[&["DEL", "lock:rw"], &["HSET", "lock:rw", "mode", "read", C, "1"]]],
        listens: &[("SUBSCRIBE", "redisson_rwlock:{lock:rw}", &[])],
        after: &[
            (&["HLEN", "lock:rw"], "2"),
            (&["HGET", "lock:rw", B], "1"),
            (&["HGET", "lock:rw", "mode"], "read"),
            (&["KEYS", "{*"], "{lock:rw}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9:rwlock_timeout:1"),
        ],
    },
    Case {
        name: "the last Redisson reader",
        set_up: &[
            &["HSET", "lock:rw", "mode", "read", A, "1"],
            &["PEXPIRE", "lock:rw", "30000"],
            &["SET", "{lock:rw}:3f2a8c00-1111-4222-8333-444455556666:57:rwlock_timeout:1", "1", "PX", "30000"],
        ],
        key: "lock:rw",
        dialect: "redisson",
        holder: Some(A),
        changes: &[&[&["HDEL", "lock:rw", A], &["HSET", "lock:rw", B, "1"]]],
        listens: &[("SUBSCRIBE", "redisson_rwlock:{lock:rw}", &["1"])],
        after: &[(&["DBSIZE"], "0")],
    },
    Case {
        name: "Redisson semaphore",
        set_up: &[&["SET", "uploads", "3"]],
        key: "uploads",
        dialect: "redisson-semaphore",
        changes: &[&[&["DECR", "uploads"]], &[&["DEL", "uploads"]], &[&["SET", "uploads", "x"]]],
        listens: &[("SUBSCRIBE", "redisson_sc:{uploads}", &["4"]), ("SSUBSCRIBE", "redisson_sc:{uploads}", &["4"])],
        after: &[(&["GET", "uploads"], "4")],
        ..LOCK
    },
    Case {
        name: "one Redisson permit of two",
        set_up: &[
            &["SET", "downloads", "3"],
            &["ZADD", "{downloads}:timeout", FAR, PERMIT, "922337203685477", OTHER_PERMIT],
        ],
        key: "{downloads}:timeout",
        dialect: "redisson-permits",
        holder: Some(PERMIT),
        changes: &[
            &[&["ZREM", "{downloads}:timeout", PERMIT]],
            &[&["DEL", "downloads"]],
            &[&["SET", "downloads", "many"]],
            &[&["DEL", "downloads"], &["LPUSH", "downloads", "1"]],
        ],
        listens: &[("SUBSCRIBE", "redisson_sc:{downloads}", &["4"])],
        after: &[(&["GET", "downloads"], "4"), (&["ZRANGE", "{downloads}:timeout", "0", "-1"], OTHER_PERMIT)],
    },
    Case {
        name: "all Redisson permits",
        set_up: &[
            &["SET", "downloads", "3"],
            &["ZADD", "{downloads}:timeout", FAR, PERMIT, "922337203685477", OTHER_PERMIT],
        ],
        key: "{downloads}:timeout",
        dialect: "redisson-permits",
        changes: &[&[&["ZREM", "{downloads}:timeout", PERMIT]]],
        listens: &[("SUBSCRIBE", "redisson_sc:{downloads}", &["5"])],
        after: &[(&["GET", "downloads"], "5"), (&["EXISTS", "{downloads}:timeout"], "0")],
        ..LOCK
    },
    Case {
        name: "python-redis-lock",
        set_up: &[&["SET", "lock:report", PYTHON], &["RPUSH", "lock-signal:report", "1", "1"]],
        key: "lock:report",
        dialect: "python-redis-lock",
        holder: Some(PYTHON),
        changes: &[&[&["SET", "lock:report", "AAECAwQFBgcICQoLDA0ODxAR"]], &[&["DEL", "lock:report"]]],
        after: &[
            (&["EXISTS", "lock:report"], "0"),
            (&["LRANGE", "lock-signal:report", "0", "-1"], "1"),
            (&["EVAL", HAS_TTL, "1", "lock-signal:report"], "1"),
        ],
        ..LOCK
    },
    Case {
        name: "Spring",
        set_up: &[&["SET", "app:eu:orders", UUID, "PX", "60000"]],
        key: "app:eu:orders",
        dialect: "spring",
        holder: Some(UUID),
        changes: &[&[&["SET", "app:eu:orders", OTHER_UUID]]],
        listens: &[
            ("PSUBSCRIBE", "app-channel:*", &["app:eu:orders"]),
            ("PSUBSCRIBE", "app:eu-channel:*", &["app:eu:orders"]),
            ("PSUBSCRIBE", "other-channel:*", &[]),
        ],
        after: &[(&["DBSIZE"], "0")],
    },
    Case {
        name: "Symfony, the writer",
        set_up: &[&["ZADD", "invoice-lock", FAR, SYMFONY, FAR, "__write__"], &["PEXPIRE", "invoice-lock", "300000"]],
        key: "invoice-lock",
        dialect: "symfony",
        holder: Some(SYMFONY),
        changes: &[&[&["ZREM", "invoice-lock", SYMFONY], &["ZADD", "invoice-lock", FAR, OTHER_SYMFONY]]],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
    Case {
        name: "Symfony, all readers",
        set_up: &[&["ZADD", "invoice-lock", FAR, SYMFONY, FAR, OTHER_SYMFONY], &["PEXPIRE", "invoice-lock", "300000"]],
        key: "invoice-lock",
        dialect: "symfony",
        changes: &[&[&["ZREM", "invoice-lock", SYMFONY]], &[&["ZADD", "invoice-lock", FAR, "another"]]],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
    Case {
        name: "Symfony, one reader",
        set_up: &[&["ZADD", "invoice-lock", FAR, SYMFONY, FAR, OTHER_SYMFONY], &["PEXPIRE", "invoice-lock", "300000"]],
        key: "invoice-lock",
        dialect: "symfony",
        holder: Some(SYMFONY),
        changes: &[&[&["ZREM", "invoice-lock", SYMFONY]]],
        after: &[(&["ZRANGE", "invoice-lock", "0", "-1"], OTHER_SYMFONY)],
        ..LOCK
    },
    Case {
        name: "sidekiq-unique-jobs: five keys, two sorted sets, and whoever waits is woken",
        set_up: SIDEKIQ,
        key: "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
        dialect: "sidekiq-unique-jobs",
        holder: Some("b4a577edbccf1d805744efa9"),
        changes: &[
            &[
                &["DEL", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED"],
                &[
                    "HSET",
                    "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
                    "ffa577edbccf1d805744efa9",
                    "1749999000.5",
                ],
            ],
            // The same job, run again.
            &[&[
                "HSET",
                "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
                "b4a577edbccf1d805744efa9",
                "1749999001.5",
            ]],
            &[&["DEL", "uniquejobs:digests"], &["SET", "uniquejobs:digests", "x"]],
        ],
        after: SIDEKIQ_GONE,
        ..LOCK
    },
    Case {
        name: "sidekiq-unique-jobs as a whole",
        set_up: SIDEKIQ,
        key: "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
        dialect: "sidekiq-unique-jobs",
        changes: &[&[&["HSET", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED", "ffa577edbccf1d805744efa9", "1"]]],
        after: SIDEKIQ_GONE,
        ..LOCK
    },
    Case {
        name: "one of two holders of sidekiq-unique-jobs",
        set_up: &[
            &["SET", "uniquejobs:0123456789abcdef0123456789abcdef", "b4a577edbccf1d805744efa9"],
            &[
                "HSET",
                "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
                "b4a577edbccf1d805744efa9",
                "1749999000.5",
                "ffa577edbccf1d805744efa9",
                "1749999000.5",
            ],
            &["ZADD", "uniquejobs:digests", "1749999000.5", "uniquejobs:0123456789abcdef0123456789abcdef"],
        ],
        key: "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
        dialect: "sidekiq-unique-jobs",
        holder: Some("b4a577edbccf1d805744efa9"),
        changes: &[&[&["HDEL", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED", "b4a577edbccf1d805744efa9"]]],
        after: &[
            (&["HKEYS", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED"], "ffa577edbccf1d805744efa9"),
            (&["EXISTS", "uniquejobs:0123456789abcdef0123456789abcdef"], "1"),
            (&["EXISTS", "uniquejobs:0123456789abcdef0123456789abcdef:QUEUED"], "0"),
            (&["ZCARD", "uniquejobs:digests"], "1"),
        ],
        ..LOCK
    },
    Case {
        name: "redis-semaphore of Ruby: the token goes back to the pool",
        set_up: &[
            &["HSET", "SEMAPHORE:gateway:GRABBED", "0", "1749999000.5", "1", "1749999000.5"],
            &["RPUSH", "SEMAPHORE:gateway:AVAILABLE", "2"],
        ],
        key: "SEMAPHORE:gateway:GRABBED",
        dialect: "redis-semaphore",
        holder: Some("0"),
        changes: &[
            &[&["HSET", "SEMAPHORE:gateway:GRABBED", "0", "1749999009.5"]],
            &[&["HDEL", "SEMAPHORE:gateway:GRABBED", "0"]],
            &[&["DEL", "SEMAPHORE:gateway:AVAILABLE"], &["SET", "SEMAPHORE:gateway:AVAILABLE", "x"]],
        ],
        after: &[
            (&["HKEYS", "SEMAPHORE:gateway:GRABBED"], "1"),
            (&["LRANGE", "SEMAPHORE:gateway:AVAILABLE", "0", "-1"], "0,2"),
        ],
        ..LOCK
    },
    Case {
        name: "Huey: results live in the same hash",
        set_up: &[&[
            "HSET",
            "huey.results.shop",
            "shop.lock.nightly",
            "1",
            "5f6c0b9e-2a3d-4f60-9c1e-0a1b2c3d4e5f",
            "x",
        ]],
        key: "huey.results.shop",
        dialect: "huey",
        holder: Some("shop.lock.nightly"),
        changes: &[&[&["HDEL", "huey.results.shop", "shop.lock.nightly"]], &[&["DEL", "huey.results.shop"]]],
        after: &[(&["HKEYS", "huey.results.shop"], "5f6c0b9e-2a3d-4f60-9c1e-0a1b2c3d4e5f")],
        ..LOCK
    },
    Case {
        name: "Medallion writer",
        set_up: &[&["SET", "stock.writer", MEDALLION, "PX", "30000"]],
        key: "stock.writer",
        dialect: "medallion",
        holder: Some(MEDALLION),
        changes: &[&[&["SET", "stock.writer", OTHER_MEDALLION]]],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
    Case {
        name: "one Medallion reader of two",
        set_up: &[&["SADD", "stock.readers", MEDALLION, OTHER_MEDALLION], &["PEXPIRE", "stock.readers", "30000"]],
        key: "stock.readers",
        dialect: "medallion",
        holder: Some(MEDALLION),
        changes: &[&[&["SREM", "stock.readers", MEDALLION]]],
        after: &[(&["SMEMBERS", "stock.readers"], OTHER_MEDALLION)],
        ..LOCK
    },
    Case {
        name: "node-redlock",
        set_up: &[&["SET", "locks:account", "96da70f7716f27d278a5218544df37fd", "PX", "30000"]],
        key: "locks:account",
        dialect: "redlock",
        holder: Some("96da70f7716f27d278a5218544df37fd"),
        changes: &[
            &[&["SET", "locks:account", "96da70f7716f27d278a5218544df37fe"]],
            &[&["DEL", "locks:account"], &["HSET", "locks:account", "96da70f7716f27d278a5218544df37fd", "1"]],
        ],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
];

pub const SIDEKIQ: &[Line] = &[
    &["SET", "uniquejobs:0123456789abcdef0123456789abcdef", "b4a577edbccf1d805744efa9"],
    &["SET", "uniquejobs:0123456789abcdef0123456789abcdef:INFO", "{}"],
    &["RPUSH", "uniquejobs:0123456789abcdef0123456789abcdef:PRIMED", "b4a577edbccf1d805744efa9"],
    &["HSET", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED", "b4a577edbccf1d805744efa9", "1749999000.5"],
    &["ZADD", "uniquejobs:digests", "1", "uniquejobs:0123456789abcdef0123456789abcdef", "2", "uniquejobs:other"],
    &["ZADD", "uniquejobs:expiring_digests", "1", "uniquejobs:0123456789abcdef0123456789abcdef"],
];

pub const SIDEKIQ_GONE: &[(Line, &str)] = &[
    (&["KEYS", "uniquejobs:0*"], "uniquejobs:0123456789abcdef0123456789abcdef:QUEUED"),
    (&["LRANGE", "uniquejobs:0123456789abcdef0123456789abcdef:QUEUED", "0", "-1"], "1"),
    (&["EVAL", HAS_TTL, "1", "uniquejobs:0123456789abcdef0123456789abcdef:QUEUED"], "1"),
    (&["ZRANGE", "uniquejobs:digests", "0", "-1"], "uniquejobs:other"),
    (&["EXISTS", "uniquejobs:expiring_digests"], "0"),
];
