//! The payment service and its idempotency layer, seen by clients over sockets.

mod common;

mod at_once;
mod command_line;
mod failures;
mod hang_ups;
mod keys;
mod marked;
mod processes;
mod refused;
mod replies;
mod scopes;
mod story;
mod unrecorded;
