//! The choice of the column to sort by: each has a letter, and the same again turns the order round.

use crossterm::event::{KeyCode, KeyEvent};

use super::{App, Order, Overlay};
use crate::base::time::Time;
use crate::model::{Column, grouping};

impl Column {
    /// Its key in the choice.
    pub fn letter(self) -> char {
        match self {
            Column::State => 's',
            Column::Key => 'k',
            Column::Library => 'l',
            Column::Holder => 'o',
            Column::Held => 'h',
            Column::Ttl => 't',
            Column::Lease => 'e',
            Column::Renewals => 'r',
            Column::Fail => 'f',
            Column::Wait => 'w',
        }
    }
}

impl App {
    pub(super) fn choose_order(&mut self, key: KeyEvent, now: Time) {
        self.overlay = Overlay::None;
        let KeyCode::Char(letter) = key.code else { return };
        match self.sortable().iter().copied().find(|column| column.letter() == letter) {
            Some(column) => self.sort_by(column, now),
            None => self.say(format!("no column has the letter {letter}; the order stays"), now),
        }
    }

    /// The columns that the list has: groups have fewer.
    pub fn sortable(&self) -> &'static [Column] {
        if self.groups_by().is_some() { &grouping::SORTABLE } else { &Column::ALL }
    }

    pub(super) fn order_by(&mut self, order: Order) {
        self.list.order = order;
        self.scene.outdated = true;
    }

    fn sort_by(&mut self, column: Column, now: Time) {
        let reversed = self.list.order == Order { column, reversed: false };
        self.order_by(Order { column, reversed });
        let by = match column.order() {
            Some(order) => format!("{}: {}", column.name(), order.to_lowercase()),
            None => column.name().to_string(),
        };
        self.say(format!("sorted by {by}{}", if reversed { ", turned round" } else { "" }), now);
    }
}
