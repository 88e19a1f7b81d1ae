"""Objects that a `paddle.Model` calls while it runs (paddle.callbacks)."""

from graphopt.frontend.calls import publish
from graphopt.hapi.callbacks import Callback as Callback
from graphopt.hapi.callbacks import EarlyStopping as EarlyStopping
from graphopt.hapi.callbacks import LRScheduler as LRScheduler
from graphopt.hapi.callbacks import ModelCheckpoint as ModelCheckpoint
from graphopt.hapi.callbacks import ProgBarLogger as ProgBarLogger
from graphopt.hapi.callbacks import ReduceLROnPlateau as ReduceLROnPlateau
from graphopt.hapi.callbacks import VisualDL as VisualDL
from graphopt.hapi.callbacks import WandbCallback as WandbCallback

publish(globals(), __name__)
