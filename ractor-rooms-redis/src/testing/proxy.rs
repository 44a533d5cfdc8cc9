//! A TCP proxy that breaks connections on purpose.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::error::{ServerErr, io};

/// What the proxy does with the connections it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Weather {
    /// Connections made before this count changed are closed.
    cuts: u64,
    /// Those made before this count changed are closed towards the client only.
    half_closes: u64,
    /// Those with a number below this one get no byte through.
    black_holed_below: u64,
    /// Whether new connections are refused.
    closed: bool,
    delay: Duration,
}

/// A TCP proxy to a server on the loopback. It ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    weather: watch::Sender<Weather>,
    accepted: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts one in front of a port of the loopback.
    ///
    /// # Errors
    /// [`ServerErr::Io`] when there is no free port.
    pub async fn start(target: u16) -> Result<Self, ServerErr> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(io("open a port"))?;
        let port = listener.local_addr().map_err(io("open a port"))?.port();
        let fair = Weather {
            cuts: 0,
            half_closes: 0,
            black_holed_below: 0,
            closed: false,
            delay: Duration::ZERO,
        };
        let weather = watch::Sender::new(fair);
        let (count, accepted) = watch::channel(0);
        let task = tokio::spawn(accept(listener, target, weather.subscribe(), count));
        Ok(Self { port, weather, accepted, task })
    }

    /// Where clients connect to.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections were made through it.
    pub fn connections(&self) -> u64 {
        *self.accepted.borrow()
    }

    /// Closes every connection; new ones are served.
    pub fn cut(&self) {
        self.weather.send_modify(|weather| weather.cuts += 1);
    }

    /// Ends what the server says on every connection: the client reads the end of the stream, and what it
    /// still writes arrives. New connections are served.
    pub fn half_close(&self) {
        self.weather.send_modify(|weather| weather.half_closes += 1);
    }

    /// Closes every connection, and new ones at once, until [`Proxy::heal`].
    pub fn close(&self) {
        self.weather.send_modify(|weather| {
            weather.cuts += 1;
            weather.closed = true;
        });
    }

    /// Lets no byte through on the connections that there are, and keeps them open; new ones are served.
    pub fn black_hole(&self) {
        let next = self.connections() + 1;
        self.weather.send_modify(|weather| weather.black_holed_below = next);
    }

    /// Lets no byte through on any connection, new ones too, and keeps all open, until [`Proxy::heal`].
    pub fn swallow(&self) {
        self.weather.send_modify(|weather| weather.black_holed_below = u64::MAX);
    }

    /// Delays every piece of data, in both directions.
    pub fn delay(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }

    /// Serves new connections again. What a black hole swallowed stays lost, and so do its connections.
    pub fn heal(&self) {
        let next = self.connections() + 1;
        self.weather.send_modify(|weather| {
            weather.black_holed_below = weather.black_holed_below.min(next);
            weather.closed = false;
            weather.delay = Duration::ZERO;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(
    listener: TcpListener,
    target: u16,
    weather: watch::Receiver<Weather>,
    count: watch::Sender<u64>,
) {
    let mut number = 0;
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if weather.borrow().closed {
            continue;
        }
        let target = SocketAddr::from((Ipv4Addr::LOCALHOST, target));
        let Ok(server) = TcpStream::connect(target).await else { continue };
        // A proxy that waits to fill packets would hide the client's own settings.
        let _ = client.set_nodelay(true);
        let _ = server.set_nodelay(true);
        number += 1;
        count.send_replace(number);
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        // They end with the proxy, whose end of the weather they watch.
        let (up, down) = (Way::ToServer, Way::ToClient);
        tokio::spawn(pass(from_client, to_server, weather.clone(), number, up));
        tokio::spawn(pass(from_server, to_client, weather.clone(), number, down));
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Weather {
    /// What ends a connection when it changes.
    fn ends(&self, way: Way) -> (u64, u64) {
        let half = match way {
            Way::ToServer => 0,
            Way::ToClient => self.half_closes,
        };
        (self.cuts, half)
    }
}

/// Passes bytes in one direction.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut weather: watch::Receiver<Weather>,
    number: u64,
    way: Way,
) {
    let ends = weather.borrow_and_update().ends(way);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            changed = weather.changed() => {
                if changed.is_err() || weather.borrow_and_update().ends(way) != ends {
                    return;
                }
                continue;
            }
        };
        let Ok(read @ 1..) = read else { return };
        let now = *weather.borrow();
        if number < now.black_holed_below {
            continue;
        }
        tokio::time::sleep(now.delay).await;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
