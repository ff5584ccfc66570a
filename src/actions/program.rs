//! Turns a plan into the script that performs it: plain Lua, first the comparisons, then the commands.
//!
//! Why each plan gets a text of its own, instead of one script that interprets instructions: what the preview shows is
//! what runs, line by line; an operator can read it, and run it by hand (`release --dry-run --eval`); and a write is
//! described in one place, its [`Statement`]s, since no second table of what it takes is kept in Lua. The price is more
//! than one text in the server's script cache, which servers before Redis 7.4 never empty. So a text depends only on the
//! shape of the plan: keys and values are operands, never part of it, and any number of equal steps is one loop. What
//! is left are a few texts for each library.
//!
//! Values never become Lua, so nothing in a key or a token can be run.

mod layout;

use self::layout::Layout;
use super::check::{Check, Comparison};
use super::comparisons;
use super::gate::Refusal;
use super::plan::Plan;
use super::slots::Scripts;
use super::write::Write;
use crate::dialects::scripts::MARK;
use crate::dialects::statement::{Command, Operand, Statement};

/// The functions that scripts are made of, in the order in which they use each other.
const FUNCTIONS: &str = include_str!("program/functions.lua");

/// A script, ready to be run.
#[derive(Debug)]
pub(super) struct Program {
    pub text: String,
    pub keys: Vec<Vec<u8>>,
    pub args: Vec<Vec<u8>>,
    /// The comparisons as the script numbers them: by line, and by the repetition of that line.
    compared: Vec<Vec<Check>>,
}

impl Program {
    pub fn new<'w>(key: &[u8], checks: &[Check], writes: impl IntoIterator<Item = &'w Write>) -> Program {
        let mut layout = Layout::new(key, MARK);
        let (mut compared, mut comparing, mut asking, mut writing) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for group in by_comparison(checks) {
            let which = compared.len() + 1;
            let forms: Vec<Form> = group.iter().map(|check| Form::of_comparison(which, check.comparison())).collect();
            comparing.extend(layout.place(&forms).lines);
            compared.push(group);
        }
        let forms: Vec<Form> = writes.into_iter().map(|write| Form::of_statements(&write.statements())).collect();
        for group in forms.chunk_by(Form::is_alike) {
            let placed = layout.place(group);
            asking.extend(placed.asks);
            writing.extend(placed.lines);
        }
        let mut main = layout.loops();
        main.push("local stop".into());
        main.extend(comparing);
        main.extend(asking);
        main.push("if stop then return stop end".into());
        main.push("local fine, why = pcall(function()".into());
        main.extend(indented(writing));
        // This can fail only where the rights could not be checked before, as on Redis 6.
        main.extend(
            [
                "end)",
                "if not fine then",
                "  if type(why) == \"table\" then why = why.err end",
                "  return changed and { 2, tostring(why) } or redis.error_reply(tostring(why))",
                "end",
                "return { 1, woken, emptied, silent, ended, dropped, stayed, overdue, deaf }",
            ]
            .map(String::from),
        );
        let text = with_functions(&main.join("\n"));
        let (keys, args) = layout.operands();
        Program { text, keys, args, compared }
    }

    fn eval(self) -> Vec<Vec<u8>> {
        let Program { text, keys, args, .. } = self;
        let count = keys.len().to_string().into_bytes();
        [b"EVAL".to_vec(), text.into_bytes(), count].into_iter().chain(keys).chain(args).collect()
    }

    /// The comparison that the script names.
    pub fn check(&self, which: u64, nth: u64) -> Option<&Check> {
        let line = usize::try_from(which).ok()?.checked_sub(1)?;
        self.compared.get(line)?.get(usize::try_from(nth).ok()?)
    }
}

impl Plan {
    /// What the script compares, as its answer counts it: which comparison, and which of several alike.
    pub fn compared(&self) -> impl Iterator<Item = Vec<String>> {
        by_comparison(&self.checks).into_iter().map(|group| group.iter().map(Check::describe).collect())
    }

    /// The words of each EVAL that does what the plan does, one after the other: for a runbook.
    pub fn evals(&self) -> Result<Vec<Vec<Vec<u8>>>, Refusal> {
        let Scripts { own, wakes } = self.scripts()?;
        let own = Program::new(self.key.as_bytes(), &self.checks, own);
        let wakes = wakes.into_iter().map(|(key, wake)| Program::new(key.as_bytes(), &[], [wake]));
        Ok([own].into_iter().chain(wakes).map(Program::eval).collect())
    }
}

/// Groups comparisons of the same kind, in the order of the first of each. All must hold, so their order does not
/// matter. One that a test has switched off is left out.
fn by_comparison(checks: &[Check]) -> Vec<Vec<Check>> {
    let mut groups: Vec<(&'static str, Vec<Check>)> = Vec::new();
    for check in checks {
        let name = check.comparison().name;
        if !comparisons::is_made(name) {
            continue;
        }
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, group)) => group.push(check.clone()),
            None => groups.push((name, vec![check.clone()])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Lines of Lua with blanks where keys and values go, and what goes there.
#[derive(Default)]
struct Form {
    /// The conditions under which the lines run without an error.
    asks: Vec<String>,
    lines: Vec<String>,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
}

impl Form {
    fn of_comparison(which: usize, comparison: Comparison) -> Form {
        let mut form = Form::default();
        let key = comparison.key.map(|key| form.key(&key));
        let of = key.clone().unwrap_or_else(|| "false".into());
        let values = comparison.values.into_iter().map(|value| form.value(&value));
        let operands: Vec<String> = key.into_iter().chain(values).collect();
        let call = format!("{}({})", comparison.name, operands.join(", "));
        form.lines = vec![format!("stop = stop or differs({which}, {{nth}}, {of}, {call})")];
        form
    }

    fn of_statements(statements: &[Statement]) -> Form {
        let mut form = Form::default();
        statements.iter().for_each(|statement| form.add(statement));
        form
    }

    /// Whether the lines are the same, apart from their blanks.
    fn is_alike(&self, other: &Form) -> bool {
        self.asks == other.asks && self.lines == other.lines
    }

    fn key(&mut self, key: &[u8]) -> String {
        let known = self.keys.iter().position(|known| known == key).unwrap_or_else(|| {
            self.keys.push(key.to_vec());
            self.keys.len() - 1
        });
        format!("{{key{known}}}")
    }

    fn value(&mut self, value: &[u8]) -> String {
        self.values.push(value.to_vec());
        format!("{{value{}}}", self.values.len() - 1)
    }

    fn ask(&mut self, question: String) {
        self.asks.push(format!("stop = stop or {question}"));
    }

    /// Adds the check that the command would run, and returns it as operands of a call.
    fn command(&mut self, command: &Command) -> String {
        let mut words = vec![format!("\"{}\"", command.name)];
        for operand in &command.operands {
            let word = match operand {
                Operand::Key(key) => self.key(key),
                Operand::Value(value) | Operand::Shown(value, _) => self.value(value),
                Operand::Word(word) => format!("\"{word}\""),
            };
            words.push(word);
        }
        let call = words.join(", ");
        if let Some(kind) = kind_of(command.name) {
            self.ask(format!("is_a(\"{kind}\", {})", words[1]));
            if kind == "string" {
                self.ask(format!("is_number({})", words[1]));
            }
        }
        self.ask(format!("may({call})"));
        call
    }

    fn add(&mut self, statement: &Statement) {
        match statement {
            Statement::Run(command) => {
                let call = self.command(command);
                self.lines.push(format!("change({call})"));
            }
            Statement::Put { command, until } => {
                let call = self.command(command);
                let moment = self.value(until.unwrap_or(0).to_string().as_bytes());
                for key in command.operands.iter().take(1) {
                    let Operand::Key(key) = key else { continue };
                    let key = self.key(key);
                    self.ask(format!("may(\"EXISTS\", {key})"));
                    self.ask(format!("may(\"PEXPIREAT\", {key}, {moment})"));
                }
                self.lines.push(format!("put({moment}, {call})"));
            }
            Statement::Tell { channel, message, must } => {
                let (channel, message) = (self.value(channel), self.value(message));
                if *must {
                    self.ask(format!("may(\"PUBLISH\", {channel}, {message})"));
                }
                self.lines.push(format!("tell({channel}, {message})"));
            }
            Statement::TellAnswer { command, channel } => {
                let call = self.command(command);
                let channel = self.value(channel);
                self.ask(format!("may(\"PUBLISH\", {channel}, \"0\")"));
                self.lines.push(format!("tell({channel}, tostring(change({call})))"));
            }
            Statement::TellHead { queue, deadlines, channel_prefix } => {
                self.tell_head(queue, deadlines, channel_prefix);
            }
            Statement::DropWaiter { queue, deadlines, channel, waiter } => {
                self.drop_waiter((queue, deadlines), channel, waiter);
            }
            Statement::LastAsReaders { key, prefix } => {
                let (key, prefix) = (self.key(key), self.value(prefix));
                self.ask(format!("is_a(\"hash\", {key})"));
                self.may_all([
                    format!("\"HLEN\", {key}"),
                    format!("\"HGETALL\", {key}"),
                    format!("\"PTTL\", {key}"),
                    format!("\"PEXPIRE\", {key}, \"1\""),
                ]);
                self.lines.push(format!("last_as_readers({key}, {prefix})"));
            }
            Statement::WhenEmptied { key, besides, then } => {
                let key = self.key(key);
                let besides = self.value(besides.as_deref().unwrap_or_default());
                self.ask(format!("is_a(\"hash\", {key})"));
                self.ask(format!("may(\"HLEN\", {key})"));
                self.ask(format!("may(\"HEXISTS\", {key}, {besides})"));
                self.lines.push(format!("if is_emptied({key}, {besides}) then"));
                let before = self.lines.len();
                then.iter().for_each(|statement| self.add(statement));
                let inner = self.lines.split_off(before);
                self.lines.extend(indented(inner));
                self.lines.push("end".into());
            }
        }
    }

    /// The queue of a fair lock and the deadlines of those in it.
    fn queue(&mut self, queue: &[u8], deadlines: &[u8]) -> (String, String) {
        let (queue, deadlines) = (self.key(queue), self.key(deadlines));
        for (kind, key) in [("list", &queue), ("zset", &deadlines)] {
            self.ask(format!("is_a(\"{kind}\", {key})"));
        }
        (queue, deadlines)
    }

    fn tell_head(&mut self, queue: &[u8], deadlines: &[u8], channel_prefix: &[u8]) {
        let (queue, deadlines) = self.queue(queue, deadlines);
        let prefix = self.value(channel_prefix);
        self.may_all([
            format!("\"LINDEX\", {queue}, 0"),
            format!("\"ZSCORE\", {deadlines}, \"\""),
            format!("\"LPOP\", {queue}"),
            format!("\"ZREM\", {deadlines}, \"\""),
            format!("\"PUBLISH\", {prefix}, \"0\""),
        ]);
        self.lines.push(format!("tell_head({queue}, {deadlines}, {prefix})"));
    }

    fn drop_waiter(&mut self, (queue, deadlines): (&[u8], &[u8]), channel: &[u8], waiter: &[u8]) {
        let (queue, deadlines) = self.queue(queue, deadlines);
        let (channel, waiter) = (self.value(channel), self.value(waiter));
        self.ask(format!("may(\"LREM\", {queue}, \"0\", {waiter})"));
        self.ask(format!("may(\"ZREM\", {deadlines}, {waiter})"));
        self.ask(format!("may_count({channel})"));
        self.lines.push(match comparisons::is_made("unheard") {
            true => format!("drop_waiter({queue}, {deadlines}, {channel}, {waiter})"),
            false => format!("take_out({queue}, {deadlines}, {waiter})"),
        });
    }

    fn may_all<const N: usize>(&mut self, calls: [String; N]) {
        for call in calls {
            self.ask(format!("may({call})"));
        }
    }
}

/// The type that a command needs its key to have, if the key is there.
fn kind_of(command: &str) -> Option<&'static str> {
    match command {
        "HDEL" | "HSET" => Some("hash"),
        "ZADD" | "ZREM" => Some("zset"),
        "SADD" | "SREM" => Some("set"),
        "LPUSH" | "LREM" => Some("list"),
        "INCRBY" | "DECRBY" => Some("string"),
        _ => None,
    }
}

fn indented(lines: Vec<String>) -> impl Iterator<Item = String> {
    lines.into_iter().map(|line| format!("  {line}"))
}

/// Puts the functions that the lines use, and no others, in front of them.
fn with_functions(main: &str) -> String {
    let mut text = format!("{main}\n");
    for block in FUNCTIONS.trim_end().rsplit("\n\n") {
        let named = block.lines().find_map(|line| line.strip_prefix("local function ")?.split('(').next());
        if named.is_none_or(|name| calls(&text, name)) {
            text = format!("{block}\n\n{text}");
        }
    }
    text
}

/// Whether the text calls a function of this name, not one whose name ends like it.
fn calls(text: &str, name: &str) -> bool {
    let call = format!("{name}(");
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    text.match_indices(&call).any(|(at, _)| !text[..at].ends_with(is_part))
}

#[cfg(test)]
mod tests;
