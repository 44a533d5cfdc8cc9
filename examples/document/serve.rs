//! The other side of `--processes`: this process is one host and nothing else.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use ractor_rooms::{HostErr, RoomHost};
use ractor_rooms_redis::ConnectErr;
use tokio::io::{BufReader, stdin};
use tokio::time::timeout;

use super::ballast::Ballast;
use super::client::PATIENCE;
use super::host::with_documents;
use super::names;
use super::options::Class;
use super::order::{Order, OrderErr, READY, STOP, read_line};
use super::reports;
use super::room::{Beginning, DeliveryClass, Durable, Live};

/// Why a process was not the host it should have been.
#[derive(Debug)]
pub(crate) enum ServeErr {
    /// It was not told what to be.
    Order(OrderErr),
    /// The store cannot be used.
    Connect(ConnectErr),
    /// The host did not start or stop.
    Host(HostErr),
    /// The host did not stop in time.
    TooSlow,
}

impl fmt::Display for ServeErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Order(why) => write!(f, "{why}"),
            Self::Connect(why) => write!(f, "the store cannot be used: {why}"),
            Self::Host(why) => write!(f, "{why}"),
            Self::TooSlow => write!(f, "it did not stop within {PATIENCE:?}"),
        }
    }
}

impl From<OrderErr> for ServeErr {
    fn from(why: OrderErr) -> Self {
        Self::Order(why)
    }
}

impl From<ConnectErr> for ServeErr {
    fn from(why: ConnectErr) -> Self {
        Self::Connect(why)
    }
}

impl From<HostErr> for ServeErr {
    fn from(why: HostErr) -> Self {
        Self::Host(why)
    }
}

/// Is the host that stdin tells it to be, until it is told to stop or its starter is gone.
pub(crate) async fn serve() -> Result<(), ServeErr> {
    let mut input = BufReader::new(stdin());
    let order = Order::read(&mut input).await?;
    let host = match order.delivery {
        Class::Live => start::<Live>(&order).await?,
        Class::Durable => start::<Durable>(&order).await?,
    };
    // Whoever does not read it will not wait for it either.
    let _ = writeln!(std::io::stdout(), "{READY}");
    let told = read_line(&mut input).await.unwrap_or_default();
    timeout(PATIENCE, host.shutdown()).await.map_err(|_| ServeErr::TooSlow)??;
    // The starter removes what the run leaves behind. If it is gone, every host does after its own last
    // word, so the last one leaves nothing.
    if told != STOP.as_bytes()
        && let Ok(Err(failure)) = timeout(PATIENCE, order.address.clear()).await
    {
        tracing::warn!(%failure, "the namespace of the run could not be removed");
    }
    Ok(())
}

async fn start<C: DeliveryClass>(order: &Order) -> Result<RoomHost, ServeErr> {
    let ballast = Ballast::new(order.state_bytes as usize, order.seed);
    let beginning = Arc::new(Beginning { text: order.text.clone(), ballast });
    let builder = RoomHost::builder(names::host(order.host), order.address.connect().await?);
    let builder = order.limits.apply(builder).on_fault(|fault| {
        if let Some(word) = reports::word(fault) {
            // A starter that is gone does not want to know.
            let _ = writeln!(std::io::stdout(), "{word}");
        }
    });
    Ok(with_documents::<C>(builder, order.host, &beginning).start().await?)
}
