//! An operator on a test's server: reads locks, plans and performs, without the binary.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockscope::actions::{Context, Freeing, Gate, Journal, Kept, Performed, Plan, perform, plan};
use lockscope::base::clock::Clock;
use lockscope::base::time::Time;
use lockscope::dialects::{Mapping, Recogniser};
use lockscope::lock::{Key, KeyspaceId, NodeId, slot_of};
use lockscope::model::{Limits, LockView, Observation, Source, Table};
use lockscope::settings::cli::Global;
use lockscope::settings::config::Config;
use lockscope::settings::{Outside, Settings};
use lockscope::sources::look::{Wanted, look};
use lockscope::topology::{Endpoint, HostMap, Topology};
use redis::IntoConnectionInfo;

use super::cluster::Cluster;
use super::process::scratch;
use super::samples::NOT_EXTENDED;
use super::server::Server;

pub struct Acting {
    pub topology: Topology,
    pub gate: Gate,
    pub journal: Journal,
    pub context: Context,
    pub clock: Clock,
    /// Where the records are.
    pub place: PathBuf,
}

/// The settings for this URL, with changes to the command line.
pub fn settings(url: &str, change: impl FnOnce(&mut Global)) -> Settings {
    let mut global = Global { urls: vec![url.to_string()], ..Global::default() };
    change(&mut global);
    let outside = Outside {
        env: &|_| None,
        read: &|path| std::fs::read_to_string(path),
        places: &lockscope::settings::places,
        stdout_is_terminal: false,
    };
    Settings::resolve(&global, &outside, &Config::default()).expect("good settings")
}

impl Acting {
    pub async fn on(server: &Server) -> Acting {
        Acting::as_user(server, "").await
    }

    /// `login`: `user:password@`, or nothing.
    pub async fn as_user(server: &Server, login: &str) -> Acting {
        let url = server.url().replace("redis://", &format!("redis://{login}"));
        let info = url.as_str().into_connection_info().expect("a URL");
        let endpoint = Endpoint { shown: server.url(), info, tls: None };
        Acting::with(Topology::open(&endpoint).await.expect("the test's server"), &server.url())
    }

    /// On a whole cluster.
    pub async fn on_cluster(cluster: &Cluster) -> Acting {
        let url = cluster.master(0).url();
        let info = url.as_str().into_connection_info().expect("a URL");
        let seeds = [Endpoint { shown: url.clone(), info, tls: None }];
        Acting::with(Topology::of_cluster(&seeds, HostMap::default()).await.expect("the test's cluster"), &url)
    }

    fn with(topology: Topology, url: &str) -> Acting {
        static PLACES: AtomicUsize = AtomicUsize::new(0);
        let place = scratch(&format!("acting-{}", PLACES.fetch_add(1, Ordering::Relaxed)));
        Acting {
            topology,
            gate: settings(url, |_| {}).gate(),
            journal: Journal::open_in(&place).expect("a place for the records"),
            context: Context { target: url.into(), ..Context::default() },
            clock: Clock::start(),
            place,
        }
    }

    /// The lock as an operator sees it. `told`: the library that the user names.
    pub async fn see(&self, key: &[u8], told: Option<&str>) -> Option<LockView> {
        let name = Key::from(key);
        let mut conn = self.topology.reader(KeyspaceId::FIRST, &name).await.expect("a connection");
        let mapping = |dialect| Mapping::parse(&format!("{dialect}=*")).expect("a mapping");
        let everything = vec![lockscope::base::glob::Glob::new("*").expect("a pattern")];
        let recogniser = Recogniser::new(everything, Vec::new(), told.map(mapping).into_iter().collect());
        let wanted = [Wanted { key, hint: recogniser.field_hint(key) }];
        let asked = self.clock.now();
        let seen = look(&mut conn, &wanted).await.expect("an answer").remove(0)?;
        let answered = self.clock.now();
        let mut table = Table::new(recogniser.into(), Limits::default());
        let (node, key) = (NodeId(0), name);
        if self.topology.cluster().is_some() {
            // Whoever answered owns it.
            let (space, slot) = (KeyspaceId::FIRST, slot_of(key.as_bytes()));
            table.apply(Observation::Owners { space, slots: vec![(slot, slot, node)], at: Time(0) });
        }
        table.apply(Observation::Read { node, key: key.clone(), asked, answered, seen, source: Source::Scan });
        let lock = table.lock_named(KeyspaceId::FIRST, key.as_bytes()).filter(|lock| lock.is_held());
        let mut view = lock.and_then(|lock| table.view(lock, answered))?;
        lockscope::sources::inspect::prove(&self.topology, std::slice::from_mut(&mut view)).await.expect("an answer");
        Some(view)
    }

    /// The plan to free it, forced.
    pub fn plan_free(&self, lock: &LockView, holder: Option<&[u8]>) -> Plan {
        let asked = Freeing { holder, dead_waiters: &[], force: true };
        plan::free(lock, asked, self.clock.now()).unwrap_or_else(|why| panic!("{}: {why}", lock.key))
    }

    /// A plan to extend a sample's lock, by the sample's name; `None` exactly for the kinds that can't get a TTL.
    #[track_caller]
    pub fn plan_extend(&self, name: &str, lock: &LockView, ttl: Duration) -> Option<Plan> {
        let plan = plan::extend(lock, None, ttl, self.clock.now());
        assert_eq!(plan.is_ok(), !NOT_EXTENDED.contains(&name), "{name}: {:?}", plan.as_ref().err());
        plan.ok()
    }

    pub async fn perform(&mut self, plan: &Plan) -> Performed {
        perform(plan, &self.gate, &self.topology, &mut self.journal, &self.context).await
    }

    pub async fn free(&mut self, lock: &LockView, holder: Option<&[u8]>) -> Performed {
        let plan = self.plan_free(lock, holder);
        self.perform(&plan).await
    }

    pub fn kept(&self, id: &str) -> Kept {
        self.journal.kept(id).expect("readable records").expect("something is kept")
    }

    pub async fn undo(&mut self, id: &str) -> Performed {
        let plan = self.kept(id).plan(self.clock.now()).unwrap_or_else(|why| panic!("{why}"));
        self.perform(&plan).await
    }
}
