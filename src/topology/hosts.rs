//! `--map-host A=B`: reach a node that a cluster calls A at B, for clusters behind NAT or a tunnel.

use crate::base::fault::Fault;

/// A host, and the port where one was given.
type Place = (String, Option<u16>);

/// Which addresses are reached under another one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostMap(Vec<(Place, Place)>);

impl HostMap {
    /// Reads `A=B`, each a host or host:port.
    pub fn parse(texts: &[String]) -> Result<HostMap, Fault> {
        texts.iter().map(|text| pair(text)).collect::<Result<_, _>>().map(HostMap)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where to reach this address. A mapping with the port comes before one of the whole host.
    pub fn reached(&self, host: &str, port: u16) -> (String, u16) {
        let of = |wanted: Option<u16>| {
            self.0.iter().find(|((from, at), _)| from.eq_ignore_ascii_case(host) && *at == wanted).map(|(_, to)| to)
        };
        match of(Some(port)).or_else(|| of(None)) {
            Some((to, at)) => (to.clone(), at.unwrap_or(port)),
            None => (host.to_string(), port),
        }
    }
}

fn pair(text: &str) -> Result<(Place, Place), Fault> {
    let bad = || {
        Fault::usage(format!(
            "--map-host {text:?} is not A=B; write the host that the cluster names and the one to connect to, such as \
             10.0.0.5=localhost or 10.0.0.5:7000=localhost:17000"
        ))
    };
    let (from, to) = text.split_once('=').ok_or_else(bad)?;
    Ok((place(from).ok_or_else(bad)?, place(to).ok_or_else(bad)?))
}

fn place(text: &str) -> Option<Place> {
    let text = text.trim();
    let (host, port) = match text.rsplit_once(':') {
        // More than one colon without brackets: an IPv6 address alone.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, Some(port.parse().ok().filter(|port| *port > 0)?))
        }
        _ => (text, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_string(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(texts: &[&str]) -> Result<HostMap, Fault> {
        HostMap::parse(&texts.iter().map(|text| text.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn a_host_is_reached_where_the_mapping_says() {
        let hosts = map(&["10.0.0.5=localhost", "10.0.0.5:7001=localhost:17001", "fd00::1=[::1]:9"]).unwrap();
        let reached = |host, port| hosts.reached(host, port);
        assert_eq!(reached("10.0.0.5", 7000), ("localhost".into(), 7000));
        assert_eq!(reached("10.0.0.5", 7001), ("localhost".into(), 17001));
        assert_eq!(reached("fd00::1", 7000), ("::1".into(), 9));
        assert_eq!(reached("10.0.0.6", 7000), ("10.0.0.6".into(), 7000));
    }

    #[test]
    fn what_is_no_mapping_is_refused_with_an_example() {
        for text in ["", "a", "=b", "a=", "a:0=b", "a=b:x", "a:99999=b"] {
            let fault = map(&[text]).unwrap_err();
            assert!(fault.exit_code() == 2 && fault.to_string().contains("10.0.0.5=localhost"), "{text:?}: {fault}");
        }
    }
}
