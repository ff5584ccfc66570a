//! Opens another target beside the loop: the old one stays until the new one answers, and if it does not.

use std::pin::Pin;

use crate::alerts::Rules;
use crate::app::Event;
use crate::base::fault::Fault;
use crate::engine::Engine;
use crate::settings::Settings;
use crate::topology::Topology;

/// A target that answered, and is watched already.
pub struct Arrival {
    pub settings: Settings,
    pub topology: Topology,
    /// Its address without a password.
    pub shown: String,
    pub engine: Engine,
    pub rules: Rules,
}

pub type Opening = Pin<Box<dyn Future<Output = Result<Arrival, Fault>>>>;

/// Where else the console can go, and what is on the way.
#[derive(Default)]
pub struct Switch {
    /// Opens the target of this name; `None`: there is no other.
    open: Option<Box<dyn Fn(String) -> Opening>>,
    opening: Option<Opening>,
    arrival: Option<Arrival>,
}

impl Switch {
    pub fn by(open: impl Fn(String) -> Opening + 'static) -> Switch {
        Switch { open: Some(Box::new(open)), ..Switch::default() }
    }

    /// Begins to open this target.
    pub fn go(&mut self, name: String) {
        self.opening = self.open.as_ref().map(|open| open(name));
    }

    /// Nothing is opened after all.
    pub fn stay(&mut self) {
        (self.opening, self.arrival) = (None, None);
    }

    /// Tells how opening ended.
    pub async fn next(&mut self) -> Event {
        let Some(opening) = &mut self.opening else { return std::future::pending().await };
        let opened = opening.await;
        self.opening = None;
        Event::Opened(match opened {
            Ok(arrival) => {
                self.arrival = Some(arrival);
                Ok(())
            }
            Err(why) => Err(why.to_string()),
        })
    }

    /// The target that the console was left for; `None`: it was left for good.
    pub fn arrival(&mut self) -> Option<Arrival> {
        self.arrival.take()
    }
}
