//! Whether a check comes out alike at several nodes, so that it is told once: pure.

use super::{Check, Status};

/// Units that follow a number as words of their own.
const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "%"];

/// Whether both say the same but for the figures. A version and the flags of notifications are no figures; and which
/// side of ours a good clock is on does not matter.
pub fn alike(one: &Check, other: &Check) -> bool {
    if one.name != other.name || one.status != other.status {
        return false;
    }
    match one.name {
        "version" | "notifications" => one == other,
        "clock" if one.status == Status::Ok => true,
        _ => gist(&one.finding) == gist(&other.finding) && one.fix == other.fix,
    }
}

/// What all nodes have in common: the checks of the first that are alike everywhere.
pub fn in_common(nodes: &[Vec<Check>]) -> Vec<Check> {
    let Some((first, others)) = nodes.split_first() else { return Vec::new() };
    let everywhere = |check: &&Check| others.iter().all(|checks| checks.iter().any(|other| alike(check, other)));
    first.iter().filter(everywhere).cloned().collect()
}

/// The sentence without its figures.
fn gist(finding: &str) -> String {
    let is_figure = |word: &str| word.trim_start_matches(['(', '+', '-']).starts_with(|c: char| c.is_ascii_digit());
    let bare = |word: &str| word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '%').to_string();
    let words = finding.split(' ').filter(|word| !is_figure(word)).map(bare);
    words.filter(|word| !UNITS.contains(&word.as_str())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_differ_and_settings_do_too() {
        let evicts = |text: &str| Check::ok("eviction", text);
        let here = evicts("no memory limit is set, so nothing is evicted; 1.5 MB in use.");
        assert!(alike(&here, &evicts("no memory limit is set, so nothing is evicted; 900.0 kB in use.")));
        assert!(!alike(&here, &evicts("locks are never evicted (noeviction); 1.5 MB of 2.0 MB in use (75 %).")));
        let ready = |text: &str| Check::ok("ready", format!("the server has been serving for {text}."));
        assert!(alike(&ready("3s"), &ready("2h05m")));
        let version = |text: &str| Check::ok("version", format!("Redis {text} is supported."));
        assert!(!alike(&version("7.0.15"), &version("7.2.4")) && alike(&version("7.0.15"), &version("7.0.15")));
        let clock = |text: &str| Check::ok("clock", format!("the server's clock is {text} ours"));
        assert!(alike(&clock("0.1ms behind"), &clock("0.2ms ahead of")));
        assert!(!alike(&clock("0.1ms behind"), &Check::warn("clock", "the server's clock is 0.1ms behind ours")));
        let nodes = [vec![here.clone(), ready("3s")], vec![ready("5s")]];
        assert_eq!(in_common(&nodes), [ready("3s")]);
    }
}
