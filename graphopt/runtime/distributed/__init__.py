"""Many processes: which job this one belongs to, the watch over it, steps across all trainers."""
