"""voxpop on Flower: a ServerApp that conducts a study, and a ClientApp with which nodes take part in it.

Install it with `pip install voxpop-flower`, in an environment of its own: Flower pins other versions than voxpop's
service is tested with.
"""

from voxpop_flower.client import client_app, take_part
from voxpop_flower.server import Rules, conduct, server_app
from voxpop_flower.shares import helper_at
from voxpop_flower.study import DeviceStudy

__all__ = ["DeviceStudy", "Rules", "client_app", "conduct", "helper_at", "server_app", "take_part"]
