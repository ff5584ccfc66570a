//! How sentinels see their service: the answers of one, and what those of several add up to. Pure but for the question.
//!
//! Sentinels number their configurations: the one that replaced a master has a higher number than those that have not
//! heard of it yet, so the highest counts. Different masters under one number are a contradiction that nobody resolves.

use std::collections::{BTreeSet, HashMap};

use redis::{FromRedisValue, RedisError, RedisResult, Value};

use super::super::{ServerConnection, in_time};

/// A host and a port, as sentinels name them.
pub type Place = (String, u16);

/// More sentinels or replicas than this are not taken in.
const MOST: usize = 64;

/// The service in the eyes of one sentinel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// The sentinel's own id.
    pub sentinel: String,
    pub master: Place,
    /// The number of the configuration that made it the master.
    pub epoch: u64,
    /// The other sentinels, by their ids.
    pub others: Vec<(String, Place)>,
    pub replicas: Vec<Place>,
    /// How many sentinels must agree that the master is down.
    pub quorum: Option<usize>,
}

/// What a sentinel answered.
#[derive(Debug)]
pub enum Answer {
    Seen(View),
    /// It does not watch a service of that name.
    NoService,
}

/// What several sentinels say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    pub master: Place,
    pub epoch: u64,
    /// How many sentinels name it, and how many there are.
    pub votes: usize,
    pub sentinels: usize,
    pub replicas: Vec<Place>,
}

impl Choice {
    pub fn is_of_majority(&self) -> bool {
        self.votes * 2 > self.sentinels
    }
}

/// Asks one sentinel. An error means that it did not answer, or does not let us ask.
pub async fn ask(conn: &mut ServerConnection, service: &str) -> RedisResult<Answer> {
    let mut pipe = redis::pipe();
    for question in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "SENTINELS", "REPLICAS"] {
        pipe.cmd("SENTINEL").arg(question).arg(service);
    }
    pipe.cmd("SENTINEL").arg("MYID");
    let answers: Vec<RedisResult<Value>> = in_time(super::PATIENCE, pipe.ignore_errors().query_async(conn)).await?;
    let [address, master, sentinels, replicas, id]: [RedisResult<Value>; 5] =
        answers.try_into().map_err(|_| std::io::Error::other("fewer answers than questions"))?;
    let Some((host, port)) = read::<Option<(String, String)>>(address?)? else { return Ok(Answer::NoService) };
    let fields: HashMap<String, String> = read(master?)?;
    let place = place(&host, &port).ok_or_else(|| std::io::Error::other("a sentinel names no address"))?;
    Ok(Answer::Seen(View {
        sentinel: id.and_then(read).unwrap_or_default(),
        master: place,
        epoch: fields.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
        others: listed(sentinels, |fields| Some((fields.get("runid")?.clone(), address_of(fields)?))),
        replicas: listed(replicas, address_of),
        quorum: fields.get("quorum").and_then(|quorum| quorum.parse().ok()),
    }))
}

/// The services that a sentinel watches.
pub async fn services(conn: &mut ServerConnection) -> RedisResult<Vec<String>> {
    let masters = in_time(super::PATIENCE, redis::cmd("SENTINEL").arg("MASTERS").query_async(conn)).await;
    Ok(listed(masters, |fields| fields.get("name").cloned()))
}

fn read<T: FromRedisValue>(value: Value) -> RedisResult<T> {
    T::from_redis_value(value).map_err(RedisError::from)
}

/// What can be read of a list of descriptions, each a flat list of names and values, or a map.
fn listed<T>(answer: RedisResult<Value>, of: impl Fn(&HashMap<String, String>) -> Option<T>) -> Vec<T> {
    let entries = answer.and_then(read::<Vec<Value>>).unwrap_or_default();
    let fields = |entry| read::<HashMap<String, String>>(entry).ok();
    entries.into_iter().take(MOST).filter_map(|entry| of(&fields(entry)?)).collect()
}

fn address_of(fields: &HashMap<String, String>) -> Option<Place> {
    place(fields.get("ip")?, fields.get("port")?)
}

fn place(host: &str, port: &str) -> Option<Place> {
    let fits = !host.is_empty() && !host.contains(|letter: char| letter.is_control() || letter.is_whitespace());
    Some((host.to_string(), port.parse().ok().filter(|port| *port > 0 && fits)?))
}

/// The master that they name, or those that they name at the same time.
pub fn choose(views: &[View]) -> Result<Choice, BTreeSet<Place>> {
    let epoch = views.iter().map(|view| view.epoch).max().unwrap_or(0);
    let newest: Vec<&View> = views.iter().filter(|view| view.epoch == epoch).collect();
    let masters: BTreeSet<Place> = newest.iter().map(|view| view.master.clone()).collect();
    let Some(master) = masters.first().filter(|_| masters.len() == 1).cloned() else { return Err(masters) };
    let names = |view: &&View| view.master == master;
    let voters: BTreeSet<&str> = views.iter().filter(names).map(|view| view.sentinel.as_str()).collect();
    let ids = |view: &'_ View| {
        view.others.iter().map(|(id, _)| id.clone()).chain([view.sentinel.clone()]).collect::<Vec<_>>()
    };
    let known: BTreeSet<String> = views.iter().flat_map(ids).collect();
    let replicas: BTreeSet<Place> = newest.iter().flat_map(|view| view.replicas.iter().cloned()).collect();
    let replicas = replicas.into_iter().filter(|replica| *replica != master).collect();
    Ok(Choice { votes: voters.len(), sentinels: known.len(), master, epoch, replicas })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(sentinel: &str, port: u16, epoch: u64, others: &[&str]) -> View {
        let others = others.iter().map(|id| (id.to_string(), ("10.0.0.9".to_string(), 26379))).collect();
        let (sentinel, master) = (sentinel.to_string(), ("10.0.0.1".to_string(), port));
        let replicas = vec![("10.0.0.2".into(), 1), ("10.0.0.1".into(), 2)];
        View { sentinel, master, epoch, others, replicas, quorum: Some(2) }
    }

    #[test]
    fn the_newest_configuration_counts_and_the_votes_are_told() {
        let (old, new) = (view("a", 1, 3, &["b", "c"]), view("b", 2, 4, &["a", "c"]));
        let choice = choose(&[old.clone(), new.clone()]).unwrap();
        assert_eq!((choice.master.1, choice.epoch, choice.votes, choice.sentinels), (2, 4, 1, 3));
        assert!(!choice.is_of_majority(), "one of three");
        assert_eq!(choice.replicas, [("10.0.0.2".to_string(), 1)], "the master is none of its replicas");
        let followed = choose(&[View { sentinel: "c".into(), ..new.clone() }, old, new]).unwrap();
        assert!(followed.votes == 2 && followed.is_of_majority(), "{followed:?}");
    }

    #[test]
    fn one_sentinel_by_two_names_has_one_vote() {
        let one = view("a", 1, 1, &["b", "c"]);
        let choice = choose(&[one.clone(), one]).unwrap();
        assert_eq!((choice.votes, choice.sentinels, choice.is_of_majority()), (1, 3, false));
    }

    #[test]
    fn two_masters_of_one_number_are_a_contradiction() {
        let masters = choose(&[view("a", 1, 0, &[]), view("b", 2, 0, &[])]).unwrap_err();
        assert_eq!(masters.len(), 2);
        assert!(choose(&[]).unwrap_err().is_empty());
    }

    #[test]
    fn what_is_no_address_is_left_out() {
        for (host, port) in [("", "1"), ("a b", "1"), ("a\u{1b}[2J", "1"), ("a", "0"), ("a", "70000"), ("a", "")] {
            assert_eq!(place(host, port), None, "{host:?} {port:?}");
        }
        assert_eq!(place("::1", "6379"), Some(("::1".into(), 6379)));
    }
}
