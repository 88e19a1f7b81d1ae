"""Reading and writing the files of Paddle's models; files are hostile until checked."""

from graphopt.ir.formats.limits import Limits as Limits
from graphopt.ir.formats.model import LoadedModel as LoadedModel
from graphopt.ir.formats.model import load_model as load_model
from graphopt.ir.formats.parameters import read_combined as read_combined
from graphopt.ir.formats.parameters import read_folder as read_folder
from graphopt.ir.formats.parameters import stored_variables as stored_variables
from graphopt.ir.formats.parameters import write_combined as write_combined
from graphopt.ir.formats.parameters import write_folder as write_folder
from graphopt.ir.formats.pickle.reader import read_pickle as read_pickle
from graphopt.ir.formats.pickle.writer import write_pickle as write_pickle
from graphopt.ir.formats.protobuf.program_desc import read_program as read_program
from graphopt.ir.formats.protobuf.program_desc import write_program as write_program
from graphopt.ir.formats.tensor_stream import SavedRows as SavedRows
from graphopt.ir.formats.tensor_stream import SavedTensor as SavedTensor
from graphopt.ir.formats.tensor_stream import read_selected_rows as read_selected_rows
from graphopt.ir.formats.tensor_stream import read_tensor as read_tensor
from graphopt.ir.formats.tensor_stream import write_selected_rows as write_selected_rows
from graphopt.ir.formats.tensor_stream import write_tensor as write_tensor
from graphopt.ir.program import saved_version as saved_version
