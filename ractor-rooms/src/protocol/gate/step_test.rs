use super::{Gate, GateEvent};
use crate::id::Seq;
use crate::protocol::cells;

/// The last number that an answer named against what the room has received decides; an append under way
/// or in doubt holds the gate whatever the numbers say.
const TABLE: &str = "
    Store   | RoomLive                           | Opening: Hold
    Store   | Ready, InFlight, NotReceived, Both | =
    Store   | Close                              | =

    Opening | RoomLive                           | reject
    Opening | Ready                              | Mailbox: FlushToMailbox
    Opening | InFlight, NotReceived, Both        | =
    Opening | Close                              | Store: FlushToStore

    Mailbox | RoomLive                           | reject
    Mailbox | Ready, InFlight, NotReceived, Both | =
    Mailbox | Close                              | Store: FlushToStore
";

const STATES: [&str; 3] = ["Store", "Opening", "Mailbox"];
const EVENTS: [&str; 6] = ["RoomLive", "Ready", "InFlight", "NotReceived", "Both", "Close"];

fn event(name: &str) -> GateEvent {
    let progress = |in_flight, highest| GateEvent::Progress {
        in_flight,
        highest: Seq(highest),
        received: Seq(4),
    };
    match name {
        "RoomLive" => GateEvent::RoomLive,
        "Ready" => progress(false, 4),
        "InFlight" => progress(true, 4),
        "NotReceived" => progress(false, 5),
        "Both" => progress(true, 5),
        "Close" => GateEvent::Close,
        other => panic!("{other}"),
    }
}

#[test]
fn every_cell_of_the_gate() {
    cells::check(TABLE, &STATES, &EVENTS, |state, name| {
        let before = match state {
            "Store" => Gate::Store,
            "Opening" => Gate::Opening,
            _ => Gate::Mailbox,
        };
        let mut gate = before;
        let stepped = gate.step(event(name));
        let stepped = stepped.map(|actions| actions.iter().map(|a| format!("{a:?}")).collect());
        cells::cell(state, &format!("{gate:?}"), stepped, gate == before)
    });
}
