//! A host dies at every point of a move: around each call of the source and of the adopter, before and after
//! the store carried it out, in memory and over Redis.

use ractor_rooms::MemoryTransport;
use ractor_rooms_redis::testing::PrivateServer;
use ractor_rooms_redis::{RedisConfig, RedisTransport};
use ractor_rooms_tests::crash::{Course, Point, Stores, crash_everywhere};
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

async fn in_memory<C: Class>(course: Course) -> Vec<Point> {
    crash_everywhere::<C, _>(&Memory, course).await
}

async fn over_redis<C: Class>(course: Course) -> Vec<Point> {
    crash_everywhere::<C, _>(&Redis::start().await, course).await
}

/// Makes the tests of one store.
macro_rules! kills {
    ($($name:ident($class:ty, $course:expr) = $run:ident;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                let points = $run::<$class>($course).await;
                println!("{} ways to die, around {points:?}", points.len() * 4);
            }
        )*
    };
}

kills! {
    a_host_dies_at_every_point_of_a_move_of_a_live_room(Live, Course::Adopted) = in_memory;
    a_host_dies_at_every_point_of_a_move_of_a_durable_room(Durable, Course::Adopted) = in_memory;
    a_host_dies_while_a_live_room_is_given_back(Live, Course::GivenBack) = in_memory;
    a_host_dies_while_a_durable_room_is_given_back(Durable, Course::GivenBack) = in_memory;
    over_redis_a_host_dies_at_every_point_of_a_move_of_a_live_room(Live, Course::Adopted) = over_redis;
    over_redis_a_host_dies_at_every_point_of_a_move_of_a_durable_room(Durable, Course::Adopted) = over_redis;
    over_redis_a_host_dies_while_a_live_room_is_given_back(Live, Course::GivenBack) = over_redis;
    over_redis_a_host_dies_while_a_durable_room_is_given_back(Durable, Course::GivenBack) = over_redis;
}
