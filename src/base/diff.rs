//! The difference of two texts, line by line, as people read it. For small changes of a file: what is beyond them is left out.

/// One line of a difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    Same(String),
    Gone(String),
    New(String),
}

/// Unchanged lines around a change.
const AROUND: usize = 2;
/// Longer changes are told as all of one and then all of the other.
const LONGEST: usize = 400;

/// What changed, with a few lines around it; empty if nothing did.
pub fn difference(old: &str, new: &str) -> Vec<Line> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let before = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = |lines: usize| lines - before;
    let after = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let after = after.min(rest(old.len())).min(rest(new.len()));
    let (gone, came) = (&old[before..old.len() - after], &new[before..new.len() - after]);
    if gone.is_empty() && came.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<Line> = old[before.saturating_sub(AROUND)..before].iter().map(|line| same(line)).collect();
    lines.extend(middle(gone, came));
    lines.extend(old[old.len() - after..].iter().take(AROUND).map(|line| same(line)));
    lines
}

fn same(line: &str) -> Line {
    Line::Same(line.into())
}

/// By the longest sequence of lines that both have.
fn middle(old: &[&str], new: &[&str]) -> Vec<Line> {
    if old.len() > LONGEST || new.len() > LONGEST {
        let gone = old.iter().map(|line| Line::Gone(line.to_string()));
        return gone.chain(new.iter().map(|line| Line::New(line.to_string()))).collect();
    }
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for (i, one) in old.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            common[i][j] = if one == other { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            lines.push(Line::Gone(old[i].into()));
            i += 1;
        } else {
            lines.push(Line::New(new[j].into()));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str) -> Vec<String> {
        let sign = |line: Line| match line {
            Line::Same(text) => format!(" {text}"),
            Line::Gone(text) => format!("-{text}"),
            Line::New(text) => format!("+{text}"),
        };
        difference(old, new).into_iter().map(sign).collect()
    }

    #[test]
    fn only_what_changed_is_told_with_a_little_around_it() {
        let old = "a\nb\nc\nd\ne\nf\ng\n";
        assert_eq!(shown(old, "a\nb\nc\nD\ne\nF\ng\n"), [" b", " c", "-d", "+D", " e", "-f", "+F", " g"]);
        assert_eq!(shown(old, &format!("{old}h\n")), [" f", " g", "+h"]);
        assert_eq!(shown(old, old), [""; 0]);
        assert_eq!(shown("a\na\n", "a\n"), [" a", "-a"]);
    }
}
