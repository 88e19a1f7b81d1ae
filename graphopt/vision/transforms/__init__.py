"""Preparing images before they are fed (paddle.vision.transforms).

Images are Pillow images or NumPy arrays (H, W, C); Pillow is only needed for the former.
"""

from graphopt.frontend import lazy
from graphopt.vision.transforms.base import BaseTransform as BaseTransform
from graphopt.vision.transforms.base import Compose as Compose
from graphopt.vision.transforms.base import Normalize as Normalize
from graphopt.vision.transforms.base import ToTensor as ToTensor
from graphopt.vision.transforms.base import Transpose as Transpose
from graphopt.vision.transforms.color import BrightnessTransform as BrightnessTransform
from graphopt.vision.transforms.color import ColorJitter as ColorJitter
from graphopt.vision.transforms.color import ContrastTransform as ContrastTransform
from graphopt.vision.transforms.color import Grayscale as Grayscale
from graphopt.vision.transforms.color import HueTransform as HueTransform
from graphopt.vision.transforms.color import SaturationTransform as SaturationTransform
from graphopt.vision.transforms.framing import CenterCrop as CenterCrop
from graphopt.vision.transforms.framing import Pad as Pad
from graphopt.vision.transforms.framing import RandomCrop as RandomCrop
from graphopt.vision.transforms.framing import RandomErasing as RandomErasing
from graphopt.vision.transforms.framing import RandomResizedCrop as RandomResizedCrop
from graphopt.vision.transforms.framing import Resize as Resize
from graphopt.vision.transforms.functional import adjust_brightness as adjust_brightness
from graphopt.vision.transforms.functional import adjust_contrast as adjust_contrast
from graphopt.vision.transforms.functional import adjust_hue as adjust_hue
from graphopt.vision.transforms.functional import adjust_saturation as adjust_saturation
from graphopt.vision.transforms.functional import affine as affine
from graphopt.vision.transforms.functional import center_crop as center_crop
from graphopt.vision.transforms.functional import crop as crop
from graphopt.vision.transforms.functional import erase as erase
from graphopt.vision.transforms.functional import hflip as hflip
from graphopt.vision.transforms.functional import normalize as normalize
from graphopt.vision.transforms.functional import pad as pad
from graphopt.vision.transforms.functional import perspective as perspective
from graphopt.vision.transforms.functional import resize as resize
from graphopt.vision.transforms.functional import rotate as rotate
from graphopt.vision.transforms.functional import to_grayscale as to_grayscale
from graphopt.vision.transforms.functional import to_tensor as to_tensor
from graphopt.vision.transforms.functional import vflip as vflip
from graphopt.vision.transforms.geometry import RandomAffine as RandomAffine
from graphopt.vision.transforms.geometry import RandomHorizontalFlip as RandomHorizontalFlip
from graphopt.vision.transforms.geometry import RandomPerspective as RandomPerspective
from graphopt.vision.transforms.geometry import RandomRotation as RandomRotation
from graphopt.vision.transforms.geometry import RandomVerticalFlip as RandomVerticalFlip

lazy.attach(globals(), {"transforms": (__name__, "")})
