//! The line between an operator and its API server, which can be cut.

use std::net::SocketAddr;

use kube::config::Kubeconfig;
use kube::{Client, Config};
use llsd_testbed::Testbed;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes bytes on until it is cut; then every connection ends, and none begins until it is mended.
pub struct Line {
    address: SocketAddr,
    is_up: watch::Sender<bool>,
}

impl Line {
    /// A line to the API server, on a port of its own.
    pub async fn to(testbed: &Testbed) -> Self {
        let server = testbed.state().server.clone();
        let target = server.trim_start_matches("https://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_up = watch::Sender::new(true);
        let state = is_up.subscribe();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass(near, target.clone(), state.clone()));
            }
        });
        Self { address, is_up }
    }

    /// A client with a user's identity, at the near end.
    pub async fn client(&self, testbed: &Testbed, user: &str) -> Client {
        let file = testbed.kubeconfig(user).unwrap();
        let mut kubeconfig = Kubeconfig::read_from(file).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
        cluster.server = Some(format!("https://{}", self.address));
        let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    /// Ends every connection.
    pub fn cut(&self) {
        self.is_up.send_replace(false);
    }

    /// Lets connections begin again.
    pub fn mend(&self) {
        self.is_up.send_replace(true);
    }
}

async fn pass(mut near: TcpStream, target: String, mut is_up: watch::Receiver<bool>) {
    if !*is_up.borrow_and_update() {
        return;
    }
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    tokio::select! {
        // How a connection ends is the business of its ends.
        _ = copy_bidirectional(&mut near, &mut far) => {}
        _ = is_up.wait_for(|up| !up) => {}
    }
}
