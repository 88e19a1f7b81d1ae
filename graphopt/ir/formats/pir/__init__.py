"""Programs of Paddle 3 (PIR) as Programs with Paddle's legacy operators."""

from graphopt.ir.formats.pir import handlers as handlers
from graphopt.ir.formats.pir.importer import import_pir as import_pir
