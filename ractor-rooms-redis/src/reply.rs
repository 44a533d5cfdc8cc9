//! A script's answer, read from the front. Nothing that it may hold makes this panic.

use bytes::Bytes;
use ractor_rooms::transport::TransportErr;
use redis::Value;

/// The parts of one item's answer.
#[derive(Debug)]
pub(crate) struct Reply {
    parts: std::vec::IntoIter<Value>,
}

/// The answer is not one that the script gives: the record was changed by hand, or it is of another
/// version.
#[derive(Debug)]
pub(crate) struct Damaged;

impl Damaged {
    /// The operation may have been carried out all the same.
    pub(crate) fn unanswered(self, what: &'static str) -> TransportErr {
        if let Some(unsaid) =
            crate::recurring::came(&format!("the answer to {what} cannot be read"))
        {
            tracing::warn!(what, unsaid, "the store gave an answer that cannot be read");
        }
        TransportErr::Failed { reason: format!("the answer to {what} cannot be read") }
    }
}

impl Reply {
    /// The answer to a call of one item.
    pub(crate) fn of_one(value: Value) -> Result<Self, Damaged> {
        match value {
            Value::Array(parts) => Ok(Self { parts: parts.into_iter() }),
            _ => Err(Damaged),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Bytes, Damaged> {
        bytes(self.parts.next().ok_or(Damaged)?).ok_or(Damaged)
    }

    pub(crate) fn text(&mut self) -> Result<String, Damaged> {
        String::from_utf8(self.bytes()?.into()).map_err(|_| Damaged)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Damaged> {
        self.text()?.parse().map_err(|_| Damaged)
    }

    pub(crate) fn small(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.number()?).map_err(|_| Damaged)
    }

    /// A flag: empty for no.
    pub(crate) fn flag(&mut self) -> Result<bool, Damaged> {
        Ok(!self.bytes()?.is_empty())
    }

    /// What is parsed by a function of `text`.
    pub(crate) fn parsed<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Damaged> {
        parse(&self.text()?).ok_or(Damaged)
    }

    /// An empty part is none.
    pub(crate) fn maybe<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Damaged> {
        let text = self.text()?;
        if text.is_empty() { Ok(None) } else { parse(&text).map(Some).ok_or(Damaged) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.len() == 0
    }
}

/// The bytes of a plain answer.
pub(crate) fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        Value::SimpleString(text) => Some(text.into()),
        Value::Int(number) => Some(number.to_string().into()),
        _ => None,
    }
}

/// The parts of a plain answer that is a list.
pub(crate) fn list(value: Value) -> Option<Vec<Bytes>> {
    match value {
        Value::Array(parts) => parts.into_iter().map(bytes).collect(),
        Value::Nil => Some(Vec::new()),
        _ => None,
    }
}
