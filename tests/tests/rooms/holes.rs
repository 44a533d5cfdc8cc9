//! Interleavings that break a naive version of the protocol, each as given, when and then. The numbers are
//! those of the list of holes; those that need a store outside this process are not here.

#[path = "holes_moving.rs"]
mod moving;
#[path = "holes_sending.rs"]
mod sending;
#[path = "holes_state.rs"]
mod state;

/// Makes a test of each class out of a function that takes the class as a type.
macro_rules! both {
    ($($name:ident;)*) => {
        mod live {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    super::$name::<ractor_rooms_tests::holes::Live>().await;
                }
            )*
        }
        mod durable {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $name() {
                    super::$name::<ractor_rooms_tests::holes::Durable>().await;
                }
            )*
        }
    };
}
pub(crate) use both;
