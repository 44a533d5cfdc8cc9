//! One stream of pushes for an incarnation.

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use ractor_rooms::id::Incarnation;
use ractor_rooms::transport::{Push, TransportErr};

use super::Inner;
use crate::text;
use crate::wire::{self, Heard};

impl Inner {
    /// Listens first and numbers the stream then: whoever gets a higher number hears of this one, or
    /// this one of it.
    pub(super) async fn subscribe(
        &self,
        by: &Incarnation,
    ) -> Result<BoxStream<'static, Push>, TransportErr> {
        let subscription = self.link.subscribe(self.layout.channels(by)).await?;
        let host = text::host(&by.host);
        let mut channel = self.layout.host_channel(&by.host).to_vec();
        channel.extend_from_slice(by.number.to_string().as_bytes());
        let args = vec![Bytes::from(self.layout.publish()), channel.into()];
        let keys = vec![self.layout.stream(&host)];
        let (_, mut reply) = self.run(&self.scripts.stream, keys, args).await?;
        let own = reply.number().map_err(|error| error.unanswered("stream"))?;
        let heard = subscription.map(|(_, payload)| wire::hear(payload));
        let live = heard.take_while(move |heard| {
            let over = match heard {
                Some(Heard::Ended) => true,
                Some(Heard::Stream(number)) => *number > own,
                Some(Heard::Push(_) | Heard::Entries(_)) | None => false,
            };
            std::future::ready(!over)
        });
        let known = self.known.clone();
        let pushes = live.flat_map(move |heard| {
            let pushes = match heard {
                Some(Heard::Entries(entries)) => entries,
                Some(Heard::Push(push)) => {
                    // Who acquires the room is asked where its snapshot was.
                    if let Push::Offered { room, notice } = &push {
                        let pointer = notice.snapshot.as_ref().map(|s| text::pointer(&s.key));
                        known.point(room, pointer.unwrap_or_default());
                    }
                    vec![Some(push)]
                }
                Some(Heard::Ended | Heard::Stream(_)) => Vec::new(),
                None => vec![None],
            };
            let readable = pushes.into_iter().filter(|push| {
                if push.is_none()
                    && let Some(unsaid) = crate::recurring::came("a push cannot be read")
                {
                    tracing::warn!(unsaid, "a push that cannot be read was dropped");
                }
                push.is_some()
            });
            stream::iter(readable.flatten().collect::<Vec<_>>())
        });
        Ok(pushes.boxed())
    }
}
