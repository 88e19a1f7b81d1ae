"""Multi-process jobs: the job of this process, its watchdog, steps across all trainers."""
