//! Colours by meaning, from the sixteen of every terminal, so that the terminal's own scheme keeps them readable on
//! light and dark. No meaning depends on colour alone: without colours, bold, dim and reverse remain.

use ratatui::style::{Color, Modifier, Style};

use crate::model::State;
use crate::settings::cli::Environment;

/// How things look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Theme {
    pub color: bool,
    pub ascii: bool,
}

impl Theme {
    fn paint(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    pub fn state(self, state: State) -> Style {
        match state {
            State::Split => self.bad().add_modifier(Modifier::UNDERLINED),
            State::Lost | State::Orphan => self.bad(),
            State::NoTtl => self.paint(Color::Magenta).add_modifier(Modifier::BOLD),
            State::Stalled => self.warning().add_modifier(Modifier::BOLD),
            State::Contended | State::Long | State::Expiring => self.warning(),
            State::Held => Style::new(),
            State::Test => self.accent(),
            State::Done => self.dim(),
            State::Free => self.dim(),
        }
    }

    pub fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    pub fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub fn good(self) -> Style {
        self.paint(Color::Green)
    }

    pub fn warning(self) -> Style {
        self.paint(Color::Yellow)
    }

    pub fn bad(self) -> Style {
        self.paint(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn accent(self) -> Style {
        self.paint(Color::Cyan)
    }

    /// Production stands out in every colour scheme.
    pub fn environment(self, environment: Environment) -> Style {
        match environment {
            Environment::Prod => self.paint(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED),
            Environment::Staging | Environment::Dev => self.accent().add_modifier(Modifier::BOLD),
        }
    }

    /// The arrow beside the title of the column that is sorted by.
    pub fn order(self, reversed: bool) -> &'static str {
        if reversed { self.sign("▴", "^") } else { self.sign("▾", "v") }
    }

    /// A sign, or its ASCII stand-in.
    pub fn sign<'a>(self, sign: &'a str, ascii: &'a str) -> &'a str {
        if self.ascii { ascii } else { sign }
    }

    /// The colour of a bar by the share of the lease that is left; its length says the same.
    pub fn lease(self, share: f64) -> Style {
        match share {
            ..0.10 => self.bad(),
            ..0.25 => self.warning(),
            _ => self.good(),
        }
    }

    /// Counts over time as a line, a character each, the highest as high as the line is; a space: it was not counted.
    pub fn trend(self, counts: &[Option<u32>]) -> String {
        let steps: &[char] = if self.ascii {
            &['.', ':', '-', '=', '+', '*', '#']
        } else {
            &['▁', '▂', '▃', '▄', '▅', '▆', '▇']
        };
        let zero = if self.ascii { '_' } else { '·' };
        let most = counts.iter().flatten().copied().max().unwrap_or(0).max(1) as usize;
        let step = |count: usize| steps[(count * steps.len()).div_ceil(most).clamp(1, steps.len()) - 1];
        let sign = |count: &Option<u32>| match count {
            None => ' ',
            Some(0) => zero,
            Some(count) => step(*count as usize),
        };
        counts.iter().map(sign).collect()
    }

    /// What is left of a lease, as a bar of `width` cells.
    pub fn bar(self, share: f64, width: usize) -> String {
        let (full, empty) = if self.ascii { ('#', '.') } else { ('█', '░') };
        let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        (0..width).map(|cell| if cell < filled { full } else { empty }).collect()
    }
}
