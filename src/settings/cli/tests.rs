//! The command line as scripts use it.

use std::time::Duration;

use super::*;
use crate::model::Column;

fn read(args: &[&str]) -> Result<Cli, Early> {
    Cli::read(std::iter::once("lockscope").chain(args.iter().copied()).map(OsString::from))
}

#[test]
fn clap_finds_nothing_wrong() {
    Cli::command().debug_assert();
}

#[test]
fn options_stand_before_or_after_the_command() {
    for args in
        [&["-u", "redis://h", "-p", "a:*", "-p", "b:*", "ls"][..], &["ls", "-u", "redis://h", "-p", "a:*", "-p", "b:*"]]
    {
        let cli = read(args).unwrap();
        assert_eq!(cli.global.urls, ["redis://h"]);
        assert_eq!(cli.global.patterns, ["a:*", "b:*"]);
    }
}

#[test]
fn ls_takes_all_its_options() {
    let cli =
        read(&["ls", "--filter", "ttl<5s", "--sort", "held", "--limit", "3", "--observe", "1m30s", "--csv"]).unwrap();
    let Some(Command::Ls(ls)) = cli.command else { panic!() };
    assert_eq!(ls.observe, Some(Duration::from_secs(90)));
    assert_eq!(ls.sort, Some(Column::Held));
    assert!(ls.csv && !ls.json && ls.limit == Some(3));
}

#[test]
fn a_column_is_sorted_by_its_name_or_its_title() {
    for column in Column::ALL {
        for name in [column.name(), column.title(), &column.title().to_lowercase()] {
            let Some(Command::Ls(ls)) = read(&["ls", "--sort", name]).unwrap().command else { panic!() };
            assert_eq!(ls.sort, Some(column), "{name}");
        }
    }
}

#[test]
fn wrong_usage_says_what_is_right() {
    for (args, part) in [
        (&["ls", "--sort", "hold"][..], "held"),
        (&["ls", "--observe", "20"], "500ms, 30s, 5m or 2h"),
        (&["watch", "--for", "soon"], "500ms, 30s, 5m or 2h"),
        (&["ls", "--pace", "0%"], "1% to 100%"),
        (&["ls", "--json", "--csv"], "cannot be used with"),
        (&["ls", "--env", "pord"], "prod"),
        (&["ls", "-t", "a", "-u", "redis://h"], "cannot be used with"),
        (&["list"], "ls"),
    ] {
        let early = read(args).unwrap_err();
        assert_eq!(early.exit_code, 2, "{args:?}");
        assert!(early.text.contains(part), "{args:?}: {}", early.text);
        assert_eq!(early.text.lines().count(), 1, "{args:?}: {}", early.text);
    }
    assert!(read(&[]).unwrap().command.is_none(), "without a command the console opens");
    assert_eq!(read(&["--help"]).unwrap_err().exit_code, 0);
    assert_eq!(read(&["ls", "--version"]).unwrap_err().exit_code, 2);
}

#[test]
fn a_url_in_the_wrong_place_is_quoted_without_its_password() {
    let early = read(&["ls", "redis://:sekret@h"]).unwrap_err();
    assert!(early.text.contains("redis://***@h") && !early.text.contains("sekret"), "{}", early.text);
}

#[test]
fn every_command_has_an_example_of_its_own() {
    let root = Cli::command();
    for command in root.get_subcommands() {
        let help =
            command.get_after_help().unwrap_or_else(|| panic!("{} has no example", command.get_name())).to_string();
        let example = help.lines().next().unwrap().strip_prefix("Example: lockscope ").unwrap();
        let words: Vec<&str> = example.split([' ']).take_while(|word| !matches!(*word, ">" | "|")).collect();
        // Quoted filters have spaces; the first words are enough to show that the example is for this command.
        assert_eq!(words[0], command.get_name());
    }
}

#[test]
fn commands_that_do_not_exist_yet_are_not_listed() {
    let names: Vec<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_string()).collect();
    let reading = ["ls", "show", "watch", "contention", "discover", "doctor"];
    let alerting = ["check", "tune", "record", "serve", "bundle"];
    let writing = ["release", "extend", "undo", "audit", "acquire", "probe", "scripts"];
    let others = ["demo", "info", "completions", "man", "config", "rules"];
    assert_eq!(names, [&reading[..], &alerting, &writing, &others].concat());
}

#[test]
fn paces_are_read_and_written_alike() {
    for text in ["fast", "polite", "25%"] {
        assert_eq!(text.parse::<PaceArg>().unwrap().to_string(), text);
    }
    for text in ["", "10", "101%", "-1%", "1.5%", "slow"] {
        assert!(text.parse::<PaceArg>().is_err(), "{text}");
    }
}

#[test]
fn man_pages_and_completions_are_written() {
    let mut out = Vec::new();
    write_man(None, &mut out).unwrap().unwrap();
    assert!(String::from_utf8_lossy(&out).contains("lockscope"));
    out.clear();
    write_man(Some("ls"), &mut out).unwrap().unwrap();
    let page = String::from_utf8_lossy(&out).into_owned();
    assert!(page.contains("observe") && page.contains("Example"), "{page}");
    assert!(write_man(Some("no"), &mut Vec::new()).is_none());
    out.clear();
    write_completions(clap_complete::Shell::Bash, &mut out).unwrap();
    assert!(String::from_utf8_lossy(&out).contains("discover"));
}
