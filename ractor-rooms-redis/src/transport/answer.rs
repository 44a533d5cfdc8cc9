//! From a script's answer to the record's.

use ractor_rooms::id::{Activation, Epoch, Generation, Life, Millis, Number, OutSeq, Seq};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Acquired, AppendAnswer, CloseAnswer, Entry, Lease, OfferAnswer, OwnerAnswer,
    Page, Phase, RecordView, Seen, Standing,
};

use crate::reply::{Damaged, Reply};
use crate::{text, wire};

/// Five parts, as `phase` in `room.lua` gives them; the first was read already.
pub(crate) fn phase(code: &str, reply: &mut Reply) -> Result<Phase, Damaged> {
    let (to, deadline) = (reply.text()?, reply.text()?);
    let (why, reason) = (reply.text()?, reply.text()?);
    text::parse_phase(code, &to, &deadline, &why, &reason).ok_or(Damaged)
}

/// What decides whether anybody will handle what was appended.
#[derive(Debug)]
pub(crate) struct Stand {
    pub(crate) owner: Option<Activation>,
    pub(crate) phase: String,
    pub(crate) to: String,
    pub(crate) deadline: String,
    pub(crate) now: u64,
}

impl Stand {
    pub(crate) fn is_open(&self) -> bool {
        self.deadline.parse::<u64>().is_ok_and(|deadline| self.now < deadline)
    }
}

/// The short answer to an append that was accepted: `seq life owner`.
pub(crate) fn appended(text: &[u8]) -> Option<(Seq, Life, &str)> {
    let mut parts = std::str::from_utf8(text).ok()?.splitn(3, ' ');
    let (seq, life) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((Seq(seq), Life(life), parts.next()?))
}

/// An append's answer, to which the standing is still to be added.
pub(crate) fn append(
    code: &str,
    reply: &mut Reply,
) -> Result<(AppendAnswer, Option<Stand>), Damaged> {
    let answer = match code {
        "missing" => AppendAnswer::Missing,
        "other" => AppendAnswer::OtherLife { life: Life(reply.number()?) },
        "closed" => AppendAnswer::Closed { reason: reply.text()? },
        "unproved" => AppendAnswer::Unproved { seq: Seq(reply.number()?) },
        "full" => AppendAnswer::Full { seq: Seq(reply.number()?) },
        "partial" => {
            AppendAnswer::Partial { last: Number(reply.number()?), seq: Seq(reply.number()?) }
        }
        "gap" => AppendAnswer::Gap { last: Number(reply.number()?), seq: Seq(reply.number()?) },
        "fenced" => AppendAnswer::Fenced {
            epoch: reply.number()?,
            last: reply.maybe(|text| text.parse().ok().map(Number))?,
            now: Millis(reply.number()?),
        },
        "accepted" | "duplicate" => {
            let (last, seq) = (Number(reply.number()?), Seq(reply.number()?));
            let life = Life(reply.number()?);
            let stand = Stand {
                owner: reply.parsed(text::parse_owner)?,
                phase: reply.text()?,
                to: reply.text()?,
                deadline: reply.text()?,
                now: reply.number()?,
            };
            let standing = Standing::NeedsHost;
            let answer = if code == "accepted" {
                AppendAnswer::Accepted { last, seq, life, standing }
            } else {
                AppendAnswer::Duplicate { last, seq, life, standing }
            };
            return Ok((answer, Some(stand)));
        }
        _ => return Err(Damaged),
    };
    Ok((answer, None))
}

pub(crate) fn acquire(
    code: &str,
    reply: &mut Reply,
    by: Activation,
    generation: Generation,
) -> Result<AcquireAnswer, Damaged> {
    Ok(match code {
        "missing" => AcquireAnswer::Missing,
        "nosession" => AcquireAnswer::NoSession,
        "unproved" => AcquireAnswer::Unproved,
        _ => {
            let phase = phase(code, reply)?;
            match reply.text()?.as_str() {
                "refused" => {
                    let epoch = Epoch(reply.number()?);
                    let owner = reply.parsed(text::parse_owner)?;
                    AcquireAnswer::Refused { seen: Seen { epoch, owner }, phase }
                }
                "lost" => AcquireAnswer::SnapshotLost {
                    snapshot: Box::new(reply.parsed(text::parse_snapshot)?),
                },
                "acquired" => AcquireAnswer::Acquired(Box::new(acquired(reply, by, generation)?)),
                _ => return Err(Damaged),
            }
        }
    })
}

fn acquired(
    reply: &mut Reply,
    by: Activation,
    generation: Generation,
) -> Result<Acquired, Damaged> {
    let lease = Lease { epoch: Epoch(reply.number()?), owner: by, generation };
    let life = Life(reply.number()?);
    let snapshot = reply.maybe(text::parse_snapshot)?;
    let (out_seq, head) = (OutSeq(reply.number()?), Seq(reply.number()?));
    let pruned = reply.maybe(|text| text.parse().ok().map(Millis))?;
    let (recovered, regressed) = (reply.flag()?, reply.flag()?);
    let (dead_letters, more) = (reply.small()?, reply.flag()?);
    let page = Page { entries: entries(reply)?, more, head };
    Ok(Acquired {
        lease,
        life,
        snapshot,
        out_seq,
        head,
        pruned,
        recovered,
        regressed,
        dead_letters,
        page,
    })
}

pub(crate) fn owner(code: &str, reply: &mut Reply) -> Result<OwnerAnswer, Damaged> {
    Ok(match code {
        "done" => OwnerAnswer::Done,
        "settled" => OwnerAnswer::Settled { last: reply.parsed(text::parse_position)? },
        "fenced" => OwnerAnswer::Fenced { epoch: Epoch(reply.number()?) },
        "nosnapshot" => OwnerAnswer::NoSnapshot,
        "count" => OwnerAnswer::Count(reply.small()?),
        _ => return Err(Damaged),
    })
}

pub(crate) fn offer(code: &str, reply: &mut Reply) -> Result<OfferAnswer, Damaged> {
    Ok(match code {
        "done" => OfferAnswer::Done { life: Life(reply.number()?) },
        "missing" => OfferAnswer::Missing,
        "unproved" => OfferAnswer::Unproved,
        _ => {
            let phase = phase(code, reply)?;
            if reply.text()? != "refused" {
                return Err(Damaged);
            }
            OfferAnswer::Refused { phase, life: Life(reply.number()?) }
        }
    })
}

pub(crate) fn close(code: &str, reply: &mut Reply) -> Result<CloseAnswer, Damaged> {
    Ok(match code {
        "done" => CloseAnswer::Done { dead_letters: reply.small()? },
        "fenced" => CloseAnswer::Fenced { epoch: Epoch(reply.number()?) },
        "notdrained" => CloseAnswer::NotDrained { unhandled: reply.number()? },
        _ => return Err(Damaged),
    })
}

pub(crate) fn page(code: &str, reply: &mut Reply) -> Result<Result<Page, Epoch>, Damaged> {
    match code {
        "fenced" => return Ok(Err(Epoch(reply.number()?))),
        "page" => {}
        _ => return Err(Damaged),
    }
    let (head, more) = (Seq(reply.number()?), reply.flag()?);
    Ok(Ok(Page { entries: entries(reply)?, more, head }))
}

/// The rest of an answer, as `add_page` in `room.lua` gives it.
fn entries(reply: &mut Reply) -> Result<Vec<Entry>, Damaged> {
    let mut entries = Vec::new();
    while !reply.is_empty() {
        let (id, header, batch) = (reply.text()?, reply.bytes()?, reply.bytes()?);
        entries.push(wire::entry(&id, header, batch).ok_or(Damaged)?);
    }
    Ok(entries)
}

/// A view whose owner is still to be looked up.
pub(crate) fn view(code: &str, reply: &mut Reply) -> Result<Option<RecordView>, Damaged> {
    if code == "missing" {
        return Ok(None);
    }
    let phase = phase(code, reply)?;
    if reply.text()? != "view" {
        return Err(Damaged);
    }
    let life = Life(reply.number()?);
    let seen = Seen { epoch: Epoch(reply.number()?), owner: reply.parsed(text::parse_owner)? };
    let settled = reply.flag()?;
    let seq = Seq(reply.number()?);
    let last = reply.parsed(text::parse_position)?;
    let snapshot = reply.maybe(text::parse_snapshot)?;
    let backlog = reply.flag()?;
    let out_seq = OutSeq(reply.number()?);
    let declined = reply.parsed(text::parse_hosts)?;
    Ok(Some(RecordView {
        life,
        seen,
        owner_alive: false,
        settled,
        phase,
        seq,
        last,
        snapshot,
        backlog,
        out_seq,
        declined,
        crashes: reply.small()?,
        dead_letters: reply.small()?,
    }))
}
