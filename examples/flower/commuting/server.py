"""The server: it conducts the study, and knows of people only what the trust model allows."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from commuting.study import study
from voxpop.flower import Rules, conduct

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Conduct the study to its end."""
    conduct(grid, study(context.run_config), Rules(seconds=float(context.run_config["seconds"]), patience=60.0))
