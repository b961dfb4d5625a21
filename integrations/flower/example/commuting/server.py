"""The server: it conducts the study, and knows of people only what the trust model allows."""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from commuting.study import study
from voxpop_flower import Rules, conduct, helper_at

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Conduct the study to its end."""
    config = context.run_config
    helper = helper_at(str(config["helper"]), str(config["helper-key"])) if config["helper"] else None
    conduct(grid, study(config), Rules(seconds=float(config["seconds"]), patience=60.0), helper)
