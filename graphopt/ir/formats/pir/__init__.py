"""Programs of Paddle 3 (PIR) as Programs with Paddle's legacy operators."""

from graphopt.ir.formats.pir import special as special
from graphopt.ir.formats.pir.importer import import_pir as import_pir
