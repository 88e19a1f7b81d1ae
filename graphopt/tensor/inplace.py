"""The in-place forms of functions. In a static program each makes a new variable, as in Paddle."""

from __future__ import annotations

from graphopt.nn.functional import activation
from graphopt.tensor import (
    accumulate,
    elementary,
    linalg,
    logic,
    manipulation,
    math,
    places,
    positions,
    ranges,
    search,
    special,
    stat,
)

sigmoid_ = activation.sigmoid
renorm_ = accumulate.renorm
acos_ = elementary.acos
acosh_ = elementary.acosh
asin_ = elementary.asin
asinh_ = elementary.asinh
atan_ = elementary.atan
atanh_ = elementary.atanh
ceil_ = elementary.ceil
cos_ = elementary.cos
cosh_ = elementary.cosh
digamma_ = elementary.digamma
erfinv_ = elementary.erfinv
expm1_ = elementary.expm1
floor_ = elementary.floor
frac_ = elementary.frac
lgamma_ = elementary.lgamma
log10_ = elementary.log10
log1p_ = elementary.log1p
log2_ = elementary.log2
logit_ = elementary.logit
reciprocal_ = elementary.reciprocal
round_ = elementary.round
sin_ = elementary.sin
sinh_ = elementary.sinh
tan_ = elementary.tan
trunc_ = elementary.trunc
addmm_ = linalg.addmm
t_ = linalg.t
transpose_ = linalg.transpose
bitwise_and_ = logic.bitwise_and
bitwise_not_ = logic.bitwise_not
bitwise_or_ = logic.bitwise_or
bitwise_xor_ = logic.bitwise_xor
equal_ = logic.equal
greater_equal_ = logic.greater_equal
greater_than_ = logic.greater_than
less_equal_ = logic.less_equal
less_than_ = logic.less_than
logical_and_ = logic.logical_and
logical_not_ = logic.logical_not
logical_or_ = logic.logical_or
logical_xor_ = logic.logical_xor
not_equal_ = logic.not_equal
cast_ = manipulation.cast
flatten_ = manipulation.flatten
abs_ = math.abs
add_ = math.add
clip_ = math.clip
cumprod_ = math.cumprod
cumsum_ = math.cumsum
divide_ = math.divide
erf_ = math.erf
exp_ = math.exp
floor_divide_ = math.floor_divide
floor_mod_ = math.floor_mod
lerp_ = math.lerp
log_ = math.log
mod_ = math.mod
multiply_ = math.multiply
neg_ = math.neg
pow_ = math.pow
remainder_ = math.remainder
rsqrt_ = math.rsqrt
scale_ = math.scale
sqrt_ = math.sqrt
square_ = math.square
subtract_ = math.subtract
tanh_ = math.tanh
index_add_ = places.index_add
index_fill_ = places.index_fill
index_put_ = places.index_put
tril_ = ranges.tril
triu_ = ranges.triu
masked_fill_ = positions.masked_fill
put_along_axis_ = positions.put_along_axis
where_ = search.where
gcd_ = special.gcd
hypot_ = special.hypot
i0_ = special.i0
lcm_ = special.lcm
ldexp_ = special.ldexp
multigammaln_ = special.multigammaln
polygamma_ = special.polygamma
nan_to_num_ = stat.nan_to_num
