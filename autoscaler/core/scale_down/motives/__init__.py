"""Why a worker in service leaves: one motive a file, in the order of `scale_down.MOTIVES`."""
