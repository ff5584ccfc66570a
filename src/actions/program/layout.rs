//! The positions of a script's keys and values among its operands, and the loops over those of equal steps.

use super::{Form, indented};

/// The places of keys and values. Those of lines that run once come first; those of loops come after them, repetition
/// by repetition.
pub(super) struct Layout {
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
    repeated: Vec<Repeated>,
}

struct Repeated {
    /// The place of the number of repetitions.
    times: usize,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    /// How many keys and values each repetition takes.
    each: (usize, usize),
}

impl Layout {
    /// The first key and the first argument have places that every script knows.
    pub(super) fn new(key: &[u8], mark: &[u8]) -> Layout {
        Layout { keys: vec![key.to_vec()], args: vec![mark.to_vec()], repeated: Vec::new() }
    }

    /// The lines of forms that are alike, with their blanks filled.
    pub(super) fn place(&mut self, group: &[Form]) -> Form {
        let filled = |form: &Form, key: &dyn Fn(usize) -> String, value: &dyn Fn(usize) -> String, nth: &str| {
            let fill = |line: &String| {
                let line = (0..form.keys.len()).fold(line.replace("{nth}", nth), |line, blank| {
                    line.replace(&format!("{{key{blank}}}"), &key(blank))
                });
                (0..form.values.len())
                    .fold(line, |line, blank| line.replace(&format!("{{value{blank}}}"), &value(blank)))
            };
            let (asks, lines) = (form.asks.iter().map(fill).collect(), form.lines.iter().map(fill).collect());
            Form { asks, lines, ..Form::default() }
        };
        let [form] = group else { return self.repeat(group, filled) };
        let keys: Vec<usize> = form.keys.iter().map(|key| self.key(key)).collect();
        let first = self.args.len() + 1;
        self.args.extend(form.values.iter().cloned());
        filled(form, &|blank| format!("KEYS[{}]", keys[blank]), &|blank| format!("ARGV[{}]", first + blank), "0")
    }

    fn repeat(
        &mut self,
        group: &[Form],
        filled: impl Fn(&Form, &dyn Fn(usize) -> String, &dyn Fn(usize) -> String, &str) -> Form,
    ) -> Form {
        let Some(form) = group.first() else { return Form::default() };
        let (number, each) = (self.repeated.len() + 1, (form.keys.len(), form.values.len()));
        self.args.push(group.len().to_string().into_bytes());
        self.repeated.push(Repeated {
            times: self.args.len(),
            keys: group.iter().flat_map(|form| form.keys.iter().cloned()).collect(),
            values: group.iter().flat_map(|form| form.values.iter().cloned()).collect(),
            each,
        });
        let key = |blank| format!("KEYS[k{number} + i * {} + {}]", each.0, blank + 1);
        let value = |blank| format!("ARGV[a{number} + i * {} + {}]", each.1, blank + 1);
        let Form { asks, lines, .. } = filled(form, &key, &value, "i");
        let looped = |lines: Vec<String>| match lines.is_empty() {
            true => lines,
            false => {
                let head = format!("for i = 0, n{number} - 1 do");
                [head].into_iter().chain(indented(lines)).chain(["end".to_string()]).collect()
            }
        };
        Form { asks: looped(asks), lines: looped(lines), ..Form::default() }
    }

    fn key(&mut self, key: &[u8]) -> usize {
        let place = self.keys.iter().position(|known| known == key).unwrap_or_else(|| {
            self.keys.push(key.to_vec());
            self.keys.len() - 1
        });
        place + 1
    }

    /// How often each loop runs, and where its keys and values begin.
    pub(super) fn loops(&self) -> Vec<String> {
        let mut from = (self.keys.len().to_string(), self.args.len().to_string());
        let mut lines = Vec::new();
        for (number, repeated) in (1..).zip(&self.repeated) {
            let (times, each) = (repeated.times, repeated.each);
            lines.push(format!(
                "local n{number}, k{number}, a{number} = tonumber(ARGV[{times}]), {}, {}",
                from.0, from.1
            ));
            from = (format!("k{number} + n{number} * {}", each.0), format!("a{number} + n{number} * {}", each.1));
        }
        lines
    }

    pub(super) fn operands(self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let (mut keys, mut args) = (self.keys, self.args);
        for repeated in self.repeated {
            keys.extend(repeated.keys);
            args.extend(repeated.values);
        }
        (keys, args)
    }
}
