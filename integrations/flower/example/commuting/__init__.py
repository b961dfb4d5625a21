"""An example of a Flower app: a ServerApp and a ClientApp."""
