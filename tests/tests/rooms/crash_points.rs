//! A host dies at every point of a move: around each call of the source and of the adopter, before and after
//! the store carried it out, in memory and over Redis.

use ractor_rooms::MemoryTransport;
use ractor_rooms_redis::testing::PrivateServer;
use ractor_rooms_redis::{RedisConfig, RedisTransport};
use ractor_rooms_tests::crash::{Point, Role, Stores, crash_everywhere};
use ractor_rooms_tests::holes::{Class, Durable, Live};

/// Stores in this process.
struct Memory;

impl Stores for Memory {
    type Transport = MemoryTransport;

    async fn open(&self, hosts: usize) -> Vec<MemoryTransport> {
        vec![MemoryTransport::new(); hosts]
    }
}

/// Namespaces of one server, each used by a connection of its own for every host.
struct Redis {
    server: PrivateServer,
    next: std::sync::atomic::AtomicU32,
}

impl Redis {
    async fn start() -> Self {
        Self { server: PrivateServer::start().await.unwrap(), next: Default::default() }
    }
}

impl Stores for Redis {
    type Transport = RedisTransport;

    async fn open(&self, hosts: usize) -> Vec<RedisTransport> {
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let config =
            RedisConfig::new(self.server.url()).shards(4).namespace(format!("crash-{number}"));
        let mut transports = Vec::new();
        for _ in 0..hosts {
            transports.push(config.clone().connect().await.unwrap());
        }
        transports
    }
}

async fn in_memory<C: Class>(killed: Role) -> Vec<Point> {
    crash_everywhere::<C, _>(&Memory, killed).await
}

async fn over_redis<C: Class>(killed: Role) -> Vec<Point> {
    crash_everywhere::<C, _>(&Redis::start().await, killed).await
}

/// Makes the tests of one store.
macro_rules! kills {
    ($($name:ident($class:ty, $killed:expr) = $run:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let points = $run::<$class>($killed).await;
                println!("{} ways to die, around {points:?}", points.len() * 2);
            }
        )*
    };
}

kills! {
    the_source_of_a_live_room_dies_at_every_point(Live, Role::Source) = in_memory;
    the_adopter_of_a_live_room_dies_at_every_point(Live, Role::Adopter) = in_memory;
    the_source_of_a_durable_room_dies_at_every_point(Durable, Role::Source) = in_memory;
    the_adopter_of_a_durable_room_dies_at_every_point(Durable, Role::Adopter) = in_memory;
    over_redis_the_source_of_a_live_room_dies_at_every_point(Live, Role::Source) = over_redis;
    over_redis_the_adopter_of_a_live_room_dies_at_every_point(Live, Role::Adopter) = over_redis;
    over_redis_the_source_of_a_durable_room_dies_at_every_point(Durable, Role::Source) = over_redis;
    over_redis_the_adopter_of_a_durable_room_dies_at_every_point(Durable, Role::Adopter) = over_redis;
}
