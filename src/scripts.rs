//! The Lua scripts of `lua/`, each known by its name and its SHA1.
//!
//! Called by hash, and with the whole text only where the server does not know it (any more): a script is never half
//! there, and SCRIPT LOAD is not needed.

use redis::aio::ConnectionLike;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value, cmd};

/// One script.
#[derive(Debug)]
pub struct Script {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! script {
    ($name:literal) => {
        Script { name: $name, text: include_str!(concat!("../lua/", $name, ".lua")) }
    };
}

/// Compares what the operator saw and writes, in one step: freeing, extending and undoing are all made of it.
pub static CHANGE: Script = script!("change");

impl Script {
    /// The hash by which servers know it.
    pub fn sha1(&self) -> String {
        redis::Script::new(self.text).get_hash().to_string()
    }

    /// Runs it.
    pub async fn call(&self, conn: &mut impl ConnectionLike, keys: &[Vec<u8>], args: &[Vec<u8>]) -> RedisResult<Value> {
        match self.command("EVALSHA", &self.sha1(), keys, args).query_async(conn).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                self.command("EVAL", self.text, keys, args).query_async(conn).await
            }
            answer => answer,
        }
    }

    fn command(&self, how: &str, which: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
        let mut command = cmd(how);
        command.arg(which).arg(keys.len()).arg(keys).arg(args);
        command
    }
}
