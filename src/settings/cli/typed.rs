//! `:tune` of the console: the words of `lockscope tune --prometheus`, typed.

use std::ffi::OsString;

use super::{Cli, Command, Global, Tune};

/// A rule of the user's own Prometheus that was asked for by typing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnTune {
    pub rule: String,
    words: Vec<String>,
}

impl OwnTune {
    /// Reads what stands after `:tune`. The sentence says what is wrong.
    pub fn parse(text: &str) -> Result<OwnTune, String> {
        const FORM: &str = "write :tune --prometheus URL --rule NAME";
        let asked = OwnTune { rule: String::new(), words: words(text)? };
        let (_, options) = asked.options()?;
        let Some(url) = options.prometheus else { return Err(format!("a Prometheus is needed; {FORM}")) };
        // What is typed is on the screen.
        if url.split_once("://").is_some_and(|(_, rest)| rest.split('/').next().unwrap_or_default().contains('@')) {
            return Err("type no login here; use --user NAME --password-file FILE".into());
        }
        let Some(rule) = options.rule else {
            return Err(format!("a rule is needed; {FORM} ('lockscope tune --prometheus URL' lists them)"));
        };
        match options.json {
            true => Err("--json is for the command".into()),
            false => Ok(OwnTune { rule, ..asked }),
        }
    }

    /// The options that the command would have.
    pub fn options(&self) -> Result<(Global, Tune), String> {
        let words = ["lockscope", "tune"].into_iter().chain(self.words.iter().map(String::as_str));
        let cli = Cli::read(words.map(OsString::from)).map_err(|early| early.text.trim().to_string())?;
        match cli.command {
            Some(Command::Tune(options)) => Ok((cli.global, options)),
            _ => Err("those are no options of 'tune'".into()),
        }
    }
}

/// Words between spaces; what is in quotes is one.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == c => quote = None,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quote is not closed".into()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_what_the_command_would_get() {
        let text = "--prometheus http://h:9090/p --rule Deep --header 'X-Scope-OrgID: a b' --from 2h";
        let asked = OwnTune::parse(text).unwrap();
        let (_, options) = asked.options().unwrap();
        assert_eq!((asked.rule.as_str(), &options.headers[..]), ("Deep", &["X-Scope-OrgID: a b".to_string()][..]));
    }

    #[test]
    fn what_is_missing_or_too_much_is_told() {
        for (text, part) in [
            ("", "--store"),
            ("--store x", "a Prometheus is needed"),
            ("--prometheus http://h", "a rule is needed"),
            ("--prometheus http://a:b@h --rule R", "type no login"),
            ("--prometheus http://h --rule 'R", "not closed"),
            ("--prometheus http://h --rule R --jsn", "--json"),
            ("--prometheus http://h --rule R --json", "for the command"),
        ] {
            let why = OwnTune::parse(text).unwrap_err();
            assert!(why.contains(part) && why.lines().count() == 1, "{text}: {why}");
        }
    }
}
